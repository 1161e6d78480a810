/* Decodes blocks of every type (layouts: block_types.h), 32 columns at a time in registers. */
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

INLINE numbers load_numbers(const uint8_t *from)
{
    numbers n;
    for (int p = 0; p < PARTS; p++)
        n.part[p] = bits_load(from + p * PART_BYTES);
    return n;
}

/* `mask` (for each byte) of n shifted right. */
INLINE numbers bits_of(numbers n, int shift, uint32_t mask)
{
    for (int p = 0; p < PARTS; p++)
        n.part[p] = n.part[p] >> shift & mask;
    return n;
}

/* low | high << shift. */
INLINE numbers join_bits(numbers low, numbers high, int shift)
{
    for (int p = 0; p < PARTS; p++)
        low.part[p] |= high.part[p] << shift;
    return low;
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

/* 32 bits as bytes 0 or 255. */
INLINE numbers single_bits(const uint8_t *from)
{
#if defined(__AVX2__)
    const __m256i bytes = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m256i each = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i all = _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)four_bytes(from)), bytes);
    return (numbers){{(part_bits)_mm256_cmpeq_epi8(_mm256_and_si256(all, each), each)}};
#else
    const bytes16_of each = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const bytes16_of four = (bytes16_of)((bits16){0} + four_bytes(from));
    const bytes16_of low = __builtin_shufflevector(four, four, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1) & each;
    const bytes16_of high = __builtin_shufflevector(four, four, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3) & each;
    return (numbers){{(part_bits)(low == each), (part_bits)(high == each)}};
#endif
}

/* The values of four bits in iq4_nl and iq4_xs, and (doubled) in mxfp4, plus the bias. */
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

INLINE void no_minimums(decoded *to) { memset(to->minimums, 0, sizeof to->minimums); }

/* The f16 at `from` and seven more, nbytes apart; negative: times -1. */
INLINE void halves_apart(float to[2][8], const uint8_t *from, const int nbytes, const int negative)
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
    for (int p = 0; negative && p < PARTS; p++)
        floats[p] = -floats[p];
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

/* factor * (byte + offset) of sixteen bytes: two for each 32 columns. */
INLINE void scale_halves(float to[2][8], float factor, bits16 bytes, float offset)
{
    const words8 pairs = (words8)bytes, each[2] = {pairs & 255, pairs >> 8};
    for (int h = 0; h < 2; h++) {
        part_float numbers[PARTS];
#if defined(__AVX2__)
        numbers[0] = (part_float)_mm256_cvtepi32_ps(_mm256_cvtepu16_epi32((__m128i)each[h]));
#else
        uint16_t words[8];
        memcpy(words, &each[h], sizeof words);
        for (int p = 0; p < PARTS; p++)
            numbers[p] = vfrom_int((vint)vload_u16(words + p * PART_ROWS));
#endif
        for (int p = 0; p < PARTS; p++)
            numbers[p] = part_splat(factor) * (numbers[p] + part_splat(offset));
        store_scales(to[h], numbers);
    }
}

/* ---- types: 256 columns of each */

/* q4_0 q4_1 q5_0 q5_1: a scale, perhaps a minimum, perhaps 32 fifth bits, nibbles. */
INLINE void decode_few_bits(decoded *to, const uint8_t *from, const int five, const int minimum)
{
    const int begin = minimum ? 4 : 2, nbytes = begin + (five ? 20 : 16);
    halves_apart(to->scales, from, nbytes, 0);
    if (minimum)
        halves_apart(to->minimums, from + 2, nbytes, 1);
    else
        no_minimums(to);
    for (int run = 0; run < 8; run++, from += nbytes) {
        numbers n = nibbles(from + begin + (five ? 4 : 0));
        if (five)
            n = join_bits(n, bits_of(single_bits(from + begin), 0, 0x10101010), 0);
        store_numbers(to->numbers + 32 * run, n);
    }
}

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
    halves_apart(to->scales, from, nbytes, 0);
    no_minimums(to);
    decode_bytes(to, from + nbytes - 32, nbytes);
}

