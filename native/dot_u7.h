/* Dot products of weights 0 .. 127 with int8 activations, for which every instruction set has an exact instruction
 * (parts and sums as in int8.h). Weights are unpacked from bits in registers, not in memory. */
#ifndef PYAPP_DOT_U7_H
#define PYAPP_DOT_U7_H
#include "int8.h"

typedef uint32_t part_bits __attribute__((vector_size(PART_BYTES)));
typedef uint32_t part_bits_unaligned __attribute__((vector_size(PART_BYTES), aligned(1), may_alias));

#if defined(__AVX2__) || defined(__wasm_relaxed_simd__) || defined(__ARM_FEATURE_DOTPROD)
#define U7_WORDS 0
typedef int8_t u7_value;
typedef part_sums u7_sums;
#else /* pairs of int16, of each 4 activations the first and the third, then the others: as weights come out of words */
#define U7_WORDS 1
typedef int16_t u7_value;
typedef part_sums u7_sums;
typedef int8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t word8 __attribute__((vector_size(16)));
#endif

/* A block of activations: `weighted` is the scale times the sum of the first and of the last 16; `start` what the sums
 * of products start at, so that weights count from -bias on: for the first and the last 16, or for all and 0. */
typedef struct ready {
    u7_value values[BLOCK];
    float scale, weighted[2];
    int32_t start[2];
} ready;

/* The sum of 16 int8. */
INLINE int32_t sum_of_16(const int8_t *p)
{
#if defined(__wasm_simd128__)
    const v128_t four = wasm_i32x4_extadd_pairwise_i16x8(wasm_i16x8_extadd_pairwise_i8x16(wasm_v128_load(p)));
    const v128_t two = wasm_i32x4_add(four, wasm_i32x4_shuffle(four, four, 2, 3, 0, 1));
    return wasm_i32x4_extract_lane(two, 0) + wasm_i32x4_extract_lane(two, 1);
#elif defined(__SSE2__)
    const __m128i bytes = _mm_xor_si128(_mm_loadu_si128((const void *)p), _mm_set1_epi8(-128));
    const __m128i two = _mm_sad_epu8(bytes, _mm_setzero_si128());
    return _mm_cvtsi128_si32(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) - 16 * 128;
#else
    return vaddlvq_s8(vld1q_s8(p));
#endif
}

