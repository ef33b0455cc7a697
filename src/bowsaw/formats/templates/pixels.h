
/* From pixels to descriptors: dense SIFT, as bowsaw.descriptors.dense_sift defines it. Rows of
   pixels pass one after the other, so the memory depends on the longest side alone. */

#define BOWSAW_BAD_IMAGE (-1) /* no pixels, or a stride below the width */
#define BOWSAW_TOO_SMALL (-2) /* no patch fits, after the reduction */
#define BOWSAW_TOO_LARGE (-3) /* a side above BOWSAW_LARGEST */

#define BOWSAW_CELL (BOWSAW_PATCH / 4)
/* Cells begin at multiples of BOWSAW_PITCH; so many take part in a row of pixels, or in patches. */
#define BOWSAW_OPEN (2 * BOWSAW_CELL / BOWSAW_PITCH)
#define BOWSAW_RING (3 * BOWSAW_CELL / BOWSAW_PITCH + 1)
#define BOWSAW_COLUMNS ((BOWSAW_MAX_SIDE - BOWSAW_CELL) / BOWSAW_PITCH + 1)

/* All memory that an image needs, to be given by the caller; nothing in it has to be set. */
typedef struct {
    float pooled[BOWSAW_OPEN][(BOWSAW_MAX_SIDE + 2 * BOWSAW_CELL) * 8];
    float maps[BOWSAW_RING][BOWSAW_COLUMNS * 8];
    float bins[BOWSAW_MAX_SIDE * 8];
    float size[BOWSAW_MAX_SIDE], angle[BOWSAW_MAX_SIDE];
    float vector[128];
    bowsaw_input rows[BOWSAW_BLOCK][128];
    float histogram[BOWSAW_N_WORDS];
    bowsaw_coder coder;
    const uint8_t *grey;
    size_t stride;
    int32_t full_width, full_height, width, height, summed, ready;
#ifdef BOWSAW_REDUCES
    uint64_t totals[BOWSAW_MAX_SIDE];
    uint32_t sums[BOWSAW_MAX_SIDE];
    uint8_t lines[3][BOWSAW_MAX_SIDE];
#endif
} bowsaw_scratch;

#define BOWSAW_SCRATCH_BYTES sizeof(bowsaw_scratch)

/* Takes n descriptors, at most BOWSAW_BLOCK; `whom` is what bowsaw_describe was given. */
typedef void (*bowsaw_taker)(void *whom, const bowsaw_input *rows, size_t n);

/* The shares of a line's pixels in each of `width` new ones, in units of 1 / width. */
static inline void bowsaw_sum_line(
    const uint8_t *line, int32_t full_width, int32_t width, uint32_t *sums)
{
    const uint32_t unit = (uint32_t)width;
    uint32_t left = unit, need, total, plain;
    int32_t i;
    for (i = 0; i < width; ++i) {
        need = (uint32_t)full_width;
        total = 0;
        if (left < unit) {
            total = left * *line++;
            need -= left;
        }
        for (plain = 0; need >= unit; need -= unit)
            plain += *line++;
        total += unit * plain;
        left = unit - need;
        if (need > 0)
            total += need * *line;
        sums[i] = total;
    }
}

/* A row of the image after its reduction by area. */
static inline const uint8_t *bowsaw_line(bowsaw_scratch *s, int32_t y)
{
#ifdef BOWSAW_REDUCES
    const uint64_t area = (uint64_t)s->full_width * (uint64_t)s->full_height;
    const int64_t begin = (int64_t)y * s->full_height, end = begin + s->full_height;
    uint8_t *out = s->lines[y % 3];
    int64_t from, to;
    int32_t i, row;
    if (s->width == s->full_width && s->height == s->full_height)
        return s->grey + (size_t)y * s->stride;
    if (y <= s->ready)
        return out;
    s->ready = y;
    for (i = 0; i < s->width; ++i)
        s->totals[i] = area / 2;
    for (row = (int32_t)(begin / s->height); (int64_t)row * s->height < end; ++row) {
        if (s->summed != row)
            bowsaw_sum_line(s->grey + (size_t)row * s->stride, s->full_width, s->width, s->sums);
        s->summed = row;
        from = (int64_t)row * s->height > begin ? (int64_t)row * s->height : begin;
        to = (int64_t)(row + 1) * s->height < end ? (int64_t)(row + 1) * s->height : end;
        for (i = 0; i < s->width; ++i)
            s->totals[i] += (uint64_t)s->sums[i] * (uint32_t)(to - from);
    }
    if (area <= UINT32_MAX / 256)
        for (i = 0; i < s->width; ++i)
            out[i] = (uint8_t)((uint32_t)s->totals[i] / (uint32_t)area);
    else
        for (i = 0; i < s->width; ++i)
            out[i] = (uint8_t)(s->totals[i] / area);
    return out;
#else
    return s->grey + (size_t)y * s->stride;
#endif
}

