/* What tensor cores need: fragments of matrices, loads of them from shared memory, and copies to it that do not wait. From
 * sm_80 on. Each wrapper has two bodies: the card's instruction, and what the emulator does. */
#ifndef PYAPP_TENSOR_CORES_H
#define PYAPP_TENSOR_CORES_H
#include "gpu.h"

#if !defined(__CUDACC__) || __CUDA_ARCH__ >= 800
#define HAS_TENSOR_CORES 1
#else
#define HAS_TENSOR_CORES 0
#endif

/* sums += a (16, 16) times b (16, 8) by all lanes of a warp. Lane 4 g + t has of a the pairs (g, 2 t), (g + 8, 2 t),
 * (g, 2 t + 8), (g + 8, 2 t + 8), of b (2 t, g), (2 t + 8, g), of the sums (g, 2 t), (g, 2 t + 1), (g + 8, 2 t),
 * (g + 8, 2 t + 1) (PTX ISA, mma.m16n8k16). */
template <int TYPE> DEVICE void multiply_fragments(float sums[4], const uint32_t a[4], const uint32_t b[2])
{
#ifndef __CUDACC__
    emulator_multiply(sums, a, b, [](uint16_t half) { return load_float(&half, 0, TYPE); });
#elif HAS_TENSOR_CORES
    if (TYPE == TYPE_float16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Four matrices (8, 8) of 16-bit numbers from shared memory: lane 8 m + r names row r of matrix m, 16 bytes. Lane
 * 4 g + t gets the pair (g, 2 t), (g, 2 t + 1) of each; TURNED: (2 t, g), (2 t + 1, g) (ldmatrix). */
template <bool TURNED> DEVICE void load_matrices(uint32_t to[4], const uint16_t *row)
{
#ifndef __CUDACC__
    emulator_load_matrices(to, row, TURNED);
#elif HAS_TENSOR_CORES
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(at)
                     : "memory");
#endif
}

/* Copies 16 bytes to shared memory, or zeros where they are not there. They are there after end_copies and
 * wait_for_copies, to other threads after a barrier. */
DEVICE void start_copy(void *to, const void *from, bool there)
{
#ifndef __CUDACC__
    emulator_start_copy(to, from, there);
#elif HAS_TENSOR_CORES
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
#endif
}

/* Ends a group of copies. */
DEVICE void end_copies()
{
#ifndef __CUDACC__
    emulator_end_copies();
#elif HAS_TENSOR_CORES
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits for this thread's groups of copies, but for the LATEST. */
template <int LATEST> DEVICE void wait_for_copies()
{
#ifndef __CUDACC__
    emulator_wait_for_copies(LATEST);
#elif HAS_TENSOR_CORES
    asm volatile("cp.async.wait_group %0;" ::"n"(LATEST) : "memory");
#endif
}

/* 2^x within 2^-22 of itself; 0 where that is smaller than any normal number. */
DEVICE float power_of_2(float x)
{
#ifdef __CUDACC__
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
#else
    return exp2f(x);
#endif
}

/* Two numbers of 16 bits, the first in the low bits. */
template <int TYPE> DEVICE uint32_t pair_of(float low, float high)
{
#if defined(__CUDACC__) && HAS_TENSOR_CORES
    uint32_t pair;
    if (TYPE == TYPE_float16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return TYPE == TYPE_float16 ? float_to_f16(low) | (uint32_t)float_to_f16(high) << 16
                                : float_to_bf16(low) | (uint32_t)float_to_bf16(high) << 16;
#endif
}

template <int TYPE> DEVICE float half_of(uint32_t pair, int which)
{
    const uint16_t half = (uint16_t)(pair >> 16 * which);
    return load_float(&half, 0, TYPE);
}

/* For each of two 16-bit numbers: all bits where it is infinite or NaN. */
template <int TYPE> DEVICE uint32_t not_finite(uint32_t pair)
{
    const uint32_t exponent = TYPE == TYPE_float16 ? 0x7c00u : 0x7f80u;
    return ((pair & exponent) == exponent ? 0xffffu : 0) | ((pair >> 16 & exponent) == exponent ? 0xffff0000u : 0);
}
#endif