/* apart: one sum for each 16; else [0] is the sum of all. */
INLINE void make_ready(ready *to, const activations *from, int32_t bias, int apart)
{
    const int32_t first = apart ? sum_of_16(from->values) : from->sum, last = from->sum - first;
#if U7_WORDS
    for (int i = 0; i < BLOCK; i += 16) {
        bytes16 x;
        memcpy(&x, from->values + i, sizeof x);
        x = __builtin_shufflevector(x, x, 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
        for (int j = 0; j < 16; j++)
            to->values[i + j] = x[j];
    }
#else
    memcpy(to->values, from->values, BLOCK);
#endif
    to->scale = from->scale;
    to->weighted[0] = from->scale * (float)first;
    to->weighted[1] = from->scale * (float)last;
    to->start[0] = -bias * first;
    to->start[1] = -bias * last;
}

/* 16 activations in the order in which rows of 16 weights meet them. */
INLINE void u7_put_row(u7_value *to, const int8_t *from)
{
#if U7_WORDS
    for (int i = 0; i < 8; i++)
        to[i] = from[2 * i], to[8 + i] = from[2 * i + 1];
#else
    memcpy(to, from, 16);
#endif
}

/* Whether dots are exact for weights up to 255, too. */
#if U7_WORDS || defined(__AVX512VNNI__)
#define U7_TAKES_U8 1
#else
#define U7_TAKES_U8 0
#endif

INLINE part_bits bits_load(const uint8_t *p) { return *(const part_bits_unaligned *)p; }
#if defined(__wasm__)
INLINE part_bits bits_constant(uint32_t n) { return (part_bits)vconstant((int32_t)n); }
#else
INLINE part_bits bits_constant(uint32_t n) { return (part_bits){0} + n; }
#endif
INLINE part_bits low_nibbles(part_bits w) { return w & bits_constant(0x0f0f0f0f); }
INLINE part_bits high_nibbles(part_bits w) { return w >> 4 & bits_constant(0x0f0f0f0f); }

INLINE u7_sums u7_start(int32_t s) { return (u7_sums){0} + s; }
INLINE part_sums u7_finish(u7_sums s) { return s; }
#if U7_WORDS
typedef struct u7_step {
    short8 even, odd;
} u7_step;
INLINE short8 pair_splat(const int16_t *p)
{
#if defined(__wasm_simd128__)
    return (short8)wasm_v128_load32_splat(p);
#else
    int32_t pair;
    memcpy(&pair, p, 4);
    return (short8)vsplat_int(pair);
#endif
}
INLINE u7_step u7_step_at(const u7_value *x) { return (u7_step){pair_splat(x), pair_splat(x + 2)}; }
INLINE u7_step u7_row_load(const u7_value *x)
{
    u7_step row;
    memcpy(&row, x, sizeof row);
    return row;
}
typedef u7_step u7_part; /* weights in the form of a dot */
INLINE u7_part u7_part_of(part_bits w)
{
    return (u7_part){(short8)((word8)w & (word8)vconstant(0x00ff00ff)), (short8)((word8)w >> 8)};
}
INLINE u7_sums u7_add(u7_sums to, u7_part w, u7_step x)
{
    return to + pair_dot(w.even, x.even) + pair_dot(w.odd, x.odd);
}
/* Low nibbles with the first step, high ones with the last. */
INLINE u7_sums u7_add_nibbles(u7_sums to, part_bits w, u7_step first, u7_step last)
{
    const word8 words = (word8)w, low = (word8)vconstant(0x000f000f);
    to += pair_dot((short8)(words & low), first.even);
    to += pair_dot((short8)(words >> 4 & low), last.even);
    to += pair_dot((short8)(words >> 8 & low), first.odd);
    return to + pair_dot((short8)(words >> 12), last.odd);
}
INLINE void u7_in_order(u7_sums *s) { IN_ORDER(*s); }
#else
typedef part_sums u7_step;
typedef part_bits u7_part;
INLINE u7_part u7_part_of(part_bits w) { return w; }
INLINE u7_step u7_step_at(const u7_value *x)
{
#if defined(__wasm_simd128__)
    return (u7_step)wasm_v128_load32_splat(x);
#elif defined(__AVX2__)
    int32_t four;
    memcpy(&four, x, 4);
    return (u7_step)_mm256_set1_epi32(four);
#else
    int32_t four;
    memcpy(&four, x, 4);
    return (u7_step)vdupq_n_s32(four);
#endif
}
INLINE u7_step u7_row_load(const u7_value *x) { return (u7_step)bits_load((const uint8_t *)x); }
INLINE u7_sums u7_add(u7_sums to, u7_part w, u7_step x)
{
#if defined(__AVX512VNNI__)
    return (u7_sums)_mm256_dpbusd_epi32((__m256i)to, (__m256i)w, (__m256i)x);
#elif defined(__AVX2__) /* pairs stay below 2 * 127 * 127 < 2^15 */
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)w, (__m256i)x);
    return to + (u7_sums)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__wasm_simd128__)
    return (u7_sums)wasm_i32x4_relaxed_dot_i8x16_i7x16_add((v128_t)x, (v128_t)w, (v128_t)to);
#else
    return (u7_sums)vdotq_s32((int32x4_t)to, (int8x16_t)w, (int8x16_t)x);
#endif
}
INLINE u7_sums u7_add_nibbles(u7_sums to, part_bits w, u7_step first, u7_step last)
{
    return u7_add(u7_add(to, low_nibbles(w), first), high_nibbles(w), last);
}
INLINE void u7_in_order(u7_sums *s) { (void)s; }
#endif

INLINE u7_step u7_step_load(const ready *x, int index) { return u7_step_at(x->values + 4 * index); }

/* Where a dot is several instructions, sums of two products stay in 16 bits as long as they fit, which costs less than a
 * dot for each: (2^bits - 1) * 127 * 2 for each pair. U7_PAIRS: 0 never, 1 always, 2 as the machine is (find_dot_way). */
