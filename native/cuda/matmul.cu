/* c = a b for batches of matrices of any strides: floats of 32 and 16 bits, whose sums are float32 (product.h). */
#include "product.h"

template <int TYPE> DEVICE void matmul(const launch &record, tile *left, tile *right)
{
    const int64_t *d = record.dims, rows = d[matmul_f32_m], columns = d[matmul_f32_n];
    const int64_t down = PARTS(rows, TILE), across = PARTS(columns, TILE), bytes = type_bytes(TYPE);
    FOR_EACH_BLOCK(unit, d[matmul_f32_batch] * down * across)
    {
        const int64_t batch = unit / (down * across), m = unit / across % down * TILE, n = unit % across * TILE;
        const matrix a = {(const char *)record.pointers[matmul_f32_a] + batch * d[matmul_f32_a_batch] * bytes,
                          d[matmul_f32_a_row], d[matmul_f32_a_column]};
        const matrix b = {(const char *)record.pointers[matmul_f32_b] + batch * d[matmul_f32_b_batch] * bytes,
                          d[matmul_f32_b_column], d[matmul_f32_b_row]};
        float sums[4][4];
        tile_product<TYPE, TYPE>(sums, left, right, a, m, rows, b, n, columns, d[matmul_f32_k]);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                const int64_t row = m + row_in_tile<TYPE, TYPE>(i, j), column = n + column_in_tile<TYPE, TYPE>(i, j);
                if (row < rows && column < columns)
                    store_float(record.pointers[matmul_f32_c],
                                batch * d[matmul_f32_c_batch] + row * d[matmul_f32_c_row] + column, TYPE, sums[i][j]);
            }
    }
}

#define MATMUL(type)                                                                                                   \
    {                                                                                                                  \
        __shared__ tile left, right;                                                                                   \
        matmul<TYPE_##type>(record, &left, &right);                                                                    \
    }

KERNEL(matmul_f32, batch *PARTS(m, 64) * PARTS(n, 64), 256, 0) { MATMUL(float32); }

KERNEL(matmul_f16, batch *PARTS(m, 64) * PARTS(n, 64), 256, 0) { MATMUL(float16); }

KERNEL(matmul_bf16, batch *PARTS(m, 64) * PARTS(n, 64), 256, 0) { MATMUL(bfloat16); }
