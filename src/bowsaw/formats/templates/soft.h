typedef struct {
    bowsaw_block block;
    bowsaw_score scores[BOWSAW_N_WORDS + 1][BOWSAW_BLOCK];
    float shares[BOWSAW_N_WORDS];
} bowsaw_coder;

/* Add the shares of n descriptors, at most BOWSAW_BLOCK, to a histogram. */
static inline void bowsaw_add(
    bowsaw_coder *coder, const bowsaw_input *rows, size_t n, float histogram[BOWSAW_N_WORDS])
{
    size_t i, k;
    bowsaw_load(&coder->block, rows, n);
    for (k = 0; k < BOWSAW_N_WORDS; k += 2)
        bowsaw_compare(&coder->block, k, k + 1 < BOWSAW_N_WORDS ? k + 1 : k, coder->scores[k],
                       coder->scores[k + 1]);
    for (i = 0; i < n; ++i) {
        bowsaw_score best = coder->scores[0][i];
        float total = 0.0f;
        for (k = 1; k < BOWSAW_N_WORDS; ++k)
            best = coder->scores[k][i] > best ? coder->scores[k][i] : best;
        for (k = 0; k < BOWSAW_N_WORDS; ++k) {
            coder->shares[k] = expf(BOWSAW_SHARPNESS * (float)(coder->scores[k][i] - best));
            total += coder->shares[k];
        }
        for (k = 0; k < BOWSAW_N_WORDS; ++k)
            histogram[k] += coder->shares[k] / total;
    }
}
