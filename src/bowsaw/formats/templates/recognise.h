
/* The position of a grey image's class in bowsaw_classes, and its scores; or an error below 0. */
static inline int32_t bowsaw_recognise(
    const uint8_t *grey, int32_t width, int32_t height, size_t stride, bowsaw_scratch *s,
    float scores[BOWSAW_N_CLASSES])
{
    const int32_t n = bowsaw_encode(grey, width, height, stride, s);
    if (n < 0)
        return n;
    bowsaw_scores(s->histogram, scores);
    return (int32_t)bowsaw_label(scores);
}
