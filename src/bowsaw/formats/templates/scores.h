
/* One score per class; the largest wins. */
static inline void bowsaw_scores(
    const float histogram[BOWSAW_N_WORDS], float scores[BOWSAW_N_CLASSES])
{
    BOWSAW_REAL totals[BOWSAW_N_MACHINES];
    size_t k, c;
    for (c = 0; c < BOWSAW_N_MACHINES; ++c)
        totals[c] = 0;
    for (k = 0; k < BOWSAW_N_WORDS; ++k) {
        const BOWSAW_REAL entry = MAPPED;
        for (c = 0; c < BOWSAW_N_MACHINES; ++c)
            totals[c] += entry * (BOWSAW_REAL)bowsaw_weights[k][c];
    }
    for (c = 0; c < BOWSAW_N_MACHINES; ++c)
        scores[c] = (float)(totals[c] = TOTAL);
    if (BOWSAW_N_MACHINES == 1) {
        scores[BOWSAW_N_CLASSES - 1] = (float)totals[0];
        scores[0] = (float)-totals[0];
    }
}

/* The position of the largest score in bowsaw_classes, the first of equal ones. */
static inline size_t bowsaw_label(const float scores[BOWSAW_N_CLASSES])
{
    size_t label = 0, c;
    for (c = 1; c < BOWSAW_N_CLASSES; ++c)
        if (scores[c] > scores[label])
            label = c;
    return label;
}
