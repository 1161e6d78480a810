/* Convolution as a product: windows are read from the input, tile by tile, for the product: a
 * matrix of windows is never stored (as in cuDNN; Chetlur et al., 2014). */
#include "product.h"

/* The offset of an index: that of its four digits, the last axis fastest. */
DEVICE int64_t offset_of_index(int64_t index, const int64_t *sizes, const int64_t *strides)
{
    return offset_of(index, 4, sizes, strides);
}

KERNEL(windows_f32, batch *groups *PARTS(m, 64) * PARTS(j0 * j1 * j2 * j3, 64), 256, 0)
{
    __shared__ tile left, right;
    const int64_t *d = record.dims, groups = d[windows_f32_groups], m = d[windows_f32_m];
    const int64_t k = view_count(4, 4, d + windows_f32_k0), n = view_count(4, 4, d + windows_f32_j0);
    const int64_t down = PARTS(m, TILE), across = PARTS(n, TILE);
    if (k <= 0 || d[windows_f32_j_stride3] < 1) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH_BLOCK(unit, d[windows_f32_batch] * groups * down * across)
    {
        const int64_t item = unit / (down * across), group = item % groups;
        const int64_t top = unit / across % down * TILE, first = unit % across * TILE;
        const float *x = (const float *)record.pointers[windows_f32_x] + item / groups * d[windows_f32_x_batch] +
                         group * d[windows_f32_x_group];
        const matrix a = {(const float *)record.pointers[windows_f32_a] + group * m * k, k, 1};
        const int row = (int)threadIdx.x / 16 * 4, column = (int)threadIdx.x % 16 * 4;
        const int64_t own = first + threadIdx.x % TILE; /* the column that this thread reads */
        const int64_t own_offset = own < n ? offset_of_index(own, d + windows_f32_j0, d + windows_f32_j_stride0) : 0;
        float sums[4][4] = {{0}};
        for (int64_t start = 0; start < k; start += DEPTH) {
            load_floats<TYPE_float32>(&left, a, top, m, start, k);
            for (int i = (int)threadIdx.x / TILE; i < DEPTH; i += TILE_THREADS / TILE)
                right.floats[i][threadIdx.x % TILE] =
                    own < n && start + i < k
                        ? x[own_offset + offset_of_index(start + i, d + windows_f32_k0, d + windows_f32_k_stride0)]
                        : 0.0f;
            __syncthreads();
            for (int i = 0; i < DEPTH; i++)
                for (int r = 0; r < 4; r++)
                    for (int c = 0; c < 4; c++)
                        sums[r][c] += left.floats[i][row + r] * right.floats[i][column + c];
            __syncthreads();
        }
        const float *bias = (const float *)record.pointers[windows_f32_bias];
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++)
                if (top + row + r < m && first + column + c < n)
                    ((float *)record.pointers[windows_f32_c])[(item * m + top + row + r) * n + first + column + c] =
                        sums[r][c] + (bias ? bias[group * m + top + row + r] : 0.0f);
    }
}
