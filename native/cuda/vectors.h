/* Views of several tensors with one shape, read and written by vectors of 16 bytes where they allow it. */
#ifndef PYAPP_VECTORS_H
#define PYAPP_VECTORS_H
#include "gpu.h"

enum { VECTOR = 16, UNDER_WAY = 4 }; /* bytes; vectors that a thread loads before it uses one */

/* The dims of views from the innermost out, without those of one element; dims that lie behind one another in all views
 * are one. `small`: 32 bits hold every place, and a division is a product: i / shape is (high(i * factor) + i) >> shift
 * (Granlund and Montgomery, 1994). */
template <int VIEWS> struct views {
    int rank;
    bool small;
    int64_t count, shape[6], strides[VIEWS][6];
    uint32_t factor[6];
    int32_t shift[6];
};

/* Fills `of` in shared memory, for all threads of the block, which have all come here. No strides (NULL) are zeros. */
template <int VIEWS>
DEVICE void gather_dims(views<VIEWS> &of, int64_t rank, const int64_t *shape, const int64_t *const *strides)
{
    if (threadIdx.x == 0) {
        int made = 0;
        int64_t count = 1, reach[VIEWS];
        for (int v = 0; v < VIEWS; v++)
            reach[v] = 0;
        for (int k = (int)rank - 1; k >= 0; k--) {
            const int64_t size = shape[k];
            bool follows = made > 0;
            count *= size;
            if (size == 1)
                continue;
            for (int v = 0; v < VIEWS; v++) {
                const int64_t stride = strides[v] ? strides[v][k] : 0;
                of.strides[v][made] = stride;
                reach[v] += (size - 1) * (stride < 0 ? -stride : stride);
                follows = follows && stride == of.strides[v][made - 1] * of.shape[made - 1];
            }
            if (follows)
                of.shape[made - 1] *= size;
            else
                of.shape[made++] = size;
        }
        if (!made) {
            of.shape[made++] = 1;
            for (int v = 0; v < VIEWS; v++)
                of.strides[v][0] = 0;
        }
        bool small = count <= INT32_MAX;
        for (int v = 0; v < VIEWS; v++)
            small = small && reach[v] <= INT32_MAX;
        for (int k = 0; small && k + 1 < made && count > 0; k++) {
            int shift = 0;
            while (1ll << shift < of.shape[k])
                shift++;
            of.shift[k] = shift;
            of.factor[k] = (uint32_t)((((1ull << shift) - (uint64_t)of.shape[k]) << 32) / (uint64_t)of.shape[k] + 1);
        }
        of.small = small;
        of.rank = made;
        of.count = count;
    }
    __syncthreads();
}

/* Where element i of each view lies. */
template <int VIEWS> DEVICE void find(int64_t *at, int64_t i, const views<VIEWS> &of)
{
    const int last = of.rank - 1;
    if (of.small) {
        uint32_t rest = (uint32_t)i, places[VIEWS];
        for (int v = 0; v < VIEWS; v++)
            places[v] = 0;
#pragma unroll 1
        for (int k = 0; k <= last; k++) {
            uint32_t place = rest;
            if (k < last) {
                rest = ((uint32_t)((uint64_t)rest * of.factor[k] >> 32) + rest) >> of.shift[k];
                place -= rest * (uint32_t)of.shape[k];
            }
            for (int v = 0; v < VIEWS; v++)
                places[v] += place * (uint32_t)of.strides[v][k];
        }
        for (int v = 0; v < VIEWS; v++)
            at[v] = (int32_t)places[v];
        return;
    }
    for (int v = 0; v < VIEWS; v++)
        at[v] = 0;
#pragma unroll 1
    for (int k = 0; k <= last; k++) {
        const int64_t next = k < last ? i / of.shape[k] : 0, place = i - next * of.shape[k] * (k < last);
        for (int v = 0; v < VIEWS; v++)
            at[v] += place * of.strides[v][k];
        i = next;
    }
}

DEVICE bool is_aligned(const void *p) { return ((uint64_t)p & (VECTOR - 1)) == 0; }

/* The vectors of `width` elements that make up the views, from the first element on; what is left of them is less than a
 * vector, or everything. view v at `p[v]` (NULL: none) has its elements side by side, or one for the whole innermost dim. */
template <int VIEWS> DEVICE int64_t vectors_in(const views<VIEWS> &of, const void *const *p, int width)
{
    if (of.rank > 1 && of.shape[0] % width)
        return 0;
    for (int v = 0; v < VIEWS; v++) {
        if (!p[v] || of.strides[v][0] == 0)
            continue;
        if (of.strides[v][0] != 1 || !is_aligned(p[v]))
            return 0;
        for (int k = 1; k < of.rank; k++)
            if (of.strides[v][k] % width)
                return 0;
    }
    return of.count / width;
}

