/* Decodes blocks (layouts: block_types.h, bands.h): of types that lie row after row 32 columns at a time in registers. */
#include "bands.h"
#include "decode_blocks.h"
#include "dot_u7.h"

/* ---- numbers: 32 columns, one byte each */

typedef struct numbers {
    part_bits part[PARTS];
} numbers;
typedef uint32_t bits16 __attribute__((vector_size(16)));
typedef uint32_t bits16_unaligned __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t bytes16_of __attribute__((vector_size(16)));
typedef uint16_t words8 __attribute__((vector_size(16)));

INLINE bits16 load16(const uint8_t *p) { return *(const bits16_unaligned *)p; }

INLINE void store_numbers(uint8_t *to, numbers n)
{
    for (int p = 0; p < PARTS; p++)
        *(part_bits_unaligned *)(to + p * PART_BYTES) = n.part[p];
}

/* 32 numbers of four bits in 16 bytes, the low ones first. */
INLINE numbers nibbles(const uint8_t *from)
{
    const bits16 both = load16(from);
#if defined(__AVX2__)
    const part_bits all = (part_bits)_mm256_set_m128i((__m128i)(both >> 4), (__m128i)both);
    return (numbers){{all & 0x0f0f0f0f}};
#else
    return (numbers){{both & 0x0f0f0f0f, both >> 4 & 0x0f0f0f0f}};
#endif
}

/* Numbers from a table, by four bits each. */
INLINE numbers look_up(const uint8_t table[16], numbers n)
{
#if defined(__AVX2__)
    const __m256i both = _mm256_broadcastsi128_si256((__m128i)load16(table));
    return (numbers){{(part_bits)_mm256_shuffle_epi8(both, (__m256i)n.part[0])}};
#else
    for (int p = 0; p < PARTS; p++) {
#if defined(__wasm_simd128__)
        n.part[p] = (part_bits)wasm_i8x16_swizzle((v128_t)load16(table), (v128_t)n.part[p]);
#elif defined(__SSE2__)
        bytes16_of each = (bytes16_of)n.part[p];
        for (int i = 0; i < 16; i++)
            each[i] = table[each[i]];
        n.part[p] = (part_bits)each;
#else
        n.part[p] = (part_bits)vqtbl1q_u8((uint8x16_t)load16(table), (uint8x16_t)n.part[p]);
#endif
    }
    return n;
#endif
}

