/* Products of float32 by tensor cores: 3xTF32. From sm_80 on.
 *
 * TF32 has the exponent of float32 and 11 significant bits. A number is the sum of two of TF32: itself rounded, and what is
 * left, rounded. Of the four products of two such sums the three larger are summed, in float32; so each product of numbers
 * is within 3 * 2^-22 of itself, where float32 has 2^-24. Three products of bfloat16 have 2^-16; six, that come near
 * float32, take as long as these three of TF32 and need more registers.
 *
 * Numbers must be ordinary: where large ones overflow, and where one is not finite, the three products may make NaN of what is
 * infinite. Numbers below 2^-104 lose bits. */
#ifndef PYAPP_TF32_H
#define PYAPP_TF32_H
#include "tensor_cores.h"

/* Finite, and less than 2^60: products do not overflow. */
DEVICE bool is_ordinary(float x) { return fabsf(x) < 0x1p60f; }

/* The bits of two numbers of TF32. What tensor cores do not read of the smaller is not cleared. */
struct tf32_terms {
    uint32_t large, small;
    tf32_terms() = default;
    DEVICE_MEMBER explicit tf32_terms(float x)
    {
        large = ((uint32_t)__float_as_int(x) + 0x1000u) & 0xffffe000u;
        small = (uint32_t)__float_as_int(x - __int_as_float((int)large)) + 0x1000u;
    }
};

/* sums += a (16, 8) times b (8, 8) by all lanes of a warp. Lane 4 g + t has of a (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4),
 * of b (t, g), (t + 4, g), of the sums (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1) (PTX ISA, mma.m16n8k8). */
DEVICE void multiply_tf32(float sums[4], const uint32_t a[4], const uint32_t b[2])
{
#ifndef __CUDACC__
    emulator_multiply_tf32(sums, a, b, [](uint32_t bits) { return __int_as_float((int)(bits & 0xffffe000u)); });
#elif HAS_TENSOR_CORES
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* The same of float32; the smallest products first. */
DEVICE void multiply_terms(float sums[4], const tf32_terms a[4], const tf32_terms b[2])
{
    const uint32_t large_a[4] = {a[0].large, a[1].large, a[2].large, a[3].large}, large_b[2] = {b[0].large, b[1].large};
    const uint32_t small_a[4] = {a[0].small, a[1].small, a[2].small, a[3].small}, small_b[2] = {b[0].small, b[1].small};
    multiply_tf32(sums, small_a, large_b);
    multiply_tf32(sums, large_a, small_b);
    multiply_tf32(sums, large_a, large_b);
}
#endif