INLINE void decode_q8_k(decoded *to, const uint8_t *from)
{
    float scale;
    memcpy(&scale, from, 4);
    for (int h = 0; h < 2; h++)
        for (int run = 0; run < 8; run++)
            to->scales[h][run] = scale;
    no_minimums(to);
    decode_bytes(to, from + 4, 32);
}

INLINE void decode_q2_k(decoded *to, const uint8_t *from)
{
    const bits16 both = load16(from);
    scale_halves(to->scales, half_at(from + 80), both & 0x0f0f0f0f, 0);
    scale_halves(to->minimums, half_at(from + 82), both >> 4 & 0x0f0f0f0f, 0);
    for (int half = 0; half < 2; half++) {
        const numbers four = load_numbers(from + 16 + 32 * half);
        UNROLL for (int i = 0; i < 4; i++)
            store_numbers(to->numbers + 128 * half + 32 * i, bits_of(four, 2 * i, 0x03030303));
    }
}

INLINE void decode_q3_k(decoded *to, const uint8_t *from)
{
    const numbers above = load_numbers(from);
    const uint32_t first = four_bytes(from + 96), second = four_bytes(from + 100), high = four_bytes(from + 104);
    const bits16 low = {first & 0x0f0f0f0f, second & 0x0f0f0f0f, first >> 4 & 0x0f0f0f0f, second >> 4 & 0x0f0f0f0f};
    const bits16 two = {high & 0x03030303, high >> 2 & 0x03030303, high >> 4 & 0x03030303, high >> 6 & 0x03030303};
    scale_halves(to->scales, half_at(from + 108), low | two << 4, -32);
    no_minimums(to);
    UNROLL for (int half = 0; half < 2; half++)
    {
        const numbers four = load_numbers(from + 32 + 32 * half);
        UNROLL for (int i = 0; i < 4; i++)
            store_numbers(to->numbers + 128 * half + 32 * i,
                          join_bits(bits_of(four, 2 * i, 0x03030303), bits_of(above, 4 * half + i, 0x01010101), 2));
    }
}

INLINE void decode_q4_q5_k(decoded *to, const uint8_t *from, const int five)
{
    const six_bit_scales packed = six_bits(from + 4);
    scale_runs(to->scales, half_at(from), packed.scales, 0);
    scale_runs(to->minimums, half_at(from + 2), packed.minimums, 0);
    const uint8_t *low = from + (five ? 48 : 16);
    const numbers fifth = load_numbers(from + 16); /* of q4_K: not used */
    UNROLL for (int pair = 0; pair < 4; pair++)
    {
        const numbers both = load_numbers(low + 32 * pair);
        numbers first = bits_of(both, 0, 0x0f0f0f0f), second = bits_of(both, 4, 0x0f0f0f0f);
        if (five) {
            first = join_bits(first, bits_of(fifth, 2 * pair, 0x01010101), 4);
            second = join_bits(second, bits_of(fifth, 2 * pair + 1, 0x01010101), 4);
        }
        store_numbers(to->numbers + 64 * pair, first);
        store_numbers(to->numbers + 64 * pair + 32, second);
    }
}

INLINE void decode_q6_k(decoded *to, const uint8_t *from)
{
    scale_halves(to->scales, half_at(from + 208), load16(from + 192) ^ 0x80808080, -128);
    no_minimums(to);
    for (int half = 0; half < 2; half++) {
        const numbers above = load_numbers(from + 128 + 32 * half);
        UNROLL for (int i = 0; i < 2; i++)
        {
            const numbers both = load_numbers(from + 64 * half + 32 * i);
            uint8_t *at = to->numbers + 128 * half + 32 * i;
            store_numbers(at, join_bits(bits_of(both, 0, 0x0f0f0f0f), bits_of(above, 2 * i, 0x03030303), 4));
            store_numbers(at + 64, join_bits(bits_of(both, 4, 0x0f0f0f0f), bits_of(above, 4 + 2 * i, 0x03030303), 4));
        }
    }
}

