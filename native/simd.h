/* Vectors of f32: the only file that knows an instruction set. Written with the vector types of GCC and clang, so
 * + - * / & | ^ << >> and comparisons (which give masks of 0 and -1) work on them directly.
 *
 * LANES is 4 (SSE2, NEON, wasm), 8 (AVX2) or 16 (AVX-512). Every source is compiled once for each instruction set, with
 * INSTRUCTION_SET naming it; KERNEL(name) gives the function its own symbol in each.
 */
#ifndef PYAPP_SIMD_H
#define PYAPP_SIMD_H
#include "kernels.h"
#include "slots.h"
#include <stddef.h>
#include <string.h>

#ifndef INSTRUCTION_SET
#error "build.py gives -DINSTRUCTION_SET=baseline | avx2 | avx512 | neon | dotprod | simd128 | relaxed"
#endif
#define JOIN_NAMES(name, set) name##_##set
#define JOIN(name, set) JOIN_NAMES(name, set)
#define SUFFIXED(name) JOIN(name, INSTRUCTION_SET)

/* KERNEL(add_f32) { ... return KERNEL_OK; } */
#define KERNEL(name) int SUFFIXED(name)(const launch *record, int worker, int workers)
#define INLINE static inline __attribute__((always_inline))
#if defined(__SANITIZE_ADDRESS__) /* or compiling takes minutes */
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>
#define LANES 4
#elif defined(__AVX512F__)
#include <immintrin.h>
#define LANES 16
#elif defined(__AVX2__)
#include <immintrin.h>
#define LANES 8
#elif defined(__SSE2__)
#include <emmintrin.h>
#define LANES 4
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define LANES 4
#else
#error "native/simd.h knows x86-64, ARM64 and wasm32 with SIMD"
#endif

typedef float vfloat __attribute__((vector_size(4 * LANES)));
typedef int32_t vint __attribute__((vector_size(4 * LANES)));
typedef uint32_t vuint __attribute__((vector_size(4 * LANES)));
typedef float vfloat_unaligned __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int32_t vint_unaligned __attribute__((vector_size(4 * LANES), aligned(1), may_alias));

/* A function that is compiled for size in wasm, where code is downloaded: rarely called code in a file of fast code. */
#if defined(__wasm__)
#define SMALL_CODE __attribute__((noinline, minsize))
#else
#define SMALL_CODE __attribute__((noinline))
#endif

/* A loop that is not unrolled in wasm, where code is downloaded and the speed is not worth the length. */
#if defined(__wasm__)
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define ROLLED
#endif

/* A function around the time-critical loops, compiled for size in wasm, where code is downloaded. */
#if defined(__wasm__)
#define COMPACT static __attribute__((noinline, minsize))
#else
#define COMPACT static
#endif

/* A loop that is not unrolled in wasm with relaxed SIMD, where clang evaluates the operands of a chain of fused
 * multiply-adds or dots before the chain: unrolled, all its loads come first and exceed the browser's 15 registers. */
#if defined(__wasm_relaxed_simd__)
#define UNROLL_SAFE ROLLED
#else
#define UNROLL_SAFE UNROLL
#endif

/* The same for clang 14, whose inline assembly takes vectors: what comes next stays behind this. No instruction comes
 * of it. */
#if defined(__wasm__) && !defined(__wasm_relaxed_simd__)
#define IN_ORDER(vector) __asm__ volatile("" : "+r"(vector) : : "memory")
#else
#define IN_ORDER(vector) ((void)0)
#endif

/* The share of `total` items that a worker of `workers` does, cut at multiples of `unit`: first <= item < last. */
/* A number of `bytes` bytes: an int64 for 8, else an int32. */
INLINE int64_t index_at(const void *indices, int64_t i, int64_t bytes)
{
    return bytes == 8 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

INLINE void worker_share(int64_t total, int64_t unit, int worker, int workers, int64_t *first, int64_t *last)
{
    const int64_t units = (total + unit - 1) / unit;
    const int64_t begin = units * worker / workers * unit, end = units * (worker + 1) / workers * unit;
    *first = begin;
    *last = end < total ? end : total;
}

/* Asks for memory that is read soon: what a processor foresees by itself ends with the page, and its window of
 * instructions ends earlier where there is much to compute for each byte. WebAssembly has no such instruction. */
enum { AHEAD = 2048 };
INLINE void prefetch(const void *p, int64_t bytes)
{
#if !defined(__wasm__)
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)p + i);
#else
    (void)p, (void)bytes;