/* The sizes of a row's gradients, and their directions in eighths of a turn; width is 2 or more. */
static inline void bowsaw_gradients(
    const uint8_t *above, const uint8_t *here, const uint8_t *below, int32_t width, float *size,
    float *angle)
{
    const float eighth = 1.27323954f; /* 4 / pi */
    int32_t x;
    size[0] = (float)(here[1] - here[0]);
    for (x = 1; x + 1 < width; ++x)
        size[x] = (float)(here[x + 1] - here[x - 1]);
    size[width - 1] = (float)(here[width - 1] - here[width - 2]);
    for (x = 0; x < width; ++x) {
        const float dx = size[x] * 0.5f, dy = (float)(below[x] - above[x]) * 0.5f;
        const float ax = dx < 0.0f ? -dx : dx, ay = dy < 0.0f ? -dy : dy;
        const float small = ax < ay ? ax : ay, large = (ay < ax ? ax : ay) + 1e-30f;
        /* Cephes' polynomial, of angles up to an eighth of pi. */
        const int upper = small > 0.41421356f * large;
        const float low = small - large, high = small + large;
        const float t = (upper ? low : small) / (upper ? high : large), z = t * t;
        const float p = ((8.05374449538e-2f * z - 1.38776856032e-1f) * z + 1.99777106478e-1f) * z
            - 3.33329491539e-1f;
        const float in_first = (p * z * t + t) * eighth + (upper ? 1.0f : 0.0f);
        const float swapped = 2.0f - in_first, turn = ay > ax ? swapped : in_first;
        const float mirrored = 4.0f - turn, half = dx < 0.0f ? mirrored : turn;
        const float full = 8.0f - half;
        angle[x] = dy < 0.0f ? full : half;
        size[x] = dx * dx + dy * dy;
    }
    for (x = 0; x < width; ++x)
        size[x] = sqrtf(size[x]);
}

/* Each pixel's share in its eight orientations, one after the other. */
static inline void bowsaw_orientations(
    const float *size, const float *angle, int32_t width, float *bins)
{
    int32_t x, o;
    for (x = 0; x < width; ++x) {
        const float centre = angle[x], factor = size[x];
        for (o = 0; o < 8; ++o) {
            const float from = centre - (float)o, away = from < 0.0f ? -from : from;
            const float around = 8.0f - away, near = away < around ? away : around;
            const float share = 1.0f - near;
            bins[8 * x + o] = factor * (share > 0.0f ? share : 0.0f);
        }
    }
}

