/* y = x w^T (+ residual) with weights in f32, f16 or bf16, widened as they are read; x, y and residual in f32, or of
 * the weights' kind. */
#include "gemm.h"

/* Packing is faster from this many rows on. Measured on each set at 288 x 768 and 768 x 2048. Never with SSE2, whose
 * two-operand instructions use up the registers that packing saves. */
#if LANES == 8
enum { PACKED_ROWS = 32 };
#elif defined(__SSE2__) && LANES == 4
enum { PACKED_ROWS = INT32_MAX };
#else
enum { PACKED_ROWS = 48 };
#endif

/* The number of rows from which on packing is faster; fewer where inputs are few, because the horizontal sums of dots
 * cost more than its products there. Measured with AVX2 and AVX-512 from 16 to 768 inputs. Up to 16 rows, a row's sums
 * do not depend on their number: a server writes so many texts together. */
INLINE int64_t packed_rows(int64_t outputs, int64_t inputs)
{
    const int64_t measured = 8 + inputs / 16, few = measured > 17 ? measured : 17;
    return LANES >= 8 && outputs >= PANEL && few < PACKED_ROWS ? few : PACKED_ROWS;
}

/* halves: x, y and residual are of the weights' kind. */
static int linear(const launch *record, int worker, int workers, int kind, int halves)
{
    const int64_t *d = record->dims, outputs = d[linear_f32_outputs], inputs = d[linear_f32_inputs];
    const product p = {.c = record->pointers[linear_f32_y],
                       .a = record->pointers[linear_f32_x],
                       .b = record->pointers[linear_f32_w],
                       .add = record->pointers[linear_f32_residual],
                       .k = inputs,
                       .a_row = d[linear_f32_x_stride],
                       .a_column = 1,
                       .b_row = 1,
                       .b_column = inputs,
                       .c_row = d[linear_f32_y_stride],
                       .add_row = d[linear_f32_residual_stride]};
    const range rows = {0, d[linear_f32_rows]};
    range columns;
    if (rows.last == 0)
        return KERNEL_OK;
    const int few = rows.last < packed_rows(outputs, inputs);
    worker_share(outputs, few ? 16 : PANEL, worker, workers, &columns.first, &columns.last);
    if (halves)
        multiply_halves(&p, rows, columns, kind, few);
    else
        (few ? dots_of : gemm_of)(&p, rows, columns, kind);
    return KERNEL_OK;
}

KERNEL(linear_f32) { return linear(record, worker, workers, KIND_F32, 0); }
KERNEL(linear_f16) { return linear(record, worker, workers, KIND_F16, 0); }
KERNEL(linear_bf16) { return linear(record, worker, workers, KIND_BF16, 0); }
KERNEL(linear_f16_f16) { return linear(record, worker, workers, KIND_F16, 1); }
KERNEL(linear_bf16_bf16) { return linear(record, worker, workers, KIND_BF16, 1); }
