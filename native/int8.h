/* Dot products of int8: the part of simd.h that linear_q8.c needs.
 *
 * A "part" is the content of one vector of packed weights (kernels.h): 4 columns of PART_ROWS rows (4 or 8). The
 * matching 4 activations are broadcast, so that a part needs no horizontal sum. Signed x signed is exact everywhere;
 * `prepare` compensates for missing instructions once per row, not once per weight:
 *   AVX-512 VNNI  dpbusd takes unsigned x signed: (w ^ 0x80) * x, the sums start at -128 * sum(x)
 *   AVX2          maddubs takes unsigned x signed: |w| * (x with w's sign)
 *   relaxed       dot takes signed x 0..127; the meaning of 128..255 is undefined, but constant on one machine. If
 *                 find_dot_way finds that it is unsigned or signed, with 32-bit sums, one dot is used as above; else
 *                 two of int16 pairs, which such a machine has at full speed. Four weights a, b, c, d are the words
 *                 256 b + a and 256 d + c, whose high bytes are b and d. The first word gives
 *                 word * x_a + b * (x_b - 256 x_a) = a x_a + b x_b. A low byte has no sign: a and c are stored with 128
 *                 added (the xor), and the sums start at -128 * (x_a + x_c)
 *   others        widened to int16, pairs multiplied and added
 */
#ifndef PYAPP_INT8_H
#define PYAPP_INT8_H
#include "simd.h"

#include "activations.h"

/* Rows of y, of `outputs` columns, and what is added to them: a row for each, one for all (stride 0), or NULL. */
typedef struct band_output {
    float *y;
    const float *residual;
    int64_t outputs, y_stride, residual_stride;
} band_output;

/* Adds a band's sums to y: to the residual (or nothing) for the first blocks of a row, to y itself after that. */
static __attribute__((noinline, unused)) void store_band(const band_output *to, const float sum[BAND], int64_t row,
                                                         int64_t band, int first)
{
    float *y = to->y + row * to->y_stride + band * BAND;
    const float *add = first ? (to->residual ? to->residual + row * to->residual_stride + band * BAND : NULL) : y;
    const int64_t count = to->outputs - band * BAND;
    for (int i = 0; i < BAND && i < count; i++)
        y[i] = add ? add[i] + sum[i] : sum[i];
}

/* The rows from `row` on. */
INLINE band_output output_from(band_output to, int64_t row)
{
    to.y += row * to.y_stride;
    if (to.residual)
        to.residual += row * to.residual_stride;
    return to;
}

/* What one worker does of a product: some rows of x with the bands first .. last - 1. */
typedef struct band_share {
    band_output to;
    const activations *x;
    int64_t rows, first, last;
} band_share;

/* Bands that kernels multiply at once for a single row. Where code is downloaded, fewer take as long. */
enum { BANDS_TOGETHER = 4 };

/* Workers share rows where each of them gets `rows_each` at least, in multiples of `unit`, else bands. */
INLINE band_share share_bands(band_output to, const activations *x, int64_t rows, int64_t blocks, int64_t unit,
                              int64_t rows_each, int worker, int workers)
{
    band_share share = {to, x, rows, 0, (to.outputs + BAND - 1) / BAND};
    if (rows < rows_each * workers) {
        const int64_t together = share.last < BANDS_TOGETHER * workers ? 1 : BANDS_TOGETHER;
        worker_share(share.last, together, worker, workers, &share.first, &share.last);
    } else {
        int64_t row, end;
        worker_share(rows, unit, worker, workers, &row, &end);
        share.rows = end - row;
        share.x += row * blocks;
        share.to = output_from(to, row);
    }
    return share;
}

#if defined(__AVX2__)
#define PART_ROWS 8
typedef float part_float __attribute__((vector_size(32)));
typedef int32_t part_sums __attribute__((vector_size(32)));
typedef float part_unaligned __attribute__((vector_size(32), aligned(1), may_alias));
#else
#define PART_ROWS 4
typedef float part_float __attribute__((vector_size(16)));
typedef int32_t part_sums __attribute__((vector_size(16)));
typedef float part_unaligned __attribute__((vector_size(16), aligned(1), may_alias));
#endif
enum { PARTS = BAND / PART_ROWS, PART_BYTES = PART_ROWS * 4 };

