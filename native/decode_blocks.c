/* Blocks of every type, taken apart (layouts: blocks.h). */
#include "blocks.h"

INLINE void set_runs(decoded *to, int first, int count, float scale, float minimum)
{
    for (int i = first; i < first + count; i++)
        to->scales[i] = scale, to->minimums[i] = minimum;
}

/* 32 numbers of four bits in 16 bytes: the low ones first. */
INLINE void nibbles(uint8_t *to, const uint8_t *from)
{
    for (int i = 0; i < 16; i++)
        to[i] = from[i] & 15, to[i + 16] = from[i] >> 4;
}

/* q4_0 q4_1 q5_0 q5_1: scale, perhaps a minimum, perhaps 32 fifth bits, nibbles. */
static void decode_few_bits(decoded *to, const uint8_t *from, int five, int minimum)
{
    set_runs(to, 0, 2, half_at(from), minimum ? -half_at(from + 2) : 0);
    from += minimum ? 4 : 2;
    nibbles(to->numbers, from + (five ? 4 : 0));
    for (int i = 0; five && i < 32; i++)
        to->numbers[i] |= (uint8_t)((from[i / 8] >> i % 8 & 1) << 4);
}

static void decode_bytes(decoded *to, const uint8_t *from, int values, float scale)
{
    set_runs(to, 0, values / RUN, scale, 0);
    for (int i = 0; i < values; i++)
        to->numbers[i] = from[i] ^ 0x80;
}

