

/* Descriptors that are compared with the words at once, and what that needs; fewer need less. */
#ifndef BOWSAW_BLOCK
#define BOWSAW_BLOCK 32
#endif

typedef int32_t bowsaw_score;
typedef struct {
    int16_t rows[BOWSAW_BLOCK][BOWSAW_N_DIMS];
} bowsaw_block;

static inline void bowsaw_load(bowsaw_block *block, const bowsaw_input *rows, size_t n)
{
    size_t i, d;
    for (i = 0; i < BOWSAW_BLOCK; ++i)
        for (d = 0; d < BOWSAW_N_DIMS; ++d)
            block->rows[i][d] = (int16_t)rows[(i < n ? i : 0) * BOWSAW_N_DIMS + d];
}

/* Twice the products with words k and m, minus their squared norms: the larger, the nearer. */
static inline void bowsaw_compare(
    const bowsaw_block *block, size_t k, size_t m, bowsaw_score *one, bowsaw_score *two)
{
    int16_t first[BOWSAW_N_DIMS], second[BOWSAW_N_DIMS];
    size_t i, d;
    for (d = 0; d < BOWSAW_N_DIMS; ++d) {
        first[d] = (int16_t)bowsaw_words[k][d];
        second[d] = (int16_t)bowsaw_words[m][d];
    }
    for (i = 0; i < BOWSAW_BLOCK; ++i) {
        const int16_t *row = block->rows[i];
        int32_t a = 0, b = 0;
        for (d = 0; d < BOWSAW_N_DIMS; ++d) {
            a += (int32_t)row[d] * (int32_t)first[d];
            b += (int32_t)row[d] * (int32_t)second[d];
        }
        one[i] = 2 * a - bowsaw_norms[k];
        two[i] = 2 * b - bowsaw_norms[m];
    }
}

/* Integers leave no doubt. */
static inline size_t bowsaw_settle(const bowsaw_block *block, size_t i)
{
    (void)block;
    return i;
}

static inline int bowsaw_in_doubt(const bowsaw_block *block, size_t i, bowsaw_score lead)
{
    (void)block, (void)i, (void)lead;
    return 0;
}
