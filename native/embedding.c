/* Rows of a table by id, as they are or (of 16-bit tables) widened to f32. */
#include "halves.h"

/* KERNEL_OK if every id is a row of the table; checked before anything is written. */
static int check_ids(const void *ids, int64_t id_bytes, int64_t tokens, int64_t vocabulary)
{
    if (id_bytes != 4 && id_bytes != 8)
        return KERNEL_BAD_ARGUMENT;
    for (int64_t i = 0; i < tokens; i++) {
        const int64_t id = index_at(ids, i, id_bytes);
        if (id < 0 || id >= vocabulary)
            return KERNEL_INDEX_RANGE;
    }
    return KERNEL_OK;
}

static int copy_rows(const launch *record, int worker, int workers, int64_t element_bytes, int64_t id_bytes)
{
    const char *w = record->pointers[embedding_copy_w];
    char *y = record->pointers[embedding_copy_y];
    const void *ids = record->pointers[embedding_copy_ids];
    const int64_t *d = record->dims, tokens = d[embedding_copy_tokens],
                  row_bytes = d[embedding_copy_columns] * element_bytes,
                  y_bytes = d[embedding_copy_y_stride] * element_bytes;
    int64_t first, last;
    if (row_bytes <= 0)
        return KERNEL_OK;
    const int wrong = check_ids(ids, id_bytes, tokens, d[embedding_copy_vocabulary]);
    if (wrong)
        return wrong;
    worker_share(tokens, 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++)
        memcpy(y + i * y_bytes, w + index_at(ids, i, id_bytes) * row_bytes, (size_t)row_bytes);
    return KERNEL_OK;
}

KERNEL(embedding_copy)
{
    const int64_t element_bytes = record->dims[embedding_copy_element_bytes],
                  id_bytes = record->dims[embedding_copy_id_bytes];
    if (record->dims[embedding_copy_tokens] == 0)
        return KERNEL_OK;
    if (element_bytes < 1)
        return KERNEL_BAD_ARGUMENT;
    return copy_rows(record, worker, workers, element_bytes, id_bytes);
}

INLINE int widen_rows(const launch *record, int worker, int workers, const int kind)
{
    const uint16_t *w = record->pointers[embedding_f16_w];
    float *y = record->pointers[embedding_f16_y];
    const int32_t *ids = record->pointers[embedding_f16_ids];
    const int64_t *d = record->dims, tokens = d[embedding_f16_tokens], columns = d[embedding_f16_columns];
    int64_t first, last;
    if (columns <= 0)
        return KERNEL_OK;
    if (check_ids(ids, sizeof *ids, tokens, d[embedding_f16_vocabulary]))
        return KERNEL_INDEX_RANGE;
    worker_share(tokens, 1, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i++)
        widen_row(y + i * d[embedding_f16_y_stride], w + ids[i] * columns, columns, kind);
    return KERNEL_OK;
}

KERNEL(embedding_f16) { return widen_rows(record, worker, workers, KIND_F16); }
KERNEL(embedding_bf16) { return widen_rows(record, worker, workers, KIND_BF16); }

/* A worker owns some columns of every row. */
KERNEL(embedding_backward_f32)
{
    float *grad_w = record->pointers[embedding_backward_f32_grad_w];
    const float *grad_y = record->pointers[embedding_backward_f32_grad_y];
    const void *ids = record->pointers[embedding_backward_f32_ids];
    const int64_t tokens = record->dims[embedding_backward_f32_tokens],
                  columns = record->dims[embedding_backward_f32_columns],
                  vocabulary = record->dims[embedding_backward_f32_vocabulary],
                  id_bytes = record->dims[embedding_backward_f32_id_bytes];
    int64_t first, last;
    if (columns <= 0)
        return KERNEL_OK;
    const int wrong = check_ids(ids, id_bytes, tokens, vocabulary);
    if (wrong)
        return wrong;
    worker_share(columns, 16, worker, workers, &first, &last);
    for (int64_t row = 0; row < vocabulary && first < last; row++)
        memset(grad_w + row * columns + first, 0, (size_t)(last - first) * sizeof *grad_w);
    for (int64_t token = 0; token < tokens; token++)
        for (int64_t i = first; i < last; i += LANES) {
            float *to = grad_w + index_at(ids, token, id_bytes) * columns + i;
            vstore_up_to(to, vload_up_to(to, last - i) + vload_up_to(grad_y + token * columns + i, last - i), last - i);
        }
    return KERNEL_OK;
}

#if !defined(__wasm__) /* there embedding_copy and sums do it: code is downloaded */
KERNEL(embedding_bag_f32)
{
    const int64_t *d = record->dims, bags = d[embedding_bag_f32_bags], tokens = d[embedding_bag_f32_tokens];
    const int64_t columns = d[embedding_bag_f32_columns], id_bytes = d[embedding_bag_f32_id_bytes];
    const int64_t *starts = record->pointers[embedding_bag_f32_starts];
    const float *w = record->pointers[embedding_bag_f32_w];
    const void *ids = record->pointers[embedding_bag_f32_ids];
    int64_t first, last;
    if (bags <= 0 || columns <= 0)
        return bags < 0 || columns < 0 ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    const int wrong = check_ids(ids, id_bytes, tokens, d[embedding_bag_f32_vocabulary]);
    if (wrong)
        return wrong;
    if (!starts && tokens % bags)
        return KERNEL_BAD_ARGUMENT;
    for (int64_t bag = 0; starts && bag < bags; bag++)
        if (starts[bag] < (bag ? starts[bag - 1] : 0) || starts[bag] > tokens)
            return KERNEL_INDEX_RANGE;
    worker_share(bags, 1, worker, workers, &first, &last);
    for (int64_t bag = first; bag < last; bag++) {
        const int64_t each = tokens / bags, from = starts ? starts[bag] : bag * each;
        const int64_t to = !starts ? from + each : bag + 1 < bags ? starts[bag + 1] : tokens;
        float *y = (float *)record->pointers[embedding_bag_f32_y] + bag * columns;
        const float scale = d[embedding_bag_f32_mean] && to > from ? 1.0f / (float)(to - from) : 1.0f;
        for (int64_t i = 0; i < columns; i += 4 * LANES) {
            vfloat sums[4] = {vzero(), vzero(), vzero(), vzero()};
            const int64_t n = columns - i;
            if (n >= 4 * LANES)
                for (int64_t t = from; t < to; t++)
                    UNROLL for (int j = 0; j < 4; j++) sums[j] +=
                        vload(w + index_at(ids, t, id_bytes) * columns + i + j * LANES);
            else
                for (int64_t t = from; t < to; t++)
                    for (int j = 0; j * LANES < n; j++)
                        sums[j] += vload_up_to(w + index_at(ids, t, id_bytes) * columns + i + j * LANES, n - j * LANES);
            for (int j = 0; j < 4 && j * LANES < n; j++)
                vstore_up_to(y + i + j * LANES, sums[j] * scale, n - j * LANES);
        }
    }
    return KERNEL_OK;
}
#endif
