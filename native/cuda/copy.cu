/* copy_strided: any view to any view of the same shape. */
#include "vectors.h"

/* Whole vectors; returns how many elements they have. */
template <int BYTES> DEVICE int64_t copy_vectors(const views<2> &of, void *to, const void *from)
{
    constexpr int width = VECTOR / BYTES;
    const void *both[2] = {to, from};
    const int64_t vectors = of.strides[0][0] == 1 ? vectors_in(of, both, width) : 0;
    int64_t place[UNDER_WAY];
    uint4 x[UNDER_WAY];
    for_vectors(
        vectors,
        [&](int u, int64_t i) {
            int64_t at[2];
            find(at, i * width, of);
            x[u] = vector_at<BYTES>(from, at[1], of.strides[1][0]);
            place[u] = at[0] / width;
        },
        [&](int u, int64_t) { ((uint4 *)to)[place[u]] = x[u]; });
    return vectors * width;
}

/* ---- Transposes: the elements of one dim follow one another in `to`, those of another dim in `from`. A block turns a
 * square of both through shared memory. */

enum { LEAST_SIDE = 16 };

template <int BYTES> struct element_of;
template <> struct element_of<1> {
    typedef uint8_t type;
};
template <> struct element_of<2> {
    typedef uint16_t type;
};
template <> struct element_of<4> {
    typedef uint32_t type;
};
template <> struct element_of<8> {
    typedef uint64_t type;
};

DEVICE void *square_memory()
{
    __shared__ uint32_t memory[64 * 65];
    return memory;
}

/* The dim whose elements follow one another in a view; -1: none. */
DEVICE int dense_dim(const views<2> &of, int view)
{
    for (int k = 0; k < of.rank; k++)
        if (of.strides[view][k] == 1)
            return k;
    return -1;
}

template <int BYTES> DEVICE void transpose(const views<2> &of, int down, int across, void *to, const void *from)
{
    typedef typename element_of<BYTES>::type element;
    enum { SIDE = BYTES == 8 ? 32 : 64 };
    element(*const square)[SIDE + 1] = (element(*)[SIDE + 1]) square_memory();
    const int64_t rows = of.shape[down], columns = of.shape[across]; /* `to` is dense down, `from` is across */
    const int64_t row_tiles = PARTS(rows, SIDE), column_tiles = PARTS(columns, SIDE);
    const int64_t to_column = of.strides[0][across], from_row = of.strides[1][down];
    const int side = (int)threadIdx.x % SIDE, step = (int)blockDim.x / SIDE;
    FOR_EACH_BLOCK(tile, of.count / (rows * columns) * row_tiles * column_tiles)
    {
        const int64_t row = tile % row_tiles * SIDE, column = tile / row_tiles % column_tiles * SIDE;
        int64_t other = tile / row_tiles / column_tiles, begin[2] = {0, 0};
        for (int k = 0; k < of.rank; k++) {
            if (k == down || k == across)
                continue;
            const int64_t place = other % of.shape[k];
            other /= of.shape[k];
            begin[0] += place * of.strides[0][k];
            begin[1] += place * of.strides[1][k];
        }
        const element *in = (const element *)from + begin[1] + row * from_row + column;
        element *out = (element *)to + begin[0] + column * to_column + row;
        const int height = (int)MIN(SIDE, rows - row), width = (int)MIN(SIDE, columns - column);
#pragma unroll 16
        for (int i = (int)threadIdx.x / SIDE; i < SIDE; i += step)
            if (i < height && side < width)
                square[i][side] = in[i * from_row + side];
        __syncthreads();
#pragma unroll 16
        for (int i = (int)threadIdx.x / SIDE; i < SIDE; i += step)
            if (i < width && side < height)
                out[i * to_column + side] = square[side][i];
        __syncthreads();
    }
}

template <int BYTES> DEVICE int64_t copy_fast(const views<2> &of, void *to, const void *from)
{
    const int down = dense_dim(of, 0), across = dense_dim(of, 1);
    if (down < 0 || across < 0 || down == across || of.shape[down] < LEAST_SIDE || of.shape[across] < LEAST_SIDE)
        return copy_vectors<BYTES>(of, to, from);
    transpose<BYTES>(of, down, across, to, from);
    return of.count;
}

KERNEL(copy_strided, VECTOR_BLOCKS(PRODUCT(rank, shape0)), 256, 0)
{
    __shared__ views<2> of;
    const int64_t *d = record.dims, rank = d[copy_strided_rank], *shape = d + copy_strided_shape0;
    const int64_t bytes = d[copy_strided_element_bytes];
    const int64_t *strides[2] = {d + copy_strided_to0, d + copy_strided_from0};
    void *to = record.pointers[copy_strided_to];
    const void *from = record.pointers[copy_strided_from];
    if (bytes < 1 || view_count(rank, 6, shape) < 0) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    gather_dims(of, rank, shape, strides);
    int64_t done = 0;
    if (bytes == 1)
        done = copy_fast<1>(of, to, from);
    else if (bytes == 2)
        done = copy_fast<2>(of, to, from);
    else if (bytes == 4)
        done = copy_fast<4>(of, to, from);
    else if (bytes == 8)
        done = copy_fast<8>(of, to, from);
    FOR_EACH(rest, of.count - done)
    {
        int64_t at[2];
        find(at, done + rest, of);
        copy_element(to, at[0], from, at[1], bytes);
    }
}
