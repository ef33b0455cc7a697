typedef struct {
    bowsaw_block block;
    bowsaw_score scores[BOWSAW_N_WORDS + 1][BOWSAW_BLOCK];
} bowsaw_coder;

/* The exponential of numbers up to 0, 2 to the -100 at least, by Chebyshev's polynomial. */
static inline void bowsaw_exponential(const float *exponents, float *out)
{
    int32_t bits[BOWSAW_BLOCK];
    float powers[BOWSAW_BLOCK];
    size_t i;
    for (i = 0; i < BOWSAW_BLOCK; ++i) {
        const float t = exponents[i] * 1.44269504f, within = t > -100.0f ? t : -100.0f;
        const int32_t whole = (int32_t)(within - 0.5f);
        const float f = within - (float)whole;
        float p = 1.5469736536e-4f * f + 1.3400437310e-3f;
        p = p * f + 9.6180252731e-3f;
        p = p * f + 5.5503271520e-2f;
        p = p * f + 2.4022650719e-1f;
        p = p * f + 6.9314718246e-1f;
        out[i] = p * f + 1.0f;
        bits[i] = (whole + 127) * 8388608;
    }
    memcpy(powers, bits, sizeof powers);
    for (i = 0; i < BOWSAW_BLOCK; ++i)
        out[i] *= powers[i];
}

/* Add the shares of n descriptors, at most BOWSAW_BLOCK, to a histogram. */
static inline void bowsaw_add(
    bowsaw_coder *coder, const bowsaw_input *rows, size_t n, float histogram[BOWSAW_N_WORDS])
{
    bowsaw_score best[BOWSAW_BLOCK];
    float weights[BOWSAW_BLOCK], totals[BOWSAW_BLOCK];
    size_t i, k, turn;
    bowsaw_load(&coder->block, rows, n);
    for (k = 0; k < BOWSAW_N_WORDS; k += 2)
        bowsaw_compare(&coder->block, k, k + 1 < BOWSAW_N_WORDS ? k + 1 : k, coder->scores[k],
                       coder->scores[k + 1]);
    for (i = 0; i < BOWSAW_BLOCK; ++i) {
        best[i] = coder->scores[0][i];
        totals[i] = 0.0f;
    }
    for (k = 1; k < BOWSAW_N_WORDS; ++k)
        for (i = 0; i < BOWSAW_BLOCK; ++i)
            best[i] = coder->scores[k][i] > best[i] ? coder->scores[k][i] : best[i];
    /* Twice, which takes less memory than to keep the weights. */
    for (turn = 0; turn < 2; ++turn) {
        for (k = 0; k < BOWSAW_N_WORDS; ++k) {
            float sum = 0.0f;
            for (i = 0; i < BOWSAW_BLOCK; ++i)
                weights[i] = BOWSAW_SHARPNESS * (float)(coder->scores[k][i] - best[i]);
            bowsaw_exponential(weights, weights);
            if (turn == 0)
                for (i = 0; i < BOWSAW_BLOCK; ++i)
                    totals[i] += weights[i];
            else
                for (i = 0; i < BOWSAW_BLOCK; ++i)
                    sum += weights[i] * totals[i];
            histogram[k] += sum;
        }
        for (i = 0; i < BOWSAW_BLOCK; ++i)
            totals[i] = i < n ? 1.0f / totals[i] : 0.0f;
    }
}
