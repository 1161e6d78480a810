/* y = x w^T (+ residual) with weights in f32, f16 or bf16, widened as they are read. */
#include "gemm.h"

/* From this many rows on, packing pays. Measured on each set at 288 x 768 and 768 x 2048; never with SSE2, whose two-operand
 * instructions spend the registers that packing wins. */
#if LANES == 8
enum { PACKED_ROWS = 32 };
#elif defined(__SSE2__) && LANES == 4
enum { PACKED_ROWS = INT32_MAX };
#else
enum { PACKED_ROWS = 48 };
#endif

INLINE int linear(const launch *record, int worker, int workers, const int kind)
{
    const int64_t *d = record->dims, outputs = d[1], inputs = d[2];
    const product p = {record->pointers[0],
                       record->pointers[1],
                       record->pointers[2],
                       record->pointers[3],
                       inputs,
                       d[4],
                       1,
                       1,
                       inputs,
                       d[3],
                       d[5],
                       NULL};
    const range rows = {0, d[0]};
    range columns;
    if (rows.last == 0)
        return KERNEL_OK;
    worker_share(outputs, rows.last < PACKED_ROWS ? 16 : PANEL, worker, workers, &columns.first, &columns.last);
    if (kind == KIND_F32)
        (rows.last < PACKED_ROWS ? dots_f32 : gemm_f32)(&p, rows, columns);
    else if (rows.last < PACKED_ROWS)
        dots(&p, rows, columns, kind);
    else
        gemm(&p, rows, columns, pack_matrix, NULL, kind);
    return KERNEL_OK;
}

KERNEL(linear_f32) { return linear(record, worker, workers, KIND_F32); }
KERNEL(linear_f16) { return linear(record, worker, workers, KIND_F16); }
KERNEL(linear_bf16) { return linear(record, worker, workers, KIND_BF16); }
