/* Rotary position embedding (Su et al., RoFormer, 2021). */
#include "positions.h"

DEVICE bool can_turn(const launch &record, int32_t *status)
{
    const int64_t *d = record.dims, tokens = d[rope_f32_tokens], rotated = d[rope_f32_rotated];
    const int32_t *position = (const int32_t *)record.pointers[rope_f32_position];
    if (rotated % 2 || rotated < 0 || rotated > d[rope_f32_head_dim] || (!position && d[rope_f32_texts] > 1)) {
        report(KERNEL_BAD_ARGUMENT);
        return false;
    }
    if (tokens > d[rope_f32_positions]) {
        report(KERNEL_POSITION_RANGE);
        return false;
    }
    return !position || are_inside(record, status, position, d[rope_f32_texts], tokens, d[rope_f32_positions]);
}

/* A thread turns a pair, or copies two columns that are not turned. */
KERNEL(rope_f32, PARTS(texts *tokens *heads *PARTS(head_dim, 2), 128), 128, 0)
{
    const int64_t *d = record.dims, tokens = d[rope_f32_tokens], heads = d[rope_f32_heads], dims = d[rope_f32_head_dim],
                  rotated = d[rope_f32_rotated], pairs = PARTS(dims, 2);
    const int32_t *position = (const int32_t *)record.pointers[rope_f32_position];
    const float *table = (const float *)record.pointers[rope_f32_table];
    const int64_t count = d[rope_f32_texts] * tokens * heads * pairs;
    const bool stop = failed;
    FOR_EACH_BLOCK(block, PARTS(count, 128))
    {
        const int64_t i = block * 128 + threadIdx.x, row = quotient(i, pairs), pair = i - row * pairs;
        const int64_t token = quotient(row, heads), head = row - token * heads, text = quotient(token, tokens);
        const float *x = (const float *)record.pointers[rope_f32_x] + token * d[rope_f32_x_stride] + head * dims;
        float *y = (float *)record.pointers[rope_f32_y] + token * d[rope_f32_y_stride] + head * dims;
        const bool turned = 2 * pair < rotated, together = !turned || d[rope_f32_interleaved];
        const int64_t first = together ? 2 * pair : pair, second = together ? first + 1 : pair + rotated / 2;
        const float a = i < count ? x[first] : 0.0f, b = i < count && second < dims ? x[second] : 0.0f;
        const int64_t place = i < count && position ? position[text] : 0;
        /* After these loads, so that they and those of the check wait together. */
        if (!can_turn(record, status) || stop)
            return;
        if (i >= count)
            continue;
        if (turned) {
            const float *const turn = table + (place + token - text * tokens) * rotated + 2 * pair;
            const float cosine = turn[0], sine = turn[1];
            y[first] = a * cosine - b * sine;
            y[second] = a * sine + b * cosine;
        } else {
            y[first] = a;
            if (second < dims)
                y[second] = b;
        }
    }
}
