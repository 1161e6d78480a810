/* Steps of an LSTM (Hochreiter and Schmidhuber, 1997) and of a GRU (Cho et al., 2014), and their gradients. The loops are not
 * unrolled: a step is short, and the products between steps take most of the time. */
#include "vmath.h"
#include "vmath64.h"

enum { SHARE = 64 }; /* elements: the shares of workers are multiples of it */

#ifdef __wasm__ /* code that travels: one copy of each */
#define ONE_COPY static __attribute__((noinline))
#else
#define ONE_COPY INLINE
#endif
/* Columns of a row, of matrices that `record` points to. */
typedef struct piece {
    const launch *record;
    int64_t row, columns, at, n; /* at: of its first element in a matrix of rows and columns; n: how many it has */
} piece;

/* The pieces of a worker. All kernels here have the dims rows and columns. */
ONE_COPY int32_t each_piece(const launch *record, int32_t worker, int32_t workers, void (*compute)(const piece *))
{
    const int64_t rows = record->dims[lstm_cell_f32_rows], columns = record->dims[lstm_cell_f32_columns];
    int64_t at, last;
    if (rows <= 0 || columns <= 0)
        return KERNEL_OK;
    worker_share(rows * columns, SHARE, worker, workers, &at, &last);
    while (at < last) {
        const int64_t row = at / columns, end = (row + 1) * columns;
        const piece p = {record, row, columns, at, (end < last ? end : last) - at};
        compute(&p);
        at += p.n;
    }
    return KERNEL_OK;
}

#define NUMBER float
#define VECTOR vfloat
#define WIDTH LANES
#define LOAD vload_up_to
#define STORE vstore_up_to
#define SIGMOID vsigmoid
#define TANH vtanh
#define FMA vfma
#include "recurrent_pieces.h"

KERNEL(lstm_cell_f32) { return each_piece(record, worker, workers, lstm_piece_float); }
KERNEL(lstm_cell_backward_f32) { return each_piece(record, worker, workers, lstm_backward_piece_float); }
KERNEL(gru_cell_f32) { return each_piece(record, worker, workers, gru_piece_float); }
KERNEL(gru_cell_backward_f32) { return each_piece(record, worker, workers, gru_backward_piece_float); }

#if !defined(__wasm__) /* whose libraries are downloaded */
INLINE vdouble load_doubles(const double *p, int64_t n)
{
    vdouble x = {0};
    memcpy(&x, p, n < DLANES ? (size_t)n * sizeof *p : sizeof x);
    return x;
}
INLINE void store_doubles(double *p, vdouble x, int64_t n)
{
    memcpy(p, &x, n < DLANES ? (size_t)n * sizeof *p : sizeof x);
}

#define NUMBER double
#define VECTOR vdouble
#define WIDTH DLANES
#define LOAD load_doubles
#define STORE store_doubles
#define SIGMOID dsigmoid
#define TANH dtanh
#define FMA(a, b, c) ((a) * (b) + (c))
#include "recurrent_pieces.h"

KERNEL(lstm_cell_f64) { return each_piece(record, worker, workers, lstm_piece_double); }
KERNEL(lstm_cell_backward_f64) { return each_piece(record, worker, workers, lstm_backward_piece_double); }
KERNEL(gru_cell_f64) { return each_piece(record, worker, workers, gru_piece_double); }
KERNEL(gru_cell_backward_f64) { return each_piece(record, worker, workers, gru_backward_piece_double); }
#endif