#if defined(__wasm_relaxed_simd__)
#define U7_PAIRS 2
typedef v128_t u7_pairs;
INLINE u7_pairs u7_pairs_of(u7_part w, u7_step x) { return wasm_i16x8_relaxed_dot_i8x16_i7x16((v128_t)x, (v128_t)w); }
INLINE u7_pairs u7_pairs_sum(u7_pairs a, u7_pairs b) { return wasm_i16x8_add(a, b); }
INLINE u7_sums u7_add_pairs(u7_sums to, u7_pairs pairs)
{
    return to + (u7_sums)wasm_i32x4_extadd_pairwise_i16x8(pairs);
}
#elif defined(__AVX2__) && !defined(__AVX512VNNI__)
#define U7_PAIRS 1
typedef __m256i u7_pairs;
INLINE u7_pairs u7_pairs_of(u7_part w, u7_step x) { return _mm256_maddubs_epi16((__m256i)w, (__m256i)x); }
INLINE u7_pairs u7_pairs_sum(u7_pairs a, u7_pairs b) { return _mm256_add_epi16(a, b); }
INLINE u7_sums u7_add_pairs(u7_sums to, u7_pairs pairs)
{
    return to + (u7_sums)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
#define U7_PAIRS 0
typedef u7_sums u7_pairs;
INLINE u7_pairs u7_pairs_of(u7_part w, u7_step x) { return u7_add(u7_start(0), w, x); }
INLINE u7_pairs u7_pairs_sum(u7_pairs a, u7_pairs b) { return a + b; }
INLINE u7_sums u7_add_pairs(u7_sums to, u7_pairs pairs) { return to + pairs; }
#endif

/* Two steps of a band by one instruction, where vectors are twice as long as a step: weights of step s and of the one
 * after it, with their activations. */
#if defined(__AVX512VNNI__)
#define U7_TWO_STEPS 1
typedef vuint u7_two;
INLINE u7_two u7_two_load(const uint8_t *p) { return (u7_two)_mm512_loadu_si512(p); }
/* A step's bytes twice: shifted right by `first` bits, and by `second`. */
INLINE u7_two u7_two_shifted(const uint8_t *p, int first, int second)
{
    const __m512i both = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)p));
    return (u7_two)_mm512_srlv_epi32(both, _mm512_mask_set1_epi32(_mm512_set1_epi32(first), 0xff00, second));
}
INLINE u7_two u7_two_steps(const ready *x, int index)
{
    int32_t four, next;
    memcpy(&four, x->values + 4 * index, 4);
    memcpy(&next, x->values + 4 * index + 4, 4);
    return (u7_two)_mm512_mask_set1_epi32(_mm512_set1_epi32(four), 0xff00, next);
}
INLINE u7_two u7_two_start(int32_t s) { return (u7_two)_mm512_maskz_set1_epi32(0x00ff, s); }
INLINE u7_two u7_two_add(u7_two to, u7_two w, u7_two x)
{
    return (u7_two)_mm512_dpbusd_epi32((__m512i)to, (__m512i)w, (__m512i)x);
}
INLINE u7_sums u7_two_finish(u7_two s)
{
    return (u7_sums)_mm512_castsi512_si256((__m512i)s) + (u7_sums)_mm512_extracti64x4_epi64((__m512i)s, 1);
}
#else
#define U7_TWO_STEPS 0
#endif

/* Stripes (int8.h) of weights that lie side by side. */
#if defined(__AVX512VNNI__)
typedef vuint u7_stripe;
typedef vint u7_stripe_sums;
typedef stripe_step u7_stripe_step;
INLINE u7_stripe u7_stripe_load(const uint8_t *p) { return (u7_stripe)_mm512_loadu_si512(p); }
INLINE u7_stripe_step u7_stripe_step_load(const ready *x, int index)
{
    int32_t four;
    memcpy(&four, x->values + 4 * index, 4);
    return _mm512_set1_epi32(four);
}
INLINE u7_stripe_sums u7_stripe_start(int32_t s) { return vsplat_int(s); }
INLINE u7_stripe_sums u7_stripe_add(u7_stripe_sums to, u7_stripe w, u7_stripe_step x)
{
    return (u7_stripe_sums)_mm512_dpbusd_epi32((__m512i)to, (__m512i)w, x);
}
INLINE stripe_float u7_stripe_floats(u7_stripe_sums s) { return (stripe_float)vfrom_int(s); }
INLINE void u7_stripe_in_order(u7_stripe_sums *s) { (void)s; }
#else
typedef part_bits u7_stripe;
typedef u7_sums u7_stripe_sums;
typedef u7_step u7_stripe_step;
INLINE u7_stripe u7_stripe_load(const uint8_t *p) { return bits_load(p); }
INLINE u7_stripe_step u7_stripe_step_load(const ready *x, int index) { return u7_step_load(x, index); }
INLINE u7_stripe_sums u7_stripe_start(int32_t s) { return u7_start(s); }
INLINE u7_stripe_sums u7_stripe_add(u7_stripe_sums to, u7_stripe w, u7_stripe_step x)
{
    return u7_add(to, u7_part_of(w), x);
}
INLINE stripe_float u7_stripe_floats(u7_stripe_sums s) { return part_from_int(u7_finish(s)); }
INLINE void u7_stripe_in_order(u7_stripe_sums *s) { u7_in_order(s); }
#endif

