/* A blocked product of matrices of one type, for types whose sums have the same type. The including file defines
 * ELEMENT (the type), NAME (of the function) and LOAD(p, index, bytes), STORE(p, index, bytes, value).
 *
 * As gemm.h: blocks of both operands are packed on the stack, whatever their strides, and vectors run along the
 * columns.
 */
#define VECTOR JOIN(ELEMENT, vector)
#define VECTOR_UNALIGNED JOIN(ELEMENT, unaligned)
#define TILE JOIN(NAME, tile)
typedef ELEMENT VECTOR __attribute__((vector_size(4 * LANES)));
typedef ELEMENT VECTOR_UNALIGNED __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

/* sum (EXACT_ROWS x width) = a * b, of packed a (k x EXACT_ROWS) and b (k x width). */
static __attribute__((noinline)) void TILE(ELEMENT *sum, const ELEMENT *a, const ELEMENT *b, int64_t k)
{
    enum { WIDTH = 4 * LANES / sizeof(ELEMENT) };
    VECTOR total[EXACT_ROWS][EXACT_VECTORS] = {0};
    for (int64_t i = 0; i < k; i++, a += EXACT_ROWS, b += EXACT_VECTORS * WIDTH)
        UNROLL for (int v = 0; v < EXACT_VECTORS; v++)
        {
            const VECTOR right = *(const VECTOR_UNALIGNED *)(b + v * WIDTH);
            UNROLL for (int r = 0; r < EXACT_ROWS; r++) total[r][v] += a[r] * right;
        }
    UNROLL for (int r = 0; r < EXACT_ROWS; r++) UNROLL for (int v = 0; v < EXACT_VECTORS; v++) *
        (VECTOR_UNALIGNED *)(sum + (r * EXACT_VECTORS + v) * WIDTH) = total[r][v];
}

/* rows x columns of c. The tile has the work; the rest is packing. */
COMPACT void NAME(const exact_product *p, int64_t first_row, int64_t last_row, int64_t first_column,
                  int64_t last_column)
{
    enum { VECTOR_WIDTH = 4 * LANES / sizeof(ELEMENT), WIDTH = EXACT_VECTORS * VECTOR_WIDTH };
    const int same = p->bytes == sizeof(ELEMENT); /* else elements are converted one by one */
    ELEMENT right[EXACT_PANELS * WIDTH * EXACT_K], left[EXACT_ROWS * EXACT_K], sum[EXACT_ROWS * WIDTH];
    for (int64_t n = first_column; n < last_column; n += EXACT_PANELS * WIDTH)
        for (int64_t k = 0; k < p->k || k == 0; k += EXACT_K) {
            const int64_t depth = p->k - k < EXACT_K ? p->k - k : EXACT_K;
            const int64_t end = last_column - n < EXACT_PANELS * WIDTH ? last_column : n + EXACT_PANELS * WIDTH;
            for (int64_t i = 0; i < depth; i++)
                for (int64_t j = n; j < end; j += WIDTH) {
                    ELEMENT *to = right + (j - n) * EXACT_K + i * WIDTH;
                    const int64_t at = (k + i) * p->b_row + j * p->b_column;
                    if (same && p->b_column == 1 && j + WIDTH <= end)
                        for (int v = 0; v < WIDTH; v += VECTOR_WIDTH)
                            *(VECTOR_UNALIGNED *)(to + v) = *(const VECTOR_UNALIGNED *)((const ELEMENT *)p->b + at + v);
                    else
                        for (int64_t w = 0; w < WIDTH; w++)
                            to[w] = j + w < end ? LOAD(p->b, at + w * p->b_column, p->bytes) : 0;
                }
            for (int64_t m = first_row; m < last_row; m += EXACT_ROWS) {
                const int64_t tall = last_row - m < EXACT_ROWS ? last_row - m : EXACT_ROWS;
                for (int64_t r = 0; r < EXACT_ROWS; r++)
                    for (int64_t i = 0; i < depth; i++)
                        left[i * EXACT_ROWS + r] =
                            r < tall ? LOAD(p->a, (m + r) * p->a_row + (k + i) * p->a_column, p->bytes) : 0;
                for (int64_t j = n; j < end; j += WIDTH) {
                    TILE(sum, left, right + (j - n) * EXACT_K, depth);
                    if (same && j + WIDTH <= end) {
                        for (int64_t r = 0; r < tall; r++)
                            for (int v = 0; v < WIDTH; v += VECTOR_WIDTH) {
                                VECTOR_UNALIGNED *to =
                                    (VECTOR_UNALIGNED *)((ELEMENT *)p->c + (m + r) * p->c_row + j + v);
                                VECTOR total = *(const VECTOR_UNALIGNED *)(sum + r * WIDTH + v);
                                if (k)
                                    total += *to;
                                *to = total;
                            }
                        continue;
                    }
                    for (int64_t r = 0; r < tall; r++)
                        for (int64_t i = 0; i < WIDTH && j + i < end; i++) {
                            const int64_t at = (m + r) * p->c_row + j + i;
                            const ELEMENT before = k ? LOAD(p->c, at, p->bytes) : 0;
                            STORE(p->c, at, p->bytes, before + sum[r * WIDTH + i]);
                        }
                }
            }
        }
}
#undef ELEMENT
#undef NAME
#undef LOAD
#undef STORE
#undef VECTOR
#undef VECTOR_UNALIGNED
#undef TILE
