

/* Descriptors that are compared with the words at once, and what that needs; fewer need less. */
#ifndef BOWSAW_BLOCK
#define BOWSAW_BLOCK 32
#endif

typedef float bowsaw_score;
typedef struct {
    float columns[BOWSAW_N_DIMS][BOWSAW_BLOCK];
    float norms[BOWSAW_BLOCK];
} bowsaw_block;

static inline void bowsaw_load(bowsaw_block *block, const bowsaw_input *rows, size_t n)
{
    size_t i, d;
LOAD    for (i = 0; i < BOWSAW_BLOCK; ++i)
        block->norms[i] = 0.0f;
    for (d = 0; d < BOWSAW_N_DIMS; ++d)
        for (i = 0; i < BOWSAW_BLOCK; ++i)
            block->norms[i] += block->columns[d][i] * block->columns[d][i];
}

/* Products with words k and m, minus half their squared norms: the larger, the nearer. */
static inline void bowsaw_compare(
    const bowsaw_block *block, size_t k, size_t m, bowsaw_score *one, bowsaw_score *two)
{
    float first[BOWSAW_BLOCK], second[BOWSAW_BLOCK];
    size_t i, d;
    for (i = 0; i < BOWSAW_BLOCK; ++i)
        first[i] = second[i] = 0.0f;
    for (d = 0; d < BOWSAW_N_DIMS; ++d) {
        const float *column = block->columns[d];
        const float a = BOWSAW_ENTRY(k, d), b = BOWSAW_ENTRY(m, d);
        for (i = 0; i < BOWSAW_BLOCK; ++i) {
            first[i] += a * column[i];
            second[i] += b * column[i];
        }
    }
    for (i = 0; i < BOWSAW_BLOCK; ++i) {
        one[i] = first[i] - bowsaw_norms[k];
        two[i] = second[i] - bowsaw_norms[m];
    }
}

/* The nearest word by sums of squared differences, in the order of the dimensions. */
static inline size_t bowsaw_settle(const bowsaw_block *block, size_t i)
{
    BOWSAW_REAL nearest = 0, total;
    size_t code = 0, k, d;
    for (k = 0; k < BOWSAW_N_WORDS; ++k) {
        for (total = 0, d = 0; d < BOWSAW_N_DIMS; ++d) {
            const BOWSAW_REAL away =
                (BOWSAW_REAL)block->columns[d][i] - (BOWSAW_REAL)(BOWSAW_ENTRY(k, d));
            total += away * away;
        }
        if (k == 0 || total < nearest) {
            nearest = total;
            code = k;
        }
    }
    return code;
}

/* Whether a lead in the scores may be an error of rounding. */
static inline int bowsaw_in_doubt(const bowsaw_block *block, size_t i, bowsaw_score lead)
{
    return !(lead > BOWSAW_ROUNDING * (sqrtf(block->norms[i]) + BOWSAW_LONGEST) + 1e-36f);
}
