/* Products of matrices by tiles in shared memory: 64 x 64 results for a block of 256 threads, 4 x 4 for each thread. */
#ifndef PYAPP_PRODUCT_H
#define PYAPP_PRODUCT_H
#include "gpu.h"

enum { TILE = 64, DEPTH = 16, TILE_THREADS = 256, TILE_ROW = TILE + 4 };

/* A matrix of elements of one type, with any strides. */
struct matrix {
    const void *p;
    int64_t row, column; /* strides */
};

template <int TYPE> DEVICE float element(const void *p, int64_t i) { return load_float(p, i, TYPE); }

template <class T, int TYPE> struct Read {
    static DEVICE_MEMBER T at(const void *p, int64_t i) { return (T)load_float(p, i, TYPE); }
};
template <> struct Read<double, TYPE_float64> {
    static DEVICE_MEMBER double at(const void *p, int64_t i) { return ((const double *)p)[i]; }
};

/* Rows first .. first + 63 and columns start .. start + 15 of a matrix (rows, depth) into part[depth][row]; zero outside
 * of it. Neighbouring threads read neighbouring elements. */
template <class T, int TYPE>
DEVICE void load_tile(T (*part)[TILE_ROW], matrix of, int64_t first, int64_t rows, int64_t start, int64_t depth)
{
    const bool along = of.column == 1;
    for (int i = (int)threadIdx.x; i < TILE * DEPTH; i += TILE_THREADS) {
        const int r = along ? i / DEPTH : i % TILE, k = along ? i % DEPTH : i / TILE;
        const bool inside = first + r < rows && start + k < depth;
        part[k][r] = inside ? Read<T, TYPE>::at(of.p, (first + r) * of.row + (start + k) * of.column) : (T)0;
    }
}

/* sums[i][j]: rows m + 4 * (thread / 16) + i and columns n + 4 * (thread % 16) + j of a (rows, depth) times the
 * transposed b (columns, depth). `left` and `right` are shared memory. */
template <class T, int A, int B>
DEVICE void tile_product(T sums[4][4], T (*left)[TILE_ROW], T (*right)[TILE_ROW], matrix a, int64_t m, int64_t rows,
                         matrix b, int64_t n, int64_t columns, int64_t depth)
{
    const int row = (int)threadIdx.x / 16 * 4, column = (int)threadIdx.x % 16 * 4;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            sums[i][j] = 0;
    for (int64_t start = 0; start < depth; start += DEPTH) {
        load_tile<T, A>(left, a, m, rows, start, depth);
        load_tile<T, B>(right, b, n, columns, start, depth);
        __syncthreads();
        for (int k = 0; k < DEPTH; k++) {
            T x[4], y[4];
            for (int i = 0; i < 4; i++)
                x[i] = left[k][row + i], y[i] = right[k][column + i];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sums[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
}
#endif
