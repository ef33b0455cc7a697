/* The nearest word of each of n descriptors, at most BOWSAW_BLOCK; the first of equally near ones. */
static inline void bowsaw_codes(
    bowsaw_block *block, const bowsaw_input *rows, size_t n, size_t codes[BOWSAW_BLOCK])
{
    bowsaw_score best[BOWSAW_BLOCK], next[BOWSAW_BLOCK], scores[2][BOWSAW_BLOCK];
    int32_t found[BOWSAW_BLOCK];
    size_t i, k, m;
    bowsaw_load(block, rows, n);
    for (k = 0; k < BOWSAW_N_WORDS; k += 2) {
        bowsaw_compare(block, k, k + 1 < BOWSAW_N_WORDS ? k + 1 : k, scores[0], scores[1]);
        if (k == 0)
            for (i = 0; i < BOWSAW_BLOCK; ++i) {
                best[i] = scores[0][i];
                next[i] = BOWSAW_LOWEST;
                found[i] = 0;
            }
        for (m = k == 0; m < 2 && k + m < BOWSAW_N_WORDS; ++m)
            for (i = 0; i < BOWSAW_BLOCK; ++i) {
                const bowsaw_score score = scores[m][i], old = best[i];
                const int32_t code = (int32_t)(k + m), before = found[i];
                const bowsaw_score loser = score > old ? old : score;
                best[i] = score > old ? score : old;
                found[i] = score > old ? code : before;
                next[i] = loser > next[i] ? loser : next[i];
            }
    }
    for (i = 0; i < n; ++i) {
        codes[i] = (size_t)found[i];
        if (bowsaw_in_doubt(block, i, best[i] - next[i]))
            codes[i] = bowsaw_settle(block, i);
    }
}

/* The position of the nearest word of one descriptor. */
static inline size_t bowsaw_code(const bowsaw_input *descriptor)
{
    bowsaw_block block;
    size_t codes[BOWSAW_BLOCK];
    bowsaw_codes(&block, descriptor, 1, codes);
    return codes[0];
}

typedef struct {
    bowsaw_block block;
} bowsaw_coder;

/* Add n descriptors, at most BOWSAW_BLOCK, to a histogram. */
static inline void bowsaw_add(
    bowsaw_coder *coder, const bowsaw_input *rows, size_t n, float histogram[BOWSAW_N_WORDS])
{
    size_t codes[BOWSAW_BLOCK], i;
    bowsaw_codes(&coder->block, rows, n, codes);
    for (i = 0; i < n; ++i)
        histogram[codes[i]] += 1.0f;
}
