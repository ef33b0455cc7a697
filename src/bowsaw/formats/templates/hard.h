/* The position of the nearest word, the first of equally near ones. */
static inline size_t bowsaw_code(const bowsaw_input *descriptor)
{
    size_t code = 0, k;
    bowsaw_distance nearest = bowsaw_squared_distance(descriptor, 0, 0, 1);
    for (k = 1; k < BOWSAW_N_WORDS; ++k) {
        const bowsaw_distance distance = bowsaw_squared_distance(descriptor, k, nearest, 0);
        if (distance < nearest) {
            nearest = distance;
            code = k;
        }
    }
    return code;
}

/* The share of each word among the codes of n descriptors, stored one after another. */
static inline void bowsaw_histogram(
    const bowsaw_input *descriptors, size_t n, float histogram[BOWSAW_N_WORDS])
{
    size_t i, k;
    for (k = 0; k < BOWSAW_N_WORDS; ++k)
        histogram[k] = 0.0f;
    for (i = 0; i < n; ++i)
        histogram[bowsaw_code(descriptors + i * BOWSAW_N_DIMS)] += 1.0f;
    for (k = 0; k < BOWSAW_N_WORDS && n > 0; ++k)
        histogram[k] /= (float)n;
}
