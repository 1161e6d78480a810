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

KERNEL(copy_strided, PARTS(PRODUCT(rank, shape0), 1024), 256, 0)
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
        done = copy_vectors<1>(of, to, from);
    else if (bytes == 2)
        done = copy_vectors<2>(of, to, from);
    else if (bytes == 4)
        done = copy_vectors<4>(of, to, from);
    else if (bytes == 8)
        done = copy_vectors<8>(of, to, from);
    FOR_EACH(rest, of.count - done)
    {
        int64_t at[2];
        find(at, done + rest, of);
        copy_element(to, at[0], from, at[1], bytes);
    }
}
