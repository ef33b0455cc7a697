    float input[BOWSAW_BLOCK];
    size_t j;
    for (d = 0; d < BOWSAW_N_DIMS; ++d)
        for (i = 0; i < BOWSAW_BLOCK; ++i)
            block->columns[d][i] = 0.0f;
    for (j = 0; j < BOWSAW_N_INPUTS; ++j) {
        for (i = 0; i < BOWSAW_BLOCK; ++i)
            input[i] = (float)rows[(i < n ? i : 0) * BOWSAW_N_INPUTS + j] - bowsaw_mean[j];
        for (d = 0; d < BOWSAW_N_DIMS; ++d) {
            const float entry = (float)bowsaw_projection[j][d];
            for (i = 0; i < BOWSAW_BLOCK; ++i)
                block->columns[d][i] += entry * input[i];
        }
    }
    for (d = 0; d < BOWSAW_N_DIMS; ++d)
        for (i = 0; i < BOWSAW_BLOCK; ++i)
            block->columns[d][i] *= bowsaw_units[d];
