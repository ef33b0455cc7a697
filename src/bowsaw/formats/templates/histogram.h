
/* The mean over n descriptors, stored one after another. */
static inline void bowsaw_histogram(
    const bowsaw_input *descriptors, size_t n, float histogram[BOWSAW_N_WORDS])
{
    bowsaw_coder coder;
    size_t i, k;
    for (k = 0; k < BOWSAW_N_WORDS; ++k)
        histogram[k] = 0.0f;
    for (i = 0; i < n; i += BOWSAW_BLOCK)
        bowsaw_add(&coder, descriptors + i * BOWSAW_N_INPUTS,
                   n - i < BOWSAW_BLOCK ? n - i : BOWSAW_BLOCK, histogram);
    for (k = 0; k < BOWSAW_N_WORDS && n > 0; ++k)
        histogram[k] /= (float)n;
}