#endif
}

INLINE vfloat vload(const float *p) { return *(const vfloat_unaligned *)p; }
INLINE void vstore(float *p, vfloat v) { *(vfloat_unaligned *)p = v; }
INLINE vint vload_int(const int32_t *p) { return *(const vint_unaligned *)p; }
INLINE void vstore_int(int32_t *p, vint v) { *(vint_unaligned *)p = v; }
INLINE vfloat vzero(void) { return (vfloat){0}; }

INLINE vfloat vsplat(float x)
{
#if LANES == 16
    return (vfloat)_mm512_set1_ps(x);
#elif LANES == 8
    return (vfloat)_mm256_set1_ps(x);
#else
    return (vfloat){x, x, x, x};
#endif
}

INLINE vint vsplat_int(int32_t x)
{
#if LANES == 16
    return (vint)_mm512_set1_epi32(x);
#elif LANES == 8
    return (vint)_mm256_set1_epi32(x);
#else
    return (vint){x, x, x, x};
#endif
}

/* The first n < LANES elements; the rest is zero. */
INLINE vfloat vload_part(const float *p, int64_t n)
{
#if LANES == 16
    return (vfloat)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    float part[LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        part[i] = p[i];
    return vload(part);
#endif
}

INLINE void vstore_part(float *p, vfloat v, int64_t n)
{
#if LANES == 16
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    float part[LANES];
    vstore(part, v);
    for (int64_t i = 0; i < n; i++)
        p[i] = part[i];
#endif
}

/* a * b + c, in one rounding where the machine has it (compiled with -ffp-contract=fast). */
INLINE vfloat vfma(vfloat a, vfloat b, vfloat c)
{
#if defined(__wasm_relaxed_simd__)
    return (vfloat)wasm_f32x4_relaxed_madd((v128_t)a, (v128_t)b, (v128_t)c);
#else
    return a * b + c;
#endif
}

/* Larger and smaller of each pair; where one is NaN either may come back. */
INLINE vfloat vmax(vfloat a, vfloat b)
{
#if defined(__wasm_simd128__)
    return (vfloat)wasm_f32x4_pmax((v128_t)a, (v128_t)b);
#elif LANES == 16
    return (vfloat)_mm512_max_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (vfloat)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vfloat)_mm_max_ps((__m128)a, (__m128)b);
#else
    return (vfloat)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#endif
}

INLINE vfloat vmin(vfloat a, vfloat b)
{
#if defined(__wasm_simd128__)
    return (vfloat)wasm_f32x4_pmin((v128_t)a, (v128_t)b);
#elif LANES == 16
    return (vfloat)_mm512_min_ps((__m512)a, (__m512)b);
#elif LANES == 8
    return (vfloat)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vfloat)_mm_min_ps((__m128)a, (__m128)b);
#else
    return (vfloat)vminq_f32((float32x4_t)a, (float32x4_t)b);
#endif
}

/* A constant for loops. Browsers build a vector constant at each use, in several instructions; splats of a number that
 * the compiler does not know are moved out of the loop. */
INLINE vint vconstant(int32_t x)
{
#if defined(__wasm__)
    __asm__("" : "+r"(x));
#endif
    return vsplat_int(x);
}

INLINE vfloat vnumber(float x)
{
#if defined(__wasm__)
    __asm__("" : "+r"(x));
#endif
    return vsplat(x);
}

/* x held between low and high; NaN stays NaN. */
INLINE vfloat vclamp(vfloat x, float low, float high)
{
#if defined(__SSE2__) && !defined(__wasm_simd128__)
    return vmax(vnumber(low), vmin(vnumber(high), x)); /* of a NaN and a number, minps and maxps return the second */
#else
    return vmax(vmin(x, vnumber(high)), vnumber(low)); /* pmin and pmax return the first; NEON's the NaN */
#endif
}

