/* Rounds rows that were computed in f32 to f16 or bf16. */
#include "halves.h"

INLINE int add_rows(const launch *record, int worker, int workers, const int kind)
{
    uint16_t *y = record->pointers[add_rows_f16_y];
    const float *x = record->pointers[add_rows_f16_x];
    const uint16_t *residual = record->pointers[add_rows_f16_residual];
    const int64_t *d = record->dims, columns = d[add_rows_f16_columns];
    int64_t first, last;
    worker_share(d[add_rows_f16_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++)
        narrow_row(y + row * columns, x + row * columns,
                   residual ? residual + row * d[add_rows_f16_residual_stride] : NULL, columns, kind);
    return KERNEL_OK;
}

KERNEL(add_rows_f16) { return add_rows(record, worker, workers, KIND_F16); }
KERNEL(add_rows_bf16) { return add_rows(record, worker, workers, KIND_BF16); }
