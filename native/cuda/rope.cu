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
    const bool stop = failed; /* this load and that of the position wait together */
    if (!can_turn(record, status) || stop)
        return;
    FOR_EACH(i, d[rope_f32_texts] * tokens * heads * pairs)
    {
        const int64_t row = quotient(i, pairs), pair = i - row * pairs, token = quotient(row, heads);
        const int64_t head = row - token * heads, text = quotient(token, tokens);
        const int64_t place = (position ? position[text] : 0) + token - text * tokens;
        const float *x = (const float *)record.pointers[rope_f32_x] + token * d[rope_f32_x_stride] + head * dims;
        float *y = (float *)record.pointers[rope_f32_y] + token * d[rope_f32_y_stride] + head * dims;
        if (2 * pair < rotated) {
            const int64_t first = d[rope_f32_interleaved] ? 2 * pair : pair;
            const int64_t second = d[rope_f32_interleaved] ? first + 1 : pair + rotated / 2;
            const float cosine = table[place * rotated + 2 * pair], sine = table[place * rotated + 2 * pair + 1];
            const float a = x[first], b = x[second];
            y[first] = a * cosine - b * sine;
            y[second] = a * sine + b * cosine;
        } else
            for (int64_t k = 2 * pair; k < 2 * pair + 2 && k < dims; k++)
                y[k] = x[k];
    }
}
