

/* The squared distance to word k, or any number from `enough` up if it is not below that. */
static inline bowsaw_distance bowsaw_squared_distance(
    const bowsaw_input *descriptor, size_t k, bowsaw_distance enough, int all)
{
    bowsaw_distance total = 0;
    size_t d = 0, stop;
    while (d < BOWSAW_N_DIMS && (all || total < enough)) {
        stop = BOWSAW_N_DIMS - d > 16 ? d + 16 : BOWSAW_N_DIMS;
        for (; d < stop; ++d) {
            const bowsaw_distance difference =
                (bowsaw_distance)descriptor[d] - (bowsaw_distance)(ENTRY);
            total += difference * difference;
        }
    }
    return total;
}
