/* Rotary position embedding (Su et al., RoFormer, 2021). */
#include "vmath.h"

/* Vectors at p and after it, of which n elements exist. */
INLINE void load_two(const float *p, int64_t n, vfloat *first, vfloat *second)
{
    *first = vload_up_to(p, n);
    *second = n > LANES ? vload_up_to(p + LANES, n - LANES) : vzero();
}

INLINE void turn(vfloat *a, vfloat *b, const float *table, int64_t n)
{
    vfloat first, second;
    load_two(table, n, &first, &second);
    const vfloat cosine = EVEN(first, second), sine = ODD(first, second), before = *a;
    *a = before * cosine - *b * sine;
    *b = before * sine + *b * cosine;
}

/* Pairs are neighbours. */
INLINE void rotate_pairs(float *y, const float *x, const float *table, int64_t dims)
{
    for (int64_t i = 0; i < dims; i += 2 * LANES) {
        vfloat first, second;
        load_two(x + i, dims - i, &first, &second);
        vfloat a = EVEN(first, second), b = ODD(first, second);
        turn(&a, &b, table + i, dims - i);
        vstore_up_to(y + i, ZIP_FIRST(a, b), dims - i);
        if (dims - i > LANES)
            vstore_up_to(y + i + LANES, ZIP_SECOND(a, b), dims - i - LANES);
    }
}

/* Pairs lie half a row apart. */
INLINE void rotate_halves(float *y, const float *x, const float *table, int64_t dims)
{
    const int64_t half = dims / 2;
    for (int64_t i = 0; i < half; i += LANES) {
        vfloat a = vload_up_to(x + i, half - i), b = vload_up_to(x + half + i, half - i);
        turn(&a, &b, table + 2 * i, dims - 2 * i);
        vstore_up_to(y + i, a, half - i);
        vstore_up_to(y + half + i, b, half - i);
    }
}

KERNEL(rope_f32)
{
    float *y = record->pointers[rope_f32_y];
    const float *x = record->pointers[rope_f32_x], *table = record->pointers[rope_f32_table];
    const int32_t *position = record->pointers[rope_f32_position];
    const int64_t texts = record->dims[rope_f32_texts], tokens = record->dims[rope_f32_tokens],
                  heads = record->dims[rope_f32_heads], dims = record->dims[rope_f32_head_dim],
                  rotated = record->dims[rope_f32_rotated];
    const int64_t y_stride = record->dims[rope_f32_y_stride], x_stride = record->dims[rope_f32_x_stride],
                  positions = record->dims[rope_f32_positions];
    int64_t first, last;
    if (texts <= 0 || tokens <= 0 || heads <= 0 || dims <= 0)
        return KERNEL_OK;
    if (rotated % 2 || rotated < 0 || rotated > dims || (!position && texts > 1))
        return KERNEL_BAD_ARGUMENT;
    for (int64_t text = 0; text < texts && position; text++)
        if (position[text] < 0 || position[text] + tokens > positions)
            return KERNEL_POSITION_RANGE;
    if (tokens > positions)
        return KERNEL_POSITION_RANGE;
    worker_share(texts * tokens * heads, 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const int64_t token = row / heads, head = row % heads;
        const int64_t place = (position ? position[token / tokens] : 0) + token % tokens;
        const float *in = x + token * x_stride + head * dims, *angles = table + place * rotated;
        float *out = y + token * y_stride + head * dims;
        if (record->dims[rope_f32_interleaved])
            rotate_pairs(out, in, angles, rotated);
        else
            rotate_halves(out, in, angles, rotated);
        if (out != in && rotated < dims)
            memcpy(out + rotated, in + rotated, (size_t)(dims - rotated) * sizeof *in);
    }
    return KERNEL_OK;
}