/* One element of BYTES bytes as a vector. */
template <int BYTES> DEVICE uint4 spread(const void *p, int64_t at)
{
    uint4 all;
    if (BYTES == 8) {
        const uint2 two = ((const uint2 *)p)[at];
        all.x = all.z = two.x;
        all.y = all.w = two.y;
    } else {
        all.x = BYTES == 4   ? ((const uint32_t *)p)[at]
                : BYTES == 2 ? ((const uint16_t *)p)[at] * 0x10001u
                             : ((const uint8_t *)p)[at] * 0x1010101u;
        all.y = all.z = all.w = all.x;
    }
    return all;
}

/* The vector from element `at` on; with a stride of 0 that element alone. */
template <int BYTES> DEVICE uint4 vector_at(const void *p, int64_t at, int64_t stride)
{
    return stride ? *(const uint4 *)((const uint8_t *)p + at * BYTES) : spread<BYTES>(p, at);
}

/* Vectors first, first + apart .. before `count`, UNDER_WAY at a time: load(u, i) for each of them (i is the vector, and
 * u its number among them), then store(u, i). */
template <class Load, class Store>
DEVICE void for_vectors_of(int64_t first, int64_t apart, int64_t count, Load load, Store store)
{
    for (int64_t i = first; i < count; i += UNDER_WAY * apart) {
#pragma unroll
        for (int u = 0; u < UNDER_WAY; u++)
            if (i + u * apart < count)
                load(u, i + u * apart);
#pragma unroll
        for (int u = 0; u < UNDER_WAY; u++)
            if (i + u * apart < count)
                store(u, i + u * apart);
    }
}

/* The same for all threads of the grid, of which each block takes vectors that follow one another. */
template <class Load, class Store> DEVICE void for_vectors(int64_t count, Load load, Store store)
{
    const int64_t each = (int64_t)UNDER_WAY * blockDim.x;
    for (int64_t first = blockIdx.x * each; first < count; first += gridDim.x * each)
        for_vectors_of(first + threadIdx.x, blockDim.x, MIN(first + each, count), load, store);
}

/* Blocks for `count` elements: a thread has UNDER_WAY vectors of four. */
#define VECTOR_BLOCKS(count) PARTS(count, 4096)

/* exp(x) within 2^-16 of itself, for results of 16 bits. */
DEVICE float short_exp(float x)
{
#ifdef __CUDACC__
    return __expf(x);
#else
    return expf(x);
#endif
}

/* a / b within 2^-22 of itself; 0 for b beyond 2^126. */
DEVICE float short_quotient(float a, float b)
{
#ifdef __CUDACC__
    return __fdividef(a, b);
#else
    return a / b;
#endif
}

/* ---- The floats of a vector: four, or eight of 16 bits */

template <int BYTES> DEVICE void floats_of(float *x, uint4 vector, int type)
{
    const uint32_t words[] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (BYTES == 4)
            x[k] = __int_as_float((int)words[k]);
        else if (type == TYPE_bfloat16) {
            x[2 * k] = __int_as_float((int)(words[k] << 16));
            x[2 * k + 1] = __int_as_float((int)(words[k] & 0xffff0000u));
        } else {
            x[2 * k] = f16_to_float((uint16_t)words[k]);
            x[2 * k + 1] = f16_to_float((uint16_t)(words[k] >> 16));
        }
    }
}

DEVICE uint32_t bf16_pair(float low, float high)
{
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
    if (low == low && high == high) { /* the card's own conversion forgets the sign of NaN */
        uint32_t pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
        return pair;
    }
#endif
    return float_to_bf16(low) | (uint32_t)float_to_bf16(high) << 16;
}

template <int BYTES> DEVICE uint4 vector_of(const float *x, int type)
{
    uint32_t words[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (BYTES == 4)
            words[k] = (uint32_t)__float_as_int(x[k]);
        else if (type == TYPE_bfloat16)
            words[k] = bf16_pair(x[2 * k], x[2 * k + 1]);
        else
            words[k] = float_to_f16(x[2 * k]) | (uint32_t)float_to_f16(x[2 * k + 1]) << 16;
    }
    uint4 vector;
    vector.x = words[0], vector.y = words[1], vector.z = words[2], vector.w = words[3];
    return vector;
}
#endif