/* mask ? a : b, lane by lane; a mask is what a comparison of vfloats gives. */
INLINE vfloat vselect(vint mask, vfloat a, vfloat b) { return (vfloat)(((vint)a & mask) | ((vint)b & ~mask)); }
/* NaN if either is; vmax and vmin do not say what they make of NaN. An instruction of x86 gives b where one is NaN. */
#if LANES == 16
#define WITH_NAN(a, other)                                                                                             \
    (vfloat) _mm512_mask_mov_ps(other, _mm512_cmp_ps_mask((__m512)(a), (__m512)(a), _CMP_UNORD_Q), (__m512)(a))
INLINE vfloat vmaximum(vfloat a, vfloat b) { return WITH_NAN(a, _mm512_max_ps((__m512)a, (__m512)b)); }
INLINE vfloat vminimum(vfloat a, vfloat b) { return WITH_NAN(a, _mm512_min_ps((__m512)a, (__m512)b)); }
#elif LANES == 8
#define WITH_NAN(a, other) (vfloat) _mm256_blendv_ps(other, (__m256)(a), (__m256)((a) != (a)))
INLINE vfloat vmaximum(vfloat a, vfloat b) { return WITH_NAN(a, _mm256_max_ps((__m256)a, (__m256)b)); }
INLINE vfloat vminimum(vfloat a, vfloat b) { return WITH_NAN(a, _mm256_min_ps((__m256)a, (__m256)b)); }
#else
INLINE vfloat vmaximum(vfloat a, vfloat b) { return vselect((a > b) | (a != a), a, b); }
INLINE vfloat vminimum(vfloat a, vfloat b) { return vselect((a < b) | (a != a), a, b); }
#endif
INLINE vfloat vabs(vfloat a) { return (vfloat)((vint)a & vsplat_int(0x7fffffff)); }
INLINE vfloat vsqrt(vfloat a)
{
#if defined(__wasm_simd128__)
    return (vfloat)wasm_f32x4_sqrt((v128_t)a);
#elif LANES == 16
    return (vfloat)_mm512_sqrt_ps((__m512)a);
#elif LANES == 8
    return (vfloat)_mm256_sqrt_ps((__m256)a);
#elif defined(__SSE2__)
    return (vfloat)_mm_sqrt_ps((__m128)a);
#else
    return (vfloat)vsqrtq_f32((float32x4_t)a);
#endif
}

INLINE vfloat vfrom_int(vint a) { return __builtin_convertvector(a, vfloat); }

/* Without what comes after the point, for |a| < 2^31. */
INLINE vint vcut_to_int(vfloat a)
{
#if defined(__wasm_relaxed_simd__)
    return (vint)wasm_i32x4_relaxed_trunc_f32x4((v128_t)a);
#else
    return __builtin_convertvector(a, vint);
#endif
}

/* Nearest integer, halves to even; right for |a| < 2^31, anything (no trap) elsewhere. */
INLINE vint vround_to_int(vfloat a)
{
#if defined(__wasm_relaxed_simd__)
    return (vint)wasm_i32x4_relaxed_trunc_f32x4(wasm_f32x4_nearest((v128_t)a));
#elif defined(__wasm_simd128__)
    return (vint)wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest((v128_t)a));
#elif LANES == 16
    return (vint)_mm512_cvtps_epi32((__m512)a);
#elif LANES == 8
    return (vint)_mm256_cvtps_epi32((__m256)a);
#elif defined(__SSE2__)
    return (vint)_mm_cvtps_epi32((__m128)a);
#else
    return (vint)vcvtnq_s32_f32((float32x4_t)a);
#endif
}

INLINE float vsum(vfloat a)
{
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)a);
#elif LANES == 8
    const __m128 half = _mm_add_ps(_mm256_castps256_ps128((__m256)a), _mm256_extractf128_ps((__m256)a, 1));
    const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
#else
    return (a[0] + a[2]) + (a[1] + a[3]);
#endif
}

INLINE float vlargest(vfloat a)
{
#if LANES == 16
    return _mm512_reduce_max_ps((__m512)a);
#elif LANES == 8
    const __m128 half = _mm_max_ps(_mm256_castps256_ps128((__m256)a), _mm256_extractf128_ps((__m256)a, 1));
    const __m128 pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
#else
    float largest = a[0];
    for (int i = 1; i < LANES; i++)
        largest = a[i] > largest ? a[i] : largest;
    return largest;
#endif
}