/* Numbers from a table, nbytes from each 32 to the next. */
INLINE void decode_table(decoded *to, const uint8_t *from, const int nbytes, const uint8_t table[16])
{
    for (int run = 0; run < 8; run++, from += nbytes)
        store_numbers(to->numbers + 32 * run, look_up(table, nibbles(from)));
}

INLINE void decode_iq4_nl(decoded *to, const uint8_t *from)
{
    halves_apart(to->scales, from, 18, 0);
    no_minimums(to);
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
    no_minimums(to);
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
    no_minimums(to);
    decode_table(to, from + 1, 17, MXFP4_NUMBERS);
}

INLINE void decode_256(decoded *to, const uint8_t *from, int64_t type)
{
    switch (type) {
    case Q4_0:
        decode_few_bits(to, from, 0, 0);
        break;
    case Q4_1:
        decode_few_bits(to, from, 0, 1);
        break;
    case Q5_0:
        decode_few_bits(to, from, 1, 0);
        break;
    case Q5_1:
        decode_few_bits(to, from, 1, 1);
        break;
    case Q8_0:
        decode_q8(to, from, 34);
        break;
    case Q8_1:
        decode_q8(to, from, 36);
        break;
    case Q2_K:
        decode_q2_k(to, from);
        break;
    case Q3_K:
        decode_q3_k(to, from);
        break;
    case Q4_K:
        decode_q4_q5_k(to, from, 0);
        break;
    case Q5_K:
        decode_q4_q5_k(to, from, 1);
        break;
    case Q6_K:
        decode_q6_k(to, from);
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

INLINE void band_numbers(uint8_t *to, band_nibbles const nibbles, int row)
{
    for (int i = 0; i < 16; i++)
        to[i] = nibbles[i / 4][row][i % 4] & 15, to[i + 16] = nibbles[i / 4][row][i % 4] >> 4;
}

static void decode_q4_k_row(decoded *to, const q4_K_band *from, int row)
{
    const float d = f16_to_float(from->scales[row]), m = f16_to_float(from->minimums[row]);
    for (int run = 0; run < 8; run++) {
        to->scales[0][run] = to->scales[1][run] = d * (float)from->runs[run].scales[row];
        to->minimums[0][run] = to->minimums[1][run] = m * (float)from->runs[run].minimums[row];
        band_numbers(to->numbers + 32 * run, from->runs[run].nibbles, row);
    }
}

static void decode_q6_k_row(decoded *to, const q6_K_band *from, int row)
{
    const float d = f16_to_float(from->scales[row]);
    no_minimums(to);
    for (int run = 0; run < 8; run++) {
        uint8_t *numbers = to->numbers + 32 * run;
        for (int h = 0; h < 2; h++)
            to->scales[h][run] = d * (float)from->runs[run].scales[h][row];
        band_numbers(numbers, from->runs[run].nibbles, row);
        for (int i = 0; i < 16; i++) {
            const int four = from->runs[run].two_bits[i / 8][row][i % 4] >> i / 4 % 2 * 4;
            numbers[i] |= (uint8_t)((four & 3) << 4), numbers[i + 16] |= (uint8_t)((four >> 2 & 3) << 4);
        }
    }
}

void decode_band_row(decoded *to, const uint8_t *from, int64_t type, int row)
{
    const q4_0_band *small = (const void *)from;
    if (type == Q4_K)
        decode_q4_k_row(to, (const void *)from, row);
    else if (type == Q6_K)
        decode_q6_k_row(to, (const void *)from, row);
    else {
        no_minimums(to);
        to->scales[0][0] = to->scales[1][0] = f16_to_float(small->scales[row]);
        band_numbers(to->numbers, small->nibbles, row);
    }
}
