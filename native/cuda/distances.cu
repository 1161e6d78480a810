/* Distances of all pairs of rows, and their gradient. */
#include "gpu.h"

enum { EUCLIDEAN, TAXICAB, CHEBYSHEV };
enum { SIDE = 64, EACH = 4, DEPTH = 16, TILE_ROW = SIDE + 4 }; /* of a tile: rows and others; columns at a time */
static constexpr int64_t ROWS = 8, OTHERS = 64, COLUMNS = 128; /* of a block of gradients */

/* What a difference adds to a distance: its square or its size, of which the sum or the largest counts. */
template <int NORM> DEVICE float joined(float sum, float difference)
{
    if (NORM == EUCLIDEAN)
        return sum + difference * difference;
    return NORM == TAXICAB ? sum + fabsf(difference) : Larger()(sum, fabsf(difference));
}

DEVICE bool is_wrong(const int64_t *d)
{
    return d[distances_f32_batch] < 0 || d[distances_f32_rows] < 0 || d[distances_f32_others] < 0 ||
           d[distances_f32_columns] < 0 || d[distances_f32_norm] < EUCLIDEAN || d[distances_f32_norm] > CHEBYSHEV;
}

struct alignas(16) tile { /* number (row, column) is x[column * TILE_ROW + row] */
    float x[DEPTH * TILE_ROW];
};

/* SIDE rows from `first` on, DEPTH columns from `column` on; zeros in place of others. */
DEVICE void load_tile(tile &to, const float *from, int64_t first, int64_t rows, int64_t column, int64_t columns)
{
#pragma unroll
    for (int i = (int)threadIdx.x; i < SIDE * DEPTH; i += 256) {
        const int row = i / DEPTH, at = i % DEPTH;
        to.x[at * TILE_ROW + row] =
            first + row < rows && column + at < columns ? from[(first + row) * columns + column + at] : 0.0f;
    }
}

/* A tile of SIDE rows and SIDE others: thread (y, x) of (16, 16) has the rows 4 y .. and the others 4 x .. */
template <int NORM> DEVICE void find_distances(const launch &record)
{
    __shared__ tile a_tile, b_tile;
    const int64_t *d = record.dims, rows = d[distances_f32_rows], others = d[distances_f32_others];
    const int64_t columns = d[distances_f32_columns], down = PARTS(rows, SIDE), across = PARTS(others, SIDE);
    const int y0 = (int)threadIdx.x / 16 * EACH, x0 = (int)threadIdx.x % 16 * EACH;
    FOR_EACH_BLOCK(i, d[distances_f32_batch] * down * across)
    {
        const int64_t batch = i / (down * across), row0 = i / across % down * SIDE, other0 = i % across * SIDE;
        const float *const a = (const float *)record.pointers[distances_f32_a] + batch * rows * columns;
        const float *const b = (const float *)record.pointers[distances_f32_b] + batch * others * columns;
        float sums[EACH][EACH] = {{0}};
        for (int64_t column = 0; column < columns; column += DEPTH) {
            load_tile(a_tile, a, row0, rows, column, columns);
            load_tile(b_tile, b, other0, others, column, columns);
            __syncthreads();
#pragma unroll 4
            for (int k = 0; k < DEPTH; k++) {
                const float4 x = *(const float4 *)(a_tile.x + k * TILE_ROW + y0);
                const float4 y = *(const float4 *)(b_tile.x + k * TILE_ROW + x0);
                const float own[EACH] = {x.x, x.y, x.z, x.w}, other[EACH] = {y.x, y.y, y.z, y.w};
#pragma unroll
                for (int e = 0; e < EACH * EACH; e++)
                    sums[e / EACH][e % EACH] = joined<NORM>(sums[e / EACH][e % EACH], own[e / EACH] - other[e % EACH]);
            }
            __syncthreads();
        }
        float *const to = (float *)record.pointers[distances_f32_y] + batch * rows * others;
#pragma unroll
        for (int e = 0; e < EACH * EACH; e++) {
            const int64_t row = row0 + y0 + e / EACH, other = other0 + x0 + e % EACH;
            if (row < rows && other < others)
                to[row * others + other] =
                    NORM == EUCLIDEAN ? sqrtf(sums[e / EACH][e % EACH]) : sums[e / EACH][e % EACH];
        }
    }
}