/* prepared: a block of activations in the form of the dot; part: weights; step: 4 activations, broadcast; sums: one
 * int32 for each row, possibly in pieces until part_finish. */
typedef struct dot_way {
    int two;             /* relaxed: two dots; always a compile-time constant */
    int32_t flip, start; /* relaxed: xor for weights; one dot: factor of sum(x) */
} dot_way;

#if defined(__AVX512VNNI__)
typedef activations prepared;
typedef __m256i part, step, sums;
INLINE part part_load(const int8_t *w, const dot_way *way)
{
    return _mm256_xor_si256(_mm256_loadu_si256((const void *)w), _mm256_set1_epi8(-128));
}
INLINE step step_load(const prepared *x, int index, const dot_way *way)
{
    int32_t four;
    memcpy(&four, x->values + 4 * index, 4);
    return _mm256_set1_epi32(four);
}
INLINE sums sums_start(const prepared *x, const dot_way *way) { return _mm256_set1_epi32(-128 * x->sum); }
INLINE sums sums_add(sums to, part w, step x, const dot_way *way) { return _mm256_dpbusd_epi32(to, w, x); }
INLINE part_sums sums_finish(sums s, const dot_way *way) { return (part_sums)s; }

#elif defined(__AVX2__)
typedef activations prepared;
typedef struct part {
    __m256i signs, magnitudes;
} part;
typedef __m256i step, sums;
INLINE part part_load(const int8_t *w, const dot_way *way)
{
    const __m256i signs = _mm256_loadu_si256((const void *)w);
    return (part){signs, _mm256_abs_epi8(signs)};
}
INLINE step step_load(const prepared *x, int index, const dot_way *way)
{
    int32_t four;
    memcpy(&four, x->values + 4 * index, 4);
    return _mm256_set1_epi32(four);
}
INLINE sums sums_start(const prepared *x, const dot_way *way) { return _mm256_setzero_si256(); }
INLINE sums sums_add(sums to, part w, step x, const dot_way *way) /* |w| <= 128, |x| <= 127: pairs stay below 2^15 */
{
    const __m256i pairs = _mm256_maddubs_epi16(w.magnitudes, _mm256_sign_epi8(x, w.signs));
    return _mm256_add_epi32(to, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
INLINE part_sums sums_finish(sums s, const dot_way *way) { return (part_sums)s; }

#elif defined(__wasm_relaxed_simd__)
typedef struct prepared {
    int8_t values[2 * BLOCK]; /* one dot: as they are; two: for each step x_a, x_c and x_b - 256 x_a, x_d - 256 x_c */
    float scale;
    int32_t start;
} prepared;
typedef v128_t part;
typedef struct step {
    v128_t words, high; /* what multiplies whole words (one dot: all) and their high bytes */
} step;
typedef v128_t sums;
INLINE part part_load(const int8_t *w, const dot_way *way)
{
    return wasm_v128_xor(wasm_v128_load(w), wasm_i32x4_splat(way->flip));
}
INLINE step step_load(const prepared *x, int index, const dot_way *way)
{
    if (!way->two)
        return (step){wasm_v128_load32_splat(x->values + 4 * index), wasm_i32x4_splat(0)};
    return (step){wasm_v128_load32_splat(x->values + 8 * index), wasm_v128_load32_splat(x->values + 8 * index + 4)};
}
INLINE sums sums_start(const prepared *x, const dot_way *way) { return wasm_v128_load32_splat(&x->start); }
INLINE sums sums_add(sums to, part w, step x, const dot_way *way)
{
    if (!way->two)
        return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x.words, w, to);
    return wasm_i32x4_add(wasm_i32x4_add(to, wasm_i32x4_dot_i16x8(w, x.words)),
                          wasm_i32x4_dot_i16x8(wasm_i16x8_shr(w, 8), x.high));
}
INLINE part_sums sums_finish(sums s, const dot_way *way) { return (part_sums)s; }

#elif defined(__ARM_FEATURE_DOTPROD)
typedef activations prepared;
typedef int8x16_t part, step;
typedef int32x4_t sums;
INLINE part part_load(const int8_t *w, const dot_way *way) { return vld1q_s8(w); }
INLINE step step_load(const prepared *x, int index, const dot_way *way)
{
    int32_t four;
    memcpy(&four, x->values + 4 * index, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
INLINE sums sums_start(const prepared *x, const dot_way *way) { return vdupq_n_s32(0); }
INLINE sums sums_add(sums to, part w, step x, const dot_way *way) { return vdotq_s32(to, w, x); }
INLINE part_sums sums_finish(sums s, const dot_way *way) { return (part_sums)s; }

#else /* int16 pairs */
typedef struct prepared {
    int16_t values[BLOCK];
    float scale;
} prepared;
typedef int16_t short8 __attribute__((vector_size(16)));
typedef struct part {
    short8 low, high; /* rows 0 and 1, rows 2 and 3 */
} part;
typedef short8 step;
typedef struct sums {
    part_sums low, high; /* two pieces for each row, side by side */
} sums;
INLINE sums sums_start(const prepared *x, const dot_way *way) { return (sums){{0}, {0}}; }
#if defined(__wasm_simd128__)
INLINE part part_load(const int8_t *w, const dot_way *way)
{
    return (part){(short8)wasm_i16x8_load8x8(w), (short8)wasm_i16x8_load8x8(w + 8)};
}
INLINE step four_words(const int16_t *p) { return (step)wasm_v128_load64_splat(p); }
INLINE part_sums pair_dot(short8 a, short8 b) { return (part_sums)wasm_i32x4_dot_i16x8((v128_t)a, (v128_t)b); }
INLINE part_sums sums_finish(sums s, const dot_way *way)
{
    return (part_sums)wasm_i32x4_add(wasm_i32x4_shuffle((v128_t)s.low, (v128_t)s.high, 0, 2, 4, 6),
                                     wasm_i32x4_shuffle((v128_t)s.low, (v128_t)s.high, 1, 3, 5, 7));
}
#elif defined(__SSE2__)
INLINE part part_load(const int8_t *w, const dot_way *way)
{
    const __m128i all = _mm_loadu_si128((const void *)w);
    return (part){(short8)_mm_srai_epi16(_mm_unpacklo_epi8(all, all), 8),
                  (short8)_mm_srai_epi16(_mm_unpackhi_epi8(all, all), 8)};
}
INLINE step four_words(const int16_t *p)
{
    const __m128i four = _mm_loadl_epi64((const void *)p);
    return (step)_mm_unpacklo_epi64(four, four);
}
INLINE part_sums pair_dot(short8 a, short8 b) { return (part_sums)_mm_madd_epi16((__m128i)a, (__m128i)b); }
INLINE part_sums sums_finish(sums s, const dot_way *way)
{
    const __m128 low = (__m128)s.low, high = (__m128)s.high;
    return (part_sums)_mm_add_epi32((__m128i)_mm_shuffle_ps(low, high, 0x88), (__m128i)_mm_shuffle_ps(low, high, 0xdd));
}
#else
INLINE part part_load(const int8_t *w, const dot_way *way)
{
    return (part){(short8)vmovl_s8(vld1_s8(w)), (short8)vmovl_s8(vld1_s8(w + 8))};
}
INLINE step four_words(const int16_t *p)
{
    const int16x4_t four = vld1_s16(p);
    return (step)vcombine_s16(four, four);
}
INLINE part_sums pair_dot(short8 a, short8 b)
{
    const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    return (part_sums)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
INLINE part_sums sums_finish(sums s, const dot_way *way)
{
    return (part_sums)vpaddq_s32((int32x4_t)s.low, (int32x4_t)s.high);
}
#endif
INLINE step step_load(const prepared *x, int index, const dot_way *way) { return four_words(x->values + 4 * index); }
INLINE sums sums_add(sums to, part w, step x, const dot_way *way)
{
    return (sums){to.low + pair_dot(w.low, x), to.high + pair_dot(w.high, x)};
}
#endif

INLINE void sums_in_order(sums *s)
{
#if defined(__wasm_simd128__) && !defined(__wasm_relaxed_simd__)
    IN_ORDER(s->low);
    IN_ORDER(s->high);
#elif defined(__AVX2__) /* GCC would add the products of several steps first, in more registers than there are */
    __asm__("" : "+x"(*s));
#else
    (void)s;
#endif
}

/* Prepares a block; instruction sets whose `prepared` is the block itself use it in place. */
#if defined(__AVX2__) || (defined(__ARM_FEATURE_DOTPROD) && !defined(__wasm__))
#define PREPARED_IN_PLACE 1
#else
#define PREPARED_IN_PLACE 0
INLINE void prepare(prepared *to, const activations *from, const dot_way *way)
{
#if defined(__wasm_relaxed_simd__)
    v128_t sum = wasm_i32x4_splat(0);
    for (int i = 0; i < BLOCK; i += 16) {
        const v128_t x = wasm_v128_load(from->values + i);
        const v128_t first = wasm_i16x8_shl(x, 8), words = wasm_i16x8_shr(first, 8);
        const v128_t high = wasm_i16x8_sub(wasm_i16x8_shr(x, 8), first);
        wasm_v128_store(to->values + (way->two ? 2 * i : i),
                        way->two ? wasm_i32x4_shuffle(words, high, 0, 4, 1, 5) : x);
        if (way->two)
            wasm_v128_store(to->values + 2 * i + 16, wasm_i32x4_shuffle(words, high, 2, 6, 3, 7));
        sum = wasm_i32x4_add(sum, wasm_i32x4_extadd_pairwise_i16x8(words));
    }
    sum = wasm_i32x4_add(sum, wasm_i32x4_shuffle(sum, sum, 2, 3, 0, 1));
    const int32_t words_sum = wasm_i32x4_extract_lane(sum, 0) + wasm_i32x4_extract_lane(sum, 1);
    to->start = way->two ? -128 * words_sum : way->start * from->sum;
#else
    for (int i = 0; i < BLOCK; i++)
        to->values[i] = from->values[i];
#endif
    to->scale = from->scale;
}
#endif

#if defined(__wasm_relaxed_simd__)
/* Tries the dot with numbers for which both readings, and 16-bit intermediate sums, differ. */
INLINE dot_way find_dot_way(void)
{
    static const volatile int32_t high = (int32_t)0xffffffff,
                                  low = 0x7f7f7f7f; /* volatile: computed at run time, not by the compiler */
    const v128_t x = wasm_i32x4_splat(low), w = wasm_i32x4_splat(high), zero = wasm_i32x4_splat(0);
    const int32_t dot = wasm_i32x4_extract_lane(wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x, w, zero), 0);
    if (dot == 4 * 127 * 255)
        return (dot_way){0, (int32_t)0x80808080, -128};
    if (dot == 4 * 127 * -1)
        return (dot_way){0, 0, 0};
    return (dot_way){1, 0x00800080, 0};
}
#else
INLINE dot_way find_dot_way(void) { return (dot_way){0, 0, 0}; }
#endif

/* 16 whole numbers from -128 to 127. */
INLINE void put_bytes(int8_t *to, const vint n[16 / LANES])
{
#if defined(__wasm_simd128__)
    wasm_v128_store(to, wasm_i8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4((v128_t)n[0], (v128_t)n[1]),
                                                wasm_i16x8_narrow_i32x4((v128_t)n[2], (v128_t)n[3])));
#elif LANES == 8 /* __builtin_convertvector takes them one by one */
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32((__m256i)n[0], (__m256i)n[1]), 0xd8);
    _mm_storeu_si128((void *)to, _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
#elif defined(__SSE2__) && LANES == 4
    _mm_storeu_si128((void *)to, _mm_packs_epi16(_mm_packs_epi32((__m128i)n[0], (__m128i)n[1]),
                                                 _mm_packs_epi32((__m128i)n[2], (__m128i)n[3])));
#else
    typedef int8_t some __attribute__((vector_size(LANES), aligned(1), may_alias));
    for (int i = 0; i < 16 / LANES; i++)
        *(some *)(to + i * LANES) = __builtin_convertvector(n[i], some);
#endif
}

/* PART_ROWS scales as f32. */
INLINE part_float scales_load_f16(const void *p)
{
#if defined(__AVX2__)
    return (part_float)_mm256_cvtph_ps(_mm_loadu_si128(p));
#elif defined(__wasm_simd128__) /* shorter than vload_f16; subnormal scales are rare, and only slow */
    const vint half = (vint)wasm_i32x4_load16x4(p), magnitude_and_sign = (half << 13) & vconstant((int32_t)0x8fffe000);
    const vint infinite = (vint)((half & vconstant(0x7c00)) == vconstant(0x7c00)) & vconstant(0x7f800000);
    const vfloat value = (vfloat)magnitude_and_sign * (vfloat)vconstant(0x77800000); /* 2^112 */
    return (vfloat)((vint)value | infinite);
#else
    return vload_f16(p);
#endif
}
/* WebAssembly has no instruction for f16. scales_load_small turns finite scales into f32, in units of SCALES_UNIT, by a
 * third of the operations. Infinite scales and NaN become wrong numbers. So a kernel joins the bits of all scales that it
 * loads, and asks once, at its end, whether one was 2 or more, as infinite ones are and those of models hardly ever. Then it
 * computes again by scales_load_f16. */
#if defined(__wasm_simd128__)
#define SCALES_UNIT 0x1p-112f
typedef v128_t scales_bits;
INLINE part_float scales_load_small(const void *p)
{
    return (part_float)(((vint)wasm_i32x4_load16x4(p) << 13) & vconstant((int32_t)0x8fffe000));
}
INLINE void scales_join(scales_bits *to, const void *band) { *to = wasm_v128_or(*to, wasm_v128_load(band)); }
INLINE int scales_are_large(scales_bits joined)
{
    return wasm_v128_any_true(wasm_v128_and(joined, wasm_i16x8_splat(0x4000)));
}
#else
#define SCALES_UNIT 1
typedef struct scales_bits {
    char none;
} scales_bits;
INLINE part_float scales_load_small(const void *p) { return scales_load_f16(p); }
INLINE void scales_join(scales_bits *to, const void *band) { (void)to, (void)band; }
INLINE int scales_are_large(scales_bits joined) { return (void)joined, 0; }
#endif
INLINE part_float scales_load_f32(const void *p) { return *(const part_unaligned *)p; }

INLINE part_float part_splat(float x)
{
#if defined(__AVX2__)
    return (part_float)_mm256_set1_ps(x);
#else
    return vsplat(x);
#endif
}
/* a * b + c, fused where that is one instruction. */
INLINE part_float part_fma(part_float a, part_float b, part_float c)
{
#if defined(__wasm_relaxed_simd__)
    return (part_float)wasm_f32x4_relaxed_madd((v128_t)a, (v128_t)b, (v128_t)c);
#else
    return a * b + c;
#endif
}
INLINE part_float part_from_int(part_sums s) { return __builtin_convertvector(s, part_float); }

/* A stripe is what a vector of a tile holds, 4 columns of several rows: a part, or with AVX-512 the parts of two
 * bands, the second of which lies `stride` bytes after the first. */
#if defined(__AVX512VNNI__)
#define STRIPE_BANDS 2
enum { STRIPE_PARTS = 1 };
typedef __m512i stripe, stripe_step, stripe_sums;
typedef float stripe_float __attribute__((vector_size(64)));
typedef float stripe_unaligned __attribute__((vector_size(64), aligned(1), may_alias));
INLINE __m512i stripe_of_two(const void *first, const void *second)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(first)), _mm256_loadu_si256(second), 1);
}
INLINE stripe stripe_load(const int8_t *w, int64_t stride, const dot_way *way)
{
    return _mm512_xor_si512(stripe_of_two(w, w + stride), _mm512_set1_epi8(-128));
}
INLINE stripe_step stripe_step_load(const prepared *x, int index, const dot_way *way)
{
    int32_t four;
    memcpy(&four, x->values + 4 * index, 4);
    return _mm512_set1_epi32(four);
}
INLINE stripe_sums stripe_start(const prepared *x, const dot_way *way) { return _mm512_set1_epi32(-128 * x->sum); }
INLINE stripe_sums stripe_add(stripe_sums to, stripe w, stripe_step x, const dot_way *way)
{
    return _mm512_dpbusd_epi32(to, w, x);
}
INLINE stripe_float stripe_finish(stripe_sums s, const dot_way *way) { return (stripe_float)_mm512_cvtepi32_ps(s); }
INLINE void stripe_in_order(stripe_sums *s) { (void)s; }
INLINE stripe_float stripe_scales_f16(const uint8_t *p, int64_t stride)
{
    const __m256i two = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)p)),
                                                _mm_loadu_si128((const void *)(p + stride)), 1);
    return (stripe_float)_mm512_cvtph_ps(two);
}
INLINE stripe_float stripe_scales_small(const uint8_t *p, int64_t stride) { return stripe_scales_f16(p, stride); }
INLINE stripe_float stripe_scales_f32(const uint8_t *p, int64_t stride)
{
    return (stripe_float)stripe_of_two(p, p + stride);
}
INLINE stripe_float stripe_splat(float x) { return (stripe_float)_mm512_set1_ps(x); }
INLINE stripe_float stripe_fma(stripe_float a, stripe_float b, stripe_float c) { return a * b + c; }
#else
#define STRIPE_BANDS 1
enum { STRIPE_PARTS = PARTS };
typedef part stripe;
typedef step stripe_step;
typedef sums stripe_sums;
typedef part_float stripe_float;
typedef part_unaligned stripe_unaligned;
INLINE stripe stripe_load(const int8_t *w, int64_t stride, const dot_way *way) { return part_load(w, way); }
INLINE stripe_step stripe_step_load(const prepared *x, int index, const dot_way *way)
{
    return step_load(x, index, way);
}
INLINE stripe_sums stripe_start(const prepared *x, const dot_way *way) { return sums_start(x, way); }
INLINE stripe_sums stripe_add(stripe_sums to, stripe w, stripe_step x, const dot_way *way)
{
    return sums_add(to, w, x, way);
}
INLINE stripe_float stripe_finish(stripe_sums s, const dot_way *way) { return part_from_int(sums_finish(s, way)); }
INLINE void stripe_in_order(stripe_sums *s) { sums_in_order(s); }
INLINE stripe_float stripe_scales_f16(const uint8_t *p, int64_t stride) { return scales_load_f16(p); }
INLINE stripe_float stripe_scales_small(const uint8_t *p, int64_t stride)
{
    return SCALES_UNIT == 1 ? scales_load_small(p) : scales_load_small(p) * part_splat(1 / SCALES_UNIT);
}
INLINE stripe_float stripe_scales_f32(const uint8_t *p, int64_t stride) { return scales_load_f32(p); }
INLINE stripe_float stripe_splat(float x) { return part_splat(x); }
INLINE stripe_float stripe_fma(stripe_float a, stripe_float b, stripe_float c) { return part_fma(a, b, c); }
#endif

/* Adds the sums of `bands` neighbouring bands to a row of y: as store_band does for each, in vectors where all are there. */
static __attribute__((noinline, unused)) void store_bands(const band_output *to, const float *sum, int64_t row,
                                                          int64_t band, int bands, int first)
{
    const int64_t column = band * BAND, count = bands * BAND;
    float *y = to->y + row * to->y_stride + column;
    const float *residual = to->residual ? to->residual + row * to->residual_stride + column : NULL;
    if (column + count > to->outputs) {
        for (int b = 0; b < bands; b++)
            store_band(to, sum + b * BAND, row, band + b, first);
        return;
    }
    const float *add = first ? residual : y;
    for (int64_t i = 0; i < count; i += PART_ROWS) {
        part_float s = *(const part_unaligned *)(sum + i);
        if (add)
            s = *(const part_unaligned *)(add + i) + s;
        *(part_unaligned *)(y + i) = s;
    }
}
#endif
