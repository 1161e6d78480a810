/* Products of matrices by tiles in shared memory: 64 x 64 results for a block of 256 threads, 16 for each thread. Products
 * of two matrices of the same 16-bit type are computed by tensor cores, which sum in float32. */
#ifndef PYAPP_PRODUCT_H
#define PYAPP_PRODUCT_H
#include "tensor_cores.h"

enum { TILE = 64, DEPTH = 16, TILE_THREADS = 256, TILE_ROW = TILE + 4 };
enum { HALF_DEPTH = 32, HALF_ROW = HALF_DEPTH + 8 }; /* rows apart, so that reads meet no bank of memory twice */

/* Part of a matrix in shared memory: 16 columns of 64 rows, turned; or 32 columns of 64 rows of 16-bit numbers. */
union tile {
    float floats[DEPTH][TILE_ROW];
    uint16_t halves[TILE][HALF_ROW];
};

/* A matrix of elements of one type, with any strides. */
struct matrix {
    const void *p;
    int64_t row, column; /* strides */
};

/* Whether tensor cores have the product. */
DEVICE bool by_tensor_cores(int a, int b)
{
#if HAS_TENSOR_CORES
    return a == b && a != TYPE_float32;
#else
    return false;
#endif
}

/* Rows first .. first + 63 and columns start .. start + 15 of a matrix (rows, depth); zero outside of it. Neighbouring
 * threads read neighbouring elements. */
template <int TYPE>
DEVICE void load_floats(tile *part, matrix of, int64_t first, int64_t rows, int64_t start, int64_t depth)
{
    const bool along = of.column == 1;
    for (int i = (int)threadIdx.x; i < TILE * DEPTH; i += TILE_THREADS) {
        const int r = along ? i / DEPTH : i % TILE, k = along ? i % DEPTH : i / TILE;
        const bool inside = first + r < rows && start + k < depth;
        part->floats[k][r] = inside ? load_float(of.p, (first + r) * of.row + (start + k) * of.column, TYPE) : 0.0f;
    }
}

DEVICE void load_halves(tile *part, matrix of, int64_t first, int64_t rows, int64_t start, int64_t depth)
{
    const bool along = of.column == 1;
    for (int i = (int)threadIdx.x; i < TILE * HALF_DEPTH; i += TILE_THREADS) {
        const int r = along ? i / HALF_DEPTH : i % TILE, k = along ? i % HALF_DEPTH : i / TILE;
        const bool inside = first + r < rows && start + k < depth;
        part->halves[r][k] =
            inside ? ((const uint16_t *)of.p)[(first + r) * of.row + (start + k) * of.column] : (uint16_t)0;
    }
}

DEVICE uint32_t pair_at(const tile *part, int row, int k) { return *(const uint32_t *)&part->halves[row][k]; }

/* A warp has 16 rows and 32 columns: four times 8. */
template <int TYPE> DEVICE void multiply_halves(float sums[4][4], const tile *left, const tile *right)
{
    const int g = LANE / 4, t = LANE % 4, row = WARP / 2 * 16 + g, column = WARP % 2 * 32 + g;
    for (int k = 0; k < HALF_DEPTH; k += 16) {
        const uint32_t a[4] = {pair_at(left, row, k + 2 * t), pair_at(left, row + 8, k + 2 * t),
                               pair_at(left, row, k + 2 * t + 8), pair_at(left, row + 8, k + 2 * t + 8)};
        for (int i = 0; i < 4; i++) {
            const uint32_t b[2] = {pair_at(right, column + 8 * i, k + 2 * t),
                                   pair_at(right, column + 8 * i, k + 2 * t + 8)};
            multiply_fragments<TYPE>(sums[i], a, b);
        }
    }
}

/* The row and the column of sums[i][j] in the tile. */
template <int A, int B> DEVICE int row_in_tile(int i, int j)
{
    return by_tensor_cores(A, B) ? WARP / 2 * 16 + LANE / 4 + j / 2 * 8 : (int)threadIdx.x / 16 * 4 + i;
}
template <int A, int B> DEVICE int column_in_tile(int i, int j)
{
    return by_tensor_cores(A, B) ? WARP % 2 * 32 + 8 * i + LANE % 4 * 2 + j % 2 : (int)threadIdx.x % 16 * 4 + j;
}

/* The tile from row m and column n on of a (rows, depth) times the transposed b (columns, depth), of the types A and B.
 * `left` and `right` are shared memory. */
template <int A, int B>
DEVICE void tile_product(float sums[4][4], tile *left, tile *right, matrix a, int64_t m, int64_t rows, matrix b,
                         int64_t n, int64_t columns, int64_t depth)
{
    const int row = (int)threadIdx.x / 16 * 4, column = (int)threadIdx.x % 16 * 4;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            sums[i][j] = 0;
    if (by_tensor_cores(A, B)) {
        for (int64_t start = 0; start < depth; start += HALF_DEPTH) {
            load_halves(left, a, m, rows, start, depth);
            load_halves(right, b, n, columns, start, depth);
            __syncthreads();
            multiply_halves<A>(sums, left, right);
            __syncthreads();
        }
        return;
    }
    for (int64_t start = 0; start < depth; start += DEPTH) {
        load_floats<A>(left, a, m, rows, start, depth);
        load_floats<B>(right, b, n, columns, start, depth);
        __syncthreads();
        for (int k = 0; k < DEPTH; k++) {
            float x[4], y[4];
            for (int i = 0; i < 4; i++)
                x[i] = left->floats[k][row + i], y[i] = right->floats[k][column + i];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sums[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
}
#endif