KERNEL(distances_f32, CHOOSE(MIN(MIN(batch, rows), others) < 0, -1, batch *PARTS(rows, 64) * PARTS(others, 64)), 256, 0)
{
    if (is_wrong(record.dims))
        report(KERNEL_BAD_ARGUMENT);
    else if (record.dims[distances_f32_norm] == EUCLIDEAN)
        find_distances<EUCLIDEAN>(record);
    else if (record.dims[distances_f32_norm] == TAXICAB)
        find_distances<TAXICAB>(record);
    else
        find_distances<CHEBYSHEV>(record);
}

/* A block has ROWS rows and COLUMNS columns, a thread a column of them, and goes over the others: what each counts for a row
 * is made once for all columns. */
template <int NORM> DEVICE void find_slopes(const launch &record)
{
    __shared__ float shares[OTHERS][ROWS];
    const int64_t *d = record.dims, rows = d[distances_f32_rows], others = d[distances_f32_others];
    const int64_t columns = d[distances_f32_columns], down = PARTS(rows, ROWS), across = PARTS(columns, COLUMNS);
    FOR_EACH_BLOCK(i, d[distances_f32_batch] * down * across)
    {
        const int64_t batch = i / (down * across), row0 = i / across % down * ROWS;
        const int64_t column = i % across * COLUMNS + threadIdx.x, first = (batch * rows + row0) * others;
        const float *const a = (const float *)record.pointers[distances_backward_f32_a] + batch * rows * columns;
        const float *const b = (const float *)record.pointers[distances_backward_f32_b] + batch * others * columns;
        const float *const y = (const float *)record.pointers[distances_backward_f32_y] + first;
        const float *const g = (const float *)record.pointers[distances_backward_f32_grad_y] + first;
        const int there = (int)MIN(rows - row0, ROWS);
        float own[ROWS], sums[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            own[r] = r < there && column < columns ? a[(row0 + r) * columns + column] : 0.0f;
            sums[r] = 0;
        }
        for (int64_t start = 0; start < others; start += OTHERS) {
            const int count = (int)MIN(others - start, OTHERS);
            __syncthreads();
            for (int k = (int)threadIdx.x; k < OTHERS * ROWS; k += COLUMNS) {
                const int r = k / OTHERS, other = k % OTHERS;
                float share = 0;
                if (r < there && other < count) {
                    share = g[r * others + start + other];
                    if (NORM == EUCLIDEAN) {
                        const float distance = y[r * others + start + other];
                        share = distance != 0 ? share / distance : 0.0f;
                    }
                }
                shares[other][r] = share;
            }
            __syncthreads();
            if (column < columns)
                for (int k = 0; k < count; k++) {
                    const float other = b[(start + k) * columns + column];
#pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        const float apart = own[r] - other;
                        if (NORM == EUCLIDEAN)
                            sums[r] += shares[k][r] * apart;
                        else
                            sums[r] += apart == 0 ? 0.0f : apart < 0 ? -shares[k][r] : shares[k][r];
                    }
                }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (r < there && column < columns)
                ((float *)
                     record.pointers[distances_backward_f32_grad_a])[(batch * rows + row0 + r) * columns + column] =
                    sums[r];
    }
}

KERNEL(distances_backward_f32,
       CHOOSE(MIN(MIN(batch, rows), columns) < 0, -1, batch *PARTS(rows, 8) * PARTS(columns, 128)), 128, 0)
{
    const int64_t norm = record.dims[distances_f32_norm];
    if (is_wrong(record.dims) || norm == CHEBYSHEV)
        report(KERNEL_BAD_ARGUMENT);
    else if (norm == EUCLIDEAN)
        find_slopes<EUCLIDEAN>(record);
    else
        find_slopes<TAXICAB>(record);
}
