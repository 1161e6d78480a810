/* The tokens that an automaton over bytes may read next (pyapp/text/structured_output/structured.py). */
#include "simd.h"

KERNEL(token_mask)
{
    const int64_t *d = record->dims;
    const int64_t tokens = d[token_mask_tokens], states = d[token_mask_states], columns = d[token_mask_columns];
    const int64_t size = d[token_mask_size], budget = d[token_mask_budget];
    const int32_t *table = record->pointers[token_mask_table], *distance = record->pointers[token_mask_distance];
    const int32_t *offsets = record->pointers[token_mask_offsets];
    const uint8_t *columns_of = record->pointers[token_mask_columns_of], *bytes = record->pointers[token_mask_bytes];
    uint8_t *mask = record->pointers[token_mask_mask];
    int64_t first, last;
    worker_share(tokens, 64, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++) {
        const int64_t start = offsets[i], end = offsets[i + 1];
        if (start < 0 || end < start || end > size)
            return KERNEL_INDEX_RANGE;
        uint32_t state = (uint32_t)d[token_mask_state];
        for (int64_t at = start; at < end && state < states; at++) {
            const int64_t column = columns_of[bytes[at]];
            state = column < columns ? (uint32_t)table[state * columns + column] : UINT32_MAX;
        }
        mask[i] = end > start && state < states && distance[state] >= 0 && distance[state] <= budget;
    }
    return KERNEL_OK;
}