/* The sums of all cells of one row, from what was pooled along y. */
static inline void bowsaw_pool(const float *pooled, int32_t n_columns, float *map)
{
    int32_t c, i, o;
    for (c = 0; c < n_columns; ++c) {
        const float *near = pooled + 8 * BOWSAW_PITCH * c;
        float sums[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        for (i = 0; i < 2 * BOWSAW_CELL; ++i)
            for (o = 0; o < 8; ++o)
                sums[o] += bowsaw_triangle[i] * near[8 * i + o];
        for (o = 0; o < 8; ++o)
            map[8 * c + o] = sums[o];
    }
}

/* The sum of squares, in eight parts. */
static inline float bowsaw_squares(const float *vector)
{
    float sums[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    int32_t i, o;
    for (i = 0; i < 128; i += 8)
        for (o = 0; o < 8; ++o)
            sums[o] += vector[i + o] * vector[i + o];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* A descriptor from the sums of its cells, which it destroys. */
static inline void bowsaw_normalise(float *vector, bowsaw_input *out)
{
    const float norm = sqrtf(bowsaw_squares(vector)), inverse = norm > 0.0f ? 1.0f / norm : 0.0f;
    float factor, clipped;
    int32_t i;
    for (i = 0; i < 128; ++i) {
        const float unit = vector[i] * inverse;
        vector[i] = unit < 0.2f ? unit : 0.2f;
    }
    clipped = sqrtf(bowsaw_squares(vector));
    factor = clipped > 0.0f ? BOWSAW_SCALE / clipped : 0.0f;
    if (norm < BOWSAW_CONTRAST)
        factor *= norm / BOWSAW_CONTRAST;
    for (i = 0; i < 128; ++i) {
        const float value = vector[i] * factor;
        out[i] = STORED;
    }
}

/* Pass the descriptors of a grey image to `take`, at most BOWSAW_BLOCK at a time, and return their
   number, or an error below 0. Row y of the image begins at grey + y * stride. */
static inline int32_t bowsaw_describe(
    const uint8_t *grey, int32_t width, int32_t height, size_t stride, bowsaw_scratch *s,
    bowsaw_taker take, void *whom)
{
    int32_t n_columns, n_patches, left, top, last, first_open = 0, cell, x, y, i, j, count = 0;
    size_t filled = 0;
    if (grey == NULL || s == NULL || width < 1 || height < 1 || stride < (size_t)width)
        return BOWSAW_BAD_IMAGE;
    if (width > BOWSAW_LARGEST || height > BOWSAW_LARGEST)
        return BOWSAW_TOO_LARGE;
    s->grey = grey;
    s->stride = stride;
    s->full_width = width;
    s->full_height = height;
    s->summed = s->ready = -1;
#ifdef BOWSAW_REDUCES
    if (width > BOWSAW_MAX_SIDE || height > BOWSAW_MAX_SIDE) {
        const int64_t longest = width > height ? width : height;
        width = (int32_t)(((int64_t)2 * width * BOWSAW_MAX_SIDE + longest) / (2 * longest));
        height = (int32_t)(((int64_t)2 * height * BOWSAW_MAX_SIDE + longest) / (2 * longest));
    }
#endif
    if (width < BOWSAW_PATCH || height < BOWSAW_PATCH)
        return BOWSAW_TOO_SMALL;
    s->width = width;
    s->height = height;
    left = (width - BOWSAW_PATCH) % BOWSAW_EVERY / 2;
    top = (height - BOWSAW_PATCH) % BOWSAW_EVERY / 2;
    n_patches = (width - BOWSAW_PATCH) / BOWSAW_EVERY + 1;
    n_columns = ((n_patches - 1) * BOWSAW_EVERY + 3 * BOWSAW_CELL) / BOWSAW_PITCH + 1;
    last = ((height - BOWSAW_PATCH) / BOWSAW_EVERY * BOWSAW_EVERY + 3 * BOWSAW_CELL) / BOWSAW_PITCH;
    memset(s->pooled, 0, sizeof s->pooled);
    /* Cell row `cell` begins at pixel top + cell * BOWSAW_PITCH, and takes pixels from `begin`. */
    for (y = 0; y < height && first_open <= last; ++y) {
        const int32_t begin = top - BOWSAW_CELL / 2;
        const uint8_t *above, *here, *below;
        if (begin + first_open * BOWSAW_PITCH > y)
            continue;
        above = bowsaw_line(s, y > 0 ? y - 1 : 0);
        here = bowsaw_line(s, y);
        below = bowsaw_line(s, y + 1 < height ? y + 1 : y);
        bowsaw_gradients(above, here, below, width, s->size, s->angle);
        bowsaw_orientations(s->size, s->angle, width, s->bins);
        for (cell = first_open; cell <= last && begin + cell * BOWSAW_PITCH <= y; ++cell) {
            const float weight = bowsaw_triangle[y - begin - cell * BOWSAW_PITCH];
            float *target = s->pooled[cell % BOWSAW_OPEN] + 8 * BOWSAW_CELL;
            for (x = 0; x < 8 * width; ++x)
                target[x] += weight * s->bins[x];
        }
        /* Rows of cells end in order, and with the last row of a patch all that it needs is there. */
        for (; first_open <= last
               && (y + 1 == height || begin + first_open * BOWSAW_PITCH + 2 * BOWSAW_CELL <= y + 1);
             ++first_open) {
            const int32_t under = first_open * BOWSAW_PITCH - 3 * BOWSAW_CELL;
            float *pooled = s->pooled[first_open % BOWSAW_OPEN];
            bowsaw_pool(pooled + 8 * (BOWSAW_CELL + left - BOWSAW_CELL / 2), n_columns,
                        s->maps[first_open % BOWSAW_RING]);
            memset(pooled, 0, sizeof s->pooled[0]);
            if (under < 0 || under % BOWSAW_EVERY != 0)
                continue;
            for (x = 0; x < n_patches; ++x) {
                for (i = 0; i < 4; ++i)
                    for (j = 0; j < 4; ++j)
                        memcpy(s->vector + 32 * i + 8 * j,
                               s->maps[(under + i * BOWSAW_CELL) / BOWSAW_PITCH % BOWSAW_RING]
                                   + (x * BOWSAW_EVERY + j * BOWSAW_CELL) / BOWSAW_PITCH * 8,
                               8 * sizeof(float));
                bowsaw_normalise(s->vector, s->rows[filled]);
                ++count;
                if (++filled == BOWSAW_BLOCK) {
                    take(whom, s->rows[0], filled);
                    filled = 0;
                }
            }
        }
    }
    if (filled > 0)
        take(whom, s->rows[0], filled);
    return count;
}

static inline void bowsaw_take(void *whom, const bowsaw_input *rows, size_t n)
{
    bowsaw_scratch *s = (bowsaw_scratch *)whom;
    bowsaw_add(&s->coder, rows, n, s->histogram);
}

/* The histogram of a grey image, in the scratch; returns the number of descriptors, or an error. */
static inline int32_t bowsaw_encode(
    const uint8_t *grey, int32_t width, int32_t height, size_t stride, bowsaw_scratch *s)
{
    int32_t n, k;
    if (s == NULL)
        return BOWSAW_BAD_IMAGE;
    for (k = 0; k < BOWSAW_N_WORDS; ++k)
        s->histogram[k] = 0.0f;
    n = bowsaw_describe(grey, width, height, stride, s, bowsaw_take, s);
    for (k = 0; k < BOWSAW_N_WORDS && n > 0; ++k)
        s->histogram[k] /= (float)n;
    return n;
}