INLINE vint vmax_int(vint a, vint b)
{
#if defined(__wasm_simd128__)
    return (vint)wasm_i32x4_max((v128_t)a, (v128_t)b);
#elif LANES == 16
    return (vint)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif LANES == 8
    return (vint)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const vint larger = a > b;
    return (a & larger) | (b & ~larger);
#endif
}

INLINE int32_t vlargest_int(vint a)
{
#if LANES == 16
    return _mm512_reduce_max_epi32((__m512i)a);
#elif LANES == 8
    const __m128i half = _mm_max_epi32(_mm256_castsi256_si128((__m256i)a), _mm256_extracti128_si256((__m256i)a, 1));
    const __m128i pair = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(pair, _mm_shuffle_epi32(pair, 0xb1)));
#else
    const vint pair = vmax_int(a, __builtin_shufflevector(a, a, 2, 3, 0, 1));
    return pair[0] > pair[1] ? pair[0] : pair[1];
#endif
}

INLINE int32_t vsum_int(vint a)
{
#if LANES == 16
    return _mm512_reduce_add_epi32((__m512i)a);
#elif LANES == 8
    const __m128i half = _mm_add_epi32(_mm256_castsi256_si128((__m256i)a), _mm256_extracti128_si256((__m256i)a, 1));
    const __m128i pair = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(pair, _mm_shuffle_epi32(pair, 0xb1)));
#else
    return (a[0] + a[2]) + (a[1] + a[3]);
#endif
}

/* Half precision: every value, also subnormals, infinities and NaN. */
INLINE float f16_to_float(uint16_t half)
{
    const uint32_t shifted = (uint32_t)(half & 0x7fff) << 13;
    const union {
        uint32_t bits;
        float value;
    } scale = {0x77800000}, raw = {shifted}; /* 2^112 */
    union {
        uint32_t bits;
        float value;
    } out = {.value = raw.value * scale.value};
    if (shifted >= 0x0f800000)
        out.bits |= 0x7f800000;
    out.bits |= (uint32_t)(half & 0x8000) << 16;
    return out.value;
}

/* Rounded to nearest even; too large becomes infinity, NaN stays NaN. */
INLINE uint16_t float_to_f16(float x)
{
    const union {
        float value;
        uint32_t bits;
    } in = {x};
    const uint32_t magnitude = in.bits & 0x7fffffff, sign = in.bits >> 16 & 0x8000;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 rounds up past the largest half */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below 2^-14: adding 0.5 leaves a multiple of 2^-24 in the low bits */
        const union {
            uint32_t bits;
            float value;
        } small = {magnitude};
        const union {
            float value;
            uint32_t bits;
        } sum = {small.value + 0.5f};
        return (uint16_t)(sign | (sum.bits - 0x3f000000));
    }
    return (uint16_t)(sign | ((magnitude + 0xfff + (magnitude >> 13 & 1)) - 0x38000000) >> 13);
}

INLINE float bf16_to_float(uint16_t half)
{
    const union {
        uint32_t bits;
        float value;
    } out = {(uint32_t)half << 16};
    return out.value;
}

/* LANES halves, widened; p needs no alignment beyond its elements. */
INLINE vuint vload_u16(const uint16_t *p)
{
#if LANES == 16
    return (vuint)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
#elif LANES == 8
    return (vuint)_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
#elif defined(__wasm_simd128__)
    return (vuint)wasm_u32x4_load16x4(p);
#elif defined(__SSE2__)
    return (vuint)_mm_unpacklo_epi16(_mm_loadl_epi64((const void *)p), _mm_setzero_si128());
#else
    return (vuint)vmovl_u16(vld1_u16(p));
#endif
}

INLINE vfloat vload_bf16(const uint16_t *p) { return (vfloat)(vload_u16(p) << 16); }

/* Without float operations on subnormals, which take a hundred cycles: those halves become 2^-15 (1 + m / 1024) = f,
 * and 2 f - 2^-14 is right for them and larger than f for all others. */
