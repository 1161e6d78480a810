/* The tokens that an automaton over bytes may read next (pyapp/text/structured_output/structured.py). */
#include "gpu.h"

KERNEL(token_mask, PARTS(tokens, 128), 128, 0)
{
    const int64_t *d = record.dims, states = d[token_mask_states], columns = d[token_mask_columns];
    const int32_t *table = (const int32_t *)record.pointers[token_mask_table],
                  *distance = (const int32_t *)record.pointers[token_mask_distance],
                  *offsets = (const int32_t *)record.pointers[token_mask_offsets];
    const uint8_t *columns_of = (const uint8_t *)record.pointers[token_mask_columns_of],
                  *bytes = (const uint8_t *)record.pointers[token_mask_bytes];
    FOR_EACH(i, d[token_mask_tokens])
    {
        const int64_t start = offsets[i], end = offsets[i + 1];
        if (start < 0 || end < start || end > d[token_mask_size]) {
            report(KERNEL_INDEX_RANGE);
            return;
        }
        uint32_t state = (uint32_t)d[token_mask_state];
        for (int64_t at = start; at < end && state < states; at++) {
            const int64_t column = columns_of[bytes[at]];
            state = column < columns ? (uint32_t)table[state * columns + column] : UINT32_MAX;
        }
        ((uint8_t *)record.pointers[token_mask_mask])[i] =
            end > start && state < states && distance[state] >= 0 && distance[state] <= d[token_mask_budget];
    }
}