/* What four bits stand for in iq4_nl and iq4_xs, and (doubled) in mxfp4, plus the bias. */
static const uint8_t IQ4_NUMBERS[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t MXFP4_NUMBERS[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

/* ---- scales: of eight runs of 32 columns, of the first and of the last 16 of each */

INLINE float half_at(const uint8_t *p)
{
    uint16_t half;
    memcpy(&half, p, 2);
#if defined(__AVX2__)
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
#else
    return f16_to_float(half);
#endif
}

INLINE uint16_t word_at(const uint8_t *p)
{
    uint16_t word;
    memcpy(&word, p, 2);
    return word;
}

INLINE void store_scales(float to[8], const part_float from[PARTS])
{
    for (int p = 0; p < PARTS; p++)
        *(part_unaligned *)(to + p * PART_ROWS) = from[p];
}

/* The f16 at `from` and seven more, nbytes apart. */
INLINE void halves_apart(float to[2][8], const uint8_t *from, const int nbytes)
{
    const words8 halves = {word_at(from),
                           word_at(from + nbytes),
                           word_at(from + 2 * nbytes),
                           word_at(from + 3 * nbytes),
                           word_at(from + 4 * nbytes),
                           word_at(from + 5 * nbytes),
                           word_at(from + 6 * nbytes),
                           word_at(from + 7 * nbytes)};
    part_float floats[PARTS];
#if defined(__AVX2__)
    floats[0] = (part_float)_mm256_cvtph_ps((__m128i)halves);
#else
    uint16_t stored[8];
    memcpy(stored, &halves, sizeof stored);
    for (int p = 0; p < PARTS; p++)
        floats[p] = vload_f16(stored + p * PART_ROWS);
#endif
    store_scales(to[0], floats);
    store_scales(to[1], floats);
}

/* factor * (byte + offset) of eight bytes: one for each 32 columns. */
INLINE void scale_runs(float to[2][8], float factor, uint64_t bytes, float offset)
{
    part_float numbers[PARTS];
    uint8_t each[8];
    memcpy(each, &bytes, sizeof each);
    floats_of_u8(numbers, each);
    for (int p = 0; p < PARTS; p++)
        numbers[p] = part_splat(factor) * (numbers[p] + part_splat(offset));
    store_scales(to[0], numbers);
    store_scales(to[1], numbers);
}

/* ---- types: 256 columns of each */

/* int8 plus 128, nbytes from each 32 to the next. */
INLINE void decode_bytes(decoded *to, const uint8_t *from, const int nbytes)
{
    for (int run = 0; run < 8; run++, from += nbytes)
        for (int p = 0; p < PARTS; p++)
            *(part_bits_unaligned *)(to->numbers + 32 * run + p * PART_BYTES) =
                bits_load(from + p * PART_BYTES) ^ 0x80808080;
}

/* q8_0 q8_1: the scale comes first, the numbers last. */
INLINE void decode_q8(decoded *to, const uint8_t *from, const int nbytes)
{
    halves_apart(to->scales, from, nbytes);
    decode_bytes(to, from + nbytes - 32, nbytes);
}

INLINE void decode_q8_k(decoded *to, const uint8_t *from)
{
    float scale;
    memcpy(&scale, from, 4);
    for (int h = 0; h < 2; h++)
        for (int run = 0; run < 8; run++)
            to->scales[h][run] = scale;
    decode_bytes(to, from + 4, 32);
}

/* Numbers from a table, nbytes from each 32 to the next. */
INLINE void decode_table(decoded *to, const uint8_t *from, const int nbytes, const uint8_t table[16])
{
    for (int run = 0; run < 8; run++, from += nbytes)
        store_numbers(to->numbers + 32 * run, look_up(table, nibbles(from)));
}

INLINE void decode_iq4_nl(decoded *to, const uint8_t *from)
{
    halves_apart(to->scales, from, 18);
    decode_table(to, from + 2, 18, IQ4_NUMBERS);
}

INLINE void decode_iq4_xs(decoded *to, const uint8_t *from)
{
    uint64_t high = word_at(from + 2), low = four_bytes(from + 4); /* two and four bits for each run: spread to bytes */
    high = (high | high << 24) & 0x000000ff000000ff;
    high = (high | high << 12) & 0x000f000f000f000f;
    high = (high | high << 6) & 0x0303030303030303;
    low = (low | low << 16) & 0x0000ffff0000ffff;
    low = (low | low << 8) & 0x00ff00ff00ff00ff;
    low = (low | low << 4) & 0x0f0f0f0f0f0f0f0f;
    scale_runs(to->scales, half_at(from), low | high << 4, -32);
    decode_table(to, from + 8, 16, IQ4_NUMBERS);
}

INLINE void decode_mxfp4(decoded *to, const uint8_t *from)
{
    for (int run = 0; run < 8; run++) {
        const int exponent = from[17 * run];
        const union {
            uint32_t bits;
            float value;
        } scale = {exponent < 2 ? 0x200000u << exponent : (uint32_t)(exponent - 1) << 23}; /* 2^(e - 128) */
        to->scales[0][run] = to->scales[1][run] = scale.value;
    }
    decode_table(to, from + 1, 17, MXFP4_NUMBERS);
}

INLINE void decode_256(decoded *to, const uint8_t *from, int64_t type)
{
    switch (type) {
    case Q8_0:
        decode_q8(to, from, 34);
        break;
    case Q8_1:
        decode_q8(to, from, 36);
        break;
    case Q8_K:
        decode_q8_k(to, from);
        break;
    case IQ4_NL:
        decode_iq4_nl(to, from);
        break;
    case IQ4_XS:
        decode_iq4_xs(to, from);
        break;
    default:
        decode_mxfp4(to, from);
    }
}

void decode_blocks(decoded *to, const uint8_t *from, int64_t type, int runs)
{
    uint8_t padded[8 * SMALL_BLOCK_BYTES];
    if (runs < 8) {
        const int nbytes = runs * type_of(type).nbytes;
        memset(padded + nbytes, 0, sizeof padded - (size_t)nbytes);
        from = memcpy(padded, from, (size_t)nbytes);
    }
    decode_256(to, from, type);
}

/* ---- one row of a block of a band */

void decode_band_row(decoded *to, const uint8_t *from, int64_t type, int row)
{
    const band_type t = band_type_of(type);
    const uint8_t *halves = from + 2 * row;
    const float d = half_at(halves), m = t.minimums ? half_at(halves + HALF_SCALES) : 0;
    for (int run = 0; run < (t.large ? MOST_VALUES / BLOCK : 1); run++) {
        const uint8_t *at = from + band_run(t, run) + row;
        for (int h = 0; h < 2; h++) {
            const uint8_t *own = at + (t.halves ? h * BAND : 0);
            int scale = 1, minimum = -1;
            if (t.halves && t.minimums)
                scale = *own & 15, minimum = *own >> 4;
            else if (t.halves)
                scale = (int8_t)*own;
            else if (t.large)
                scale = *own, minimum = own[BAND];
            to->scales[h][run] = d * (float)scale;
            to->minimums[h][run] = m * (float)minimum;
        }
        at = from + band_numbers(t, run) + 4 * row;
        for (int s = 0; s < 4; s++) {
            const four_and_four n = band_step(at, t, s);
            memcpy(to->numbers + run * BLOCK + 4 * s, &n.low, 4);
            memcpy(to->numbers + run * BLOCK + 4 * s + 16, &n.high, 4);
        }
    }
}