static void decode_q2_k(decoded *to, const uint8_t *from)
{
    const float d = half_at(from + 80), m = half_at(from + 82);
    for (int i = 0; i < 16; i++)
        set_runs(to, i, 1, d * (float)(from[i] & 15), m * (float)(from[i] >> 4));
    for (int i = 0; i < 256; i++)
        to->numbers[i] = from[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static void decode_q3_k(decoded *to, const uint8_t *from)
{
    const float d = half_at(from + 108);
    const uint8_t *scales = from + 96;
    for (int i = 0; i < 16; i++) {
        const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4, high = scales[8 + i % 4] >> i / 4 * 2 & 3;
        set_runs(to, i, 1, d * (float)((low | high << 4) - 32), 0);
    }
    for (int i = 0; i < 256; i++)
        to->numbers[i] =
            (uint8_t)((from[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3) | (from[i % 32] >> i / 32 & 1) << 2);
}

static void decode_q4_q5_k(decoded *to, const uint8_t *from, int five)
{
    const float d = half_at(from), m = half_at(from + 2);
    const uint8_t *low = from + (five ? 48 : 16), *high = from + 16;
    for (int run = 0; run < 8; run++) {
        uint8_t scale, minimum;
        six_bits(from + 4, run, &scale, &minimum);
        set_runs(to, 2 * run, 2, d * (float)scale, m * (float)minimum);
        for (int i = 0; i < 32; i++)
            to->numbers[32 * run + i] = low[run / 2 * 32 + i] >> run % 2 * 4 & 15;
        for (int i = 0; five && i < 32; i++)
            to->numbers[32 * run + i] |= (uint8_t)((high[i] >> run & 1) << 4);
    }
}

static void decode_q6_k(decoded *to, const uint8_t *from)
{
    const float d = half_at(from + 208);
    for (int i = 0; i < 16; i++)
        set_runs(to, i, 1, d * (float)(int8_t)from[192 + i], 0);
    for (int run = 0; run < 8; run++)
        for (int i = 0; i < 32; i++)
            to->numbers[32 * run + i] = (uint8_t)((from[run / 4 * 64 + run % 2 * 32 + i] >> run % 4 / 2 * 4 & 15) |
                                                  (from[128 + run / 4 * 32 + i] >> run % 4 * 2 & 3) << 4);
}

/* What four bits stand for in iq4_nl and iq4_xs, and (doubled) in mxfp4, plus the bias. */
static const uint8_t IQ4_NUMBERS[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t MXFP4_NUMBERS[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

INLINE void looked_up(uint8_t *to, const uint8_t *from, const uint8_t numbers[16])
{
    for (int i = 0; i < 16; i++)
        to[i] = numbers[from[i] & 15], to[i + 16] = numbers[from[i] >> 4];
}

static void decode_iq4_xs(decoded *to, const uint8_t *from)
{
    const float d = half_at(from);
    for (int run = 0; run < 8; run++) {
        const int low = from[4 + run / 2] >> run % 2 * 4 & 15, high = from[2 + run / 4] >> run % 4 * 2 & 3;
        set_runs(to, 2 * run, 2, d * (float)((low | high << 4) - 32), 0);
        looked_up(to->numbers + 32 * run, from + 8 + 16 * run, IQ4_NUMBERS);
    }
}

static void decode_mxfp4(decoded *to, const uint8_t *from)
{
    const union {
        uint32_t bits;
        float value;
    } scale = {from[0] < 2 ? 0x200000u << from[0] : (uint32_t)(from[0] - 1) << 23}; /* 2^(e - 128) */
    set_runs(to, 0, 2, scale.value, 0);
    looked_up(to->numbers, from + 1, MXFP4_NUMBERS);
}

/* A block as files have it. */
void decode_block(decoded *to, const uint8_t *from, int64_t type)
{
    float scale;
    switch (type) {
    case Q4_0:
    case Q4_1:
    case Q5_0:
    case Q5_1:
        decode_few_bits(to, from, type == Q5_0 || type == Q5_1, type == Q4_1 || type == Q5_1);
        break;
    case Q8_0:
    case Q8_1:
        decode_bytes(to, from + (type == Q8_1 ? 4 : 2), 32, half_at(from));
        break;
    case Q2_K:
        decode_q2_k(to, from);
        break;
    case Q3_K:
        decode_q3_k(to, from);
        break;
    case Q4_K:
    case Q5_K:
        decode_q4_q5_k(to, from, type == Q5_K);
        break;
    case Q6_K:
        decode_q6_k(to, from);
        break;
    case Q8_K:
        memcpy(&scale, from, 4);
        decode_bytes(to, from + 4, 256, scale);
        break;
    case IQ4_NL:
        set_runs(to, 0, 2, half_at(from), 0);
        looked_up(to->numbers, from + 2, IQ4_NUMBERS);
        break;
    case IQ4_XS:
        decode_iq4_xs(to, from);
        break;
    default:
        decode_mxfp4(to, from);
    }
}

/* 32 columns of one row in a band: nibbles of columns 4 p .. and 16 + 4 p .. lie in the bytes of pair p. */
INLINE void band_nibbles(uint8_t *to, const uint8_t *from, int row)
{
    for (int i = 0; i < 16; i++) {
        const uint8_t both = from[i / 4 * BAND * 4 + row * 4 + i % 4];
        to[i] = both & 15, to[i + 16] = both >> 4;
    }
}

/* The two high bits of q6_K: pairs 2 u and 2 u + 1 lie in the bytes of vector u. */
INLINE void band_high_bits(uint8_t *to, const uint8_t *from, int row)
{
    for (int i = 0; i < 16; i++) {
        const int four = from[i / 8 * BAND * 4 + row * 4 + i % 4] >> i / 4 % 2 * 4;
        to[i] |= (uint8_t)((four & 3) << 4), to[i + 16] |= (uint8_t)((four >> 2 & 3) << 4);
    }
}

/* One row of a block of a band. */
void decode_band_row(decoded *to, const uint8_t *from, int64_t type, int row)
{
    const float d = half_at(from + 2 * row);
    if (type == Q4_0) {
        set_runs(to, 0, 2, d, 0);
        band_nibbles(to->numbers, from + 2 * BAND, row);
        return;
    }
    for (int run = 0; run < 8; run++) {
        const uint8_t *at = from + (type == Q4_K ? 4 * BAND + run * Q4_K_RUN : 2 * BAND + run * Q6_K_RUN);
        if (type == Q4_K) {
            set_runs(to, 2 * run, 2, d * (float)at[row], half_at(from + 2 * BAND + 2 * row) * (float)at[BAND + row]);
        } else {
            set_runs(to, 2 * run, 1, d * (float)(int8_t)at[row], 0);
            set_runs(to, 2 * run + 1, 1, d * (float)(int8_t)at[BAND + row], 0);
        }
        band_nibbles(to->numbers + 32 * run, at + 2 * BAND, row);
        if (type == Q6_K)
            band_high_bits(to->numbers + 32 * run, at + 2 * BAND + PACKED_NIBBLES, row);
    }
}