INLINE vfloat vload_f16(const uint16_t *p)
{
#if LANES == 16
    return (vfloat)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
#elif LANES == 8
    return (vfloat)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (vfloat)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
#else
    const vint half = (vint)vload_u16(p), sign = (half << 16) & vconstant(INT32_MIN);
    const vfloat f = (vfloat)(((half & vconstant(0x7fff)) << 13) + vconstant(0x38000000));
    const vfloat value = vmin(f, f + (f - (vfloat)vconstant(0x38800000)));
    const vint infinite = (vint)(f >= (vfloat)vconstant(0x47800000)) & vconstant(0x7f800000);
    return (vfloat)((vint)value | infinite | sign);
#endif
}

/* Narrowing to half formats rounds to nearest, ties to even. */
INLINE vuint select_bits(vint mask, vuint a, vuint b) { return (a & (vuint)mask) | (b & ~(vuint)mask); }

INLINE vuint vto_f16(vfloat x)
{
#if LANES == 16
    return (vuint)_mm512_cvtepu16_epi32(_mm512_cvtps_ph((__m512)x, 0));
#elif LANES == 8
    return (vuint)_mm256_cvtepu16_epi32(_mm256_cvtps_ph((__m256)x, 0));
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (vuint)vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
#else
    const vuint sign = ((vuint)x >> 16) & 0x8000u, bits = (vuint)x & 0x7fffffffu;
    const vint magnitude = (vint)bits;
    /* adding 0.5 leaves the subnormal half's bits, rounded, at the bottom of the sum */
    const vuint subnormal = (vuint)((vfloat)bits + 0.5f) - 0x3f000000u;
    const vuint normal = (bits - (112u << 23) + 0xfffu + ((bits >> 13) & 1u)) >> 13;
    const vuint nan = 0x7e00u | ((bits >> 13) & 0x3ffu);
    vuint half = select_bits(magnitude < 0x38800000, subnormal, normal);
    half = select_bits(magnitude >= 0x47800000, (vuint)vsplat_int(0x7c00), half);
    return select_bits(magnitude > 0x7f800000, nan, half) | sign;
#endif
}

INLINE vuint vto_bf16(vfloat x)
{
    const vuint bits = (vuint)x;
    const vuint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return select_bits(x == x, rounded, (bits >> 16) | 0x40u);
}

/* The kind of a weight's elements; functions with this argument are compiled for each kind. */
enum { KIND_F32, KIND_F16, KIND_BF16 };

INLINE float scalar_at(const void *p, int64_t index, const int kind)
{
    if (kind == KIND_F32)
        return ((const float *)p)[index];
    const uint16_t half = ((const uint16_t *)p)[index];
    return kind == KIND_F16 ? f16_to_float(half) : bf16_to_float(half);
}

INLINE vfloat vload_at(const void *p, int64_t index, const int kind)
{
    if (kind == KIND_F32)
        return vload((const float *)p + index);
    return kind == KIND_F16 ? vload_f16((const uint16_t *)p + index) : vload_bf16((const uint16_t *)p + index);
}

/* Four floats, on every set. */
typedef float quad __attribute__((vector_size(16)));
typedef float quad_unaligned __attribute__((vector_size(16), aligned(1), may_alias));

INLINE quad quad_at(const void *p, int64_t index, const int kind)
{
    if (kind == KIND_F32)
        return *(const quad_unaligned *)((const float *)p + index);
#if LANES == 4
    return vload_at(p, index, kind);
#else
    const __m128i halves = _mm_loadl_epi64((const void *)((const uint16_t *)p + index));
    return kind == KIND_F16 ? (quad)_mm_cvtph_ps(halves) : (quad)_mm_slli_epi32(_mm_cvtepu16_epi32(halves), 16);
#endif
}

