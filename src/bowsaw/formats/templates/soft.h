/* Factor of a squared distance in the exponent. */
#define BOWSAW_SHARPNESS SHARPNESS

/* The share of each word in one descriptor; they sum to 1. Returns the position of the largest. */
static inline size_t bowsaw_code(const bowsaw_input *descriptor, float shares[BOWSAW_N_WORDS])
{
    size_t code = 0, k;
    float total = 0.0f, nearest;
    for (k = 0; k < BOWSAW_N_WORDS; ++k) {
        shares[k] = (float)bowsaw_squared_distance(descriptor, k, 0, 1);
        if (shares[k] < shares[code])
            code = k;
    }
    nearest = shares[code];
    for (k = 0; k < BOWSAW_N_WORDS; ++k) {
        shares[k] = expf(-BOWSAW_SHARPNESS * (shares[k] - nearest));
        total += shares[k];
    }
    for (k = 0; k < BOWSAW_N_WORDS; ++k)
        shares[k] /= total;
    return code;
}

/* The mean share of each word in n descriptors, stored one after another. */
static inline void bowsaw_histogram(
    const bowsaw_input *descriptors, size_t n, float histogram[BOWSAW_N_WORDS])
{
    float shares[BOWSAW_N_WORDS];
    size_t i, k;
    for (k = 0; k < BOWSAW_N_WORDS; ++k)
        histogram[k] = 0.0f;
    for (i = 0; i < n; ++i) {
        bowsaw_code(descriptors + i * BOWSAW_N_DIMS, shares);
        for (k = 0; k < BOWSAW_N_WORDS; ++k)
            histogram[k] += shares[k];
    }
    for (k = 0; k < BOWSAW_N_WORDS && n > 0; ++k)
        histogram[k] /= (float)n;
}
