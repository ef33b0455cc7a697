    for (i = 0; i < BOWSAW_BLOCK; ++i) {
        const bowsaw_input *row = rows + (i < n ? i : 0) * BOWSAW_N_INPUTS;
        for (d = 0; d < BOWSAW_N_DIMS; ++d)
            block->columns[d][i] = (float)row[d];
    }