/* BAND bytes as f32; floats_of_nibbles: their low and their high nibbles. */
#if defined(__AVX2__)
INLINE void floats_of_u8(part_float to[PARTS], const uint8_t *p)
{
    to[0] = (part_float)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)));
}
INLINE void floats_of_i8(part_float to[PARTS], const uint8_t *p)
{
    to[0] = (part_float)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}
INLINE void floats_of_nibbles(part_float low[PARTS], part_float high[PARTS], const uint8_t *p)
{
    const __m256i both = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
    low[0] = (part_float)_mm256_cvtepi32_ps(_mm256_and_si256(both, _mm256_set1_epi32(15)));
    high[0] = (part_float)_mm256_cvtepi32_ps(_mm256_srli_epi32(both, 4));
}
#elif defined(__wasm_simd128__)
INLINE part_float wide_floats(v128_t wide)
{
    IN_ORDER(wide); /* clang 14 would convert one by one if it saw that these were shorter */
    return (part_float)wasm_f32x4_convert_i32x4(wide);
}
INLINE void floats_of_u8(part_float to[PARTS], const uint8_t *p)
{
    const v128_t wide = wasm_u16x8_load8x8(p);
    to[0] = wide_floats(wasm_u32x4_extend_low_u16x8(wide));
    to[1] = wide_floats(wasm_u32x4_extend_high_u16x8(wide));
}
INLINE void floats_of_i8(part_float to[PARTS], const uint8_t *p)
{
    const v128_t wide = wasm_i16x8_load8x8(p);
    to[0] = wide_floats(wasm_i32x4_extend_low_i16x8(wide));
    to[1] = wide_floats(wasm_i32x4_extend_high_i16x8(wide));
}
INLINE void floats_of_nibbles(part_float low[PARTS], part_float high[PARTS], const uint8_t *p)
{
    const v128_t both = wasm_u16x8_load8x8(p), ones = wasm_i16x8_splat(15);
    const v128_t first = wasm_v128_and(both, ones), last = wasm_u16x8_shr(both, 4);
    low[0] = wide_floats(wasm_u32x4_extend_low_u16x8(first));
    low[1] = wide_floats(wasm_u32x4_extend_high_u16x8(first));
    high[0] = wide_floats(wasm_u32x4_extend_low_u16x8(last));
    high[1] = wide_floats(wasm_u32x4_extend_high_u16x8(last));
}
#else
INLINE void floats_of_u8(part_float to[PARTS], const uint8_t *p)
{
    for (int i = 0; i < PARTS; i++, p += PART_ROWS)
        to[i] = (part_float){(float)p[0], (float)p[1], (float)p[2], (float)p[3]};
}
INLINE void floats_of_i8(part_float to[PARTS], const uint8_t *p)
{
    for (int i = 0; i < PARTS; i++, p += PART_ROWS)
        to[i] = (part_float){(float)(int8_t)p[0], (float)(int8_t)p[1], (float)(int8_t)p[2], (float)(int8_t)p[3]};
}
INLINE void floats_of_nibbles(part_float low[PARTS], part_float high[PARTS], const uint8_t *p)
{
    for (int i = 0; i < PARTS; i++, p += PART_ROWS)
        for (int r = 0; r < PART_ROWS; r++)
            low[i][r] = (float)(p[r] & 15), high[i][r] = (float)(p[r] >> 4);
}
#endif
#endif