INLINE void transpose4(quad *a, quad *b, quad *c, quad *d)
{
#if defined(__wasm_simd128__)
    const v128_t ab = wasm_i32x4_shuffle((v128_t)*a, (v128_t)*b, 0, 4, 1, 5),
                 cd = wasm_i32x4_shuffle((v128_t)*c, (v128_t)*d, 0, 4, 1, 5);
    const v128_t ef = wasm_i32x4_shuffle((v128_t)*a, (v128_t)*b, 2, 6, 3, 7),
                 gh = wasm_i32x4_shuffle((v128_t)*c, (v128_t)*d, 2, 6, 3, 7);
    *a = (quad)wasm_i64x2_shuffle(ab, cd, 0, 2), *b = (quad)wasm_i64x2_shuffle(ab, cd, 1, 3);
    *c = (quad)wasm_i64x2_shuffle(ef, gh, 0, 2), *d = (quad)wasm_i64x2_shuffle(ef, gh, 1, 3);
#elif defined(__SSE2__)
    __m128 w = (__m128)*a, x = (__m128)*b, y = (__m128)*c, z = (__m128)*d;
    _MM_TRANSPOSE4_PS(w, x, y, z);
    *a = (quad)w, *b = (quad)x, *c = (quad)y, *d = (quad)z;
#else
    const float32x4_t ac = vzip1q_f32((float32x4_t)*a, (float32x4_t)*c),
                      bd = vzip1q_f32((float32x4_t)*b, (float32x4_t)*d);
    const float32x4_t eg = vzip2q_f32((float32x4_t)*a, (float32x4_t)*c),
                      fh = vzip2q_f32((float32x4_t)*b, (float32x4_t)*d);
    *a = (quad)vzip1q_f32(ac, bd), *b = (quad)vzip2q_f32(ac, bd);
    *c = (quad)vzip1q_f32(eg, fh), *d = (quad)vzip2q_f32(eg, fh);
#endif
}

#if LANES == 16
/* rows[i][j] and rows[j][i] change places. */
INLINE void transpose_lanes(vint rows[LANES])
{
    __m512i a[LANES], b[LANES];
    UNROLL for (int i = 0; i < LANES; i += 2)
    {
        a[i] = _mm512_unpacklo_epi32((__m512i)rows[i], (__m512i)rows[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32((__m512i)rows[i], (__m512i)rows[i + 1]);
    }
    UNROLL for (int i = 0; i < LANES; i += 4) UNROLL for (int j = 0; j < 2; j++)
    {
        b[i + 2 * j] = _mm512_unpacklo_epi64(a[i + j], a[i + j + 2]);
        b[i + 2 * j + 1] = _mm512_unpackhi_epi64(a[i + j], a[i + j + 2]);
    }
    UNROLL for (int i = 0; i < 4; i++)
    {
        a[i] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0x88);
        a[i + 4] = _mm512_shuffle_i32x4(b[i], b[i + 4], 0xdd);
        a[i + 8] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0x88);
        a[i + 12] = _mm512_shuffle_i32x4(b[i + 8], b[i + 12], 0xdd);
    }
    UNROLL for (int i = 0; i < 8; i++)
    {
        rows[i] = (vint)_mm512_shuffle_i32x4(a[i], a[i + 8], 0x88);
        rows[i + 8] = (vint)_mm512_shuffle_i32x4(a[i], a[i + 8], 0xdd);
    }
}
#endif

/* Products of pairs of bf16: an instruction that only some processors of the set have. */
#if LANES == 16 && (defined(__clang__) || __GNUC__ >= 10)
#define BF16_DOTS 1
#define WITH_BF16_DOTS __attribute__((target("avx512bf16")))
INLINE int machine_has_bf16_dots(void) { return __builtin_cpu_supports("avx512bf16"); }
/* sum + the products of the two numbers in each lane. */
WITH_BF16_DOTS INLINE vfloat vdot_bf16(vint a, vint b, vfloat sum)
{
    return (vfloat)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
/* Those of the mask, the rest is zero: LANES halves, widened, and 2 * LANES halves. */
INLINE vuint vload_u16_part(const uint16_t *p, uint32_t mask)
{
    return (vuint)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)mask, p));
}
INLINE vint vload_pairs_part(const uint16_t *p, uint32_t mask) { return (vint)_mm512_maskz_loadu_epi16(mask, p); }
#endif

/* The even and the odd elements of two vectors that lie one after the other; the two that make these up again. */
#if LANES == 16
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define ZIP_FIRST(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_SECOND(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 8
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define ZIP_FIRST(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_SECOND(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define EVEN(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define ZIP_FIRST(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_SECOND(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif
#endif
