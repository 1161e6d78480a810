/* Rows of a table, by id; 16-bit tables are widened to f32. */
#include "vmath.h"

/* KERNEL_OK when every id is a row of the table: found out before anything is written. */
static int check_ids(const int32_t *ids, int64_t tokens, int64_t vocabulary)
{
    for (int64_t i = 0; i < tokens; i++)
        if (ids[i] < 0 || ids[i] >= vocabulary)
            return KERNEL_INDEX_RANGE;
    return KERNEL_OK;
}

INLINE void widen_row(vfloat load(const uint16_t *), float *y, const uint16_t *x, int64_t columns)
{
    int64_t i = 0;
    for (; i + LANES <= columns; i += LANES)
        vstore(y + i, load(x + i));
    if (i < columns) {
        uint16_t part[LANES] = {0};
        memcpy(part, x + i, (size_t)(columns - i) * sizeof *x);
        vstore_part(y + i, load(part), columns - i);
    }
}

INLINE void copy_row(float *y, const float *x, int64_t columns) { memcpy(y, x, (size_t)columns * sizeof *x); }
INLINE void f16_row(float *y, const uint16_t *x, int64_t columns) { widen_row(vload_f16, y, x, columns); }
INLINE void bf16_row(float *y, const uint16_t *x, int64_t columns) { widen_row(vload_bf16, y, x, columns); }

#define EMBEDDING_KERNEL(name, type, take_row)                                                                         \
    KERNEL(name)                                                                                                       \
    {                                                                                                                  \
        const type *w = record->pointers[1];                                                                           \
        const int32_t *ids = record->pointers[2];                                                                      \
        const int64_t tokens = record->dims[0], columns = record->dims[1], y_stride = record->dims[3];                 \
        int64_t first, last;                                                                                           \
        if (check_ids(ids, tokens, record->dims[2]) || columns <= 0)                                                   \
            return columns <= 0 ? KERNEL_OK : KERNEL_INDEX_RANGE;                                                      \
        worker_share(tokens, 1, worker, workers, &first, &last);                                                       \
        for (int64_t token = first; token < last; token++)                                                             \
            take_row((float *)record->pointers[0] + token * y_stride, w + ids[token] * columns, columns);              \
        return KERNEL_OK;                                                                                              \
    }

EMBEDDING_KERNEL(embedding_f32, float, copy_row)
EMBEDDING_KERNEL(embedding_f16, uint16_t, f16_row)
EMBEDDING_KERNEL(embedding_bf16, uint16_t, bf16_row)

/* A worker owns some columns of every row. */
KERNEL(embedding_backward_f32)
{
    float *grad_w = record->pointers[0];
    const float *grad_y = record->pointers[1];
    const int32_t *ids = record->pointers[2];
    const int64_t tokens = record->dims[0], columns = record->dims[1], vocabulary = record->dims[2];
    int64_t first, last;
    if (columns <= 0)
        return KERNEL_OK;
    if (check_ids(ids, tokens, vocabulary))
        return KERNEL_INDEX_RANGE;
    worker_share(columns, 16, worker, workers, &first, &last);
    for (int64_t row = 0; row < vocabulary && first < last; row++)
        memset(grad_w + row * columns + first, 0, (size_t)(last - first) * sizeof *grad_w);
    for (int64_t token = 0; token < tokens; token++)
        for (int64_t i = first; i < last; i += LANES) {
            float *to = grad_w + ids[token] * columns + i;
            vstore_up_to(to, vload_up_to(to, last - i) + vload_up_to(grad_y + token * columns + i, last - i), last - i);
        }
    return KERNEL_OK;
}
