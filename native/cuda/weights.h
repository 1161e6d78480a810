/* Weights in blocks: four columns of a row at a time, from bands (bands.h) and from GGML's own blocks (block_types.h). */
#ifndef PYAPP_WEIGHTS_H
#define PYAPP_WEIGHTS_H
#include "gpu.h"

#include "bands.h"

/* The types of linear_blocks that lie in rows; the others are BAND_TYPES. */
#define ROW_TYPES(DO) DO(, Q8_0) DO(, Q8_1) DO(, Q8_K) DO(, IQ4_NL) DO(, IQ4_XS) DO(, MXFP4)

DEVICE float half_at(const uint8_t *p) { return f16_to_float((uint16_t)(p[0] | p[1] << 8)); }

/* Columns 4 s .. and 4 s + 16 .. of 32 columns of a row: value = scale * (number - bias) - minimum. [0]: of the first 16
 * columns, [1]: of the last. Numbers are four signed bytes. */
struct weights {
    int numbers[2], bias;
    float scales[2], minimums[2];
};

CONSTANT int8_t IQ4_NUMBERS[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
CONSTANT int8_t MXFP4_NUMBERS[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* The entries of the low (first) and high nibbles of four bytes. */
DEVICE void look_up(int found[2], const int8_t *table, uint32_t nibbles)
{
    uint32_t four[4], pairs[2];
    memcpy(four, table, 16);
    for (int i = 0; i < 2; i++) { /* of two bytes: low, high, low, high; by three bits from each half of the table */
        const uint32_t which = nibbles >> 16 * i & 0xffff, place = which & 0x7777;
        pairs[i] = __byte_perm(__byte_perm(four[0], four[1], place), __byte_perm(four[2], four[3], place),
                               0x3210 | (which & 0x8888) >> 1);
    }
    found[0] = (int)__byte_perm(pairs[0], pairs[1], 0x6420);
    found[1] = (int)__byte_perm(pairs[0], pairs[1], 0x7531);
}

/* Whether types lie in bands; columns in a block. */
DEVICE bool in_bands(int64_t type) { return band_bytes(type) != 0; }

/* Of a block of a band: run `run` of 32 columns, row `row` of 8, step s < 4. */
DEVICE weights band_weights(const uint8_t *block, int64_t type, int run, int row, int s)
{
    const band_type t = band_type_of(type);
    const uint8_t *own = block + band_run(t, run) + row;
    const float d = half_at(block + 2 * row), m = t.minimums ? half_at(block + HALF_SCALES + 2 * row) : 0.0f;
    const four_and_four n = band_step(block + band_numbers(t, run) + 4 * row, t, s);
    weights w = {{(int)n.low, (int)n.high}, type_of(type).bias, {0, 0}, {0, 0}};
    for (int h = 0; h < 2; h++) {
        const uint8_t at = t.large ? own[t.halves ? h * BAND : 0] : 0;
        int scale = 1, minimum = -1;
        if (t.halves && t.minimums)
            scale = at & 15, minimum = at >> 4;
        else if (t.halves)
            scale = (int8_t)at;
        else if (t.large)
            scale = at, minimum = own[BAND];
        w.scales[h] = d * (float)scale;
        w.minimums[h] = m * (float)minimum;
    }
    return w;
}

/* Of a block of one row, as files have it: the scale of a run, and where its numbers begin. */
DEVICE float block_scale(const uint8_t *block, int64_t type, int run)
{
    switch (type) {
    case Q8_K:
        return __int_as_float((int)four_bytes(block));
    case IQ4_XS: {
        const int low = block[4 + run / 2] >> run % 2 * 4 & 15, high = block[2 + run / 4] >> run % 4 * 2 & 3;
        return half_at(block) * (float)((low | high << 4) - 32);
    }
    case MXFP4: { /* 2^(e - 128) */
        const int exponent = block[0];
        return __int_as_float(exponent < 2 ? 0x200000 << exponent : (exponent - 1) << 23);
    }
    default: /* Q8_0, Q8_1, IQ4_NL */
        return half_at(block);
    }
}
DEVICE int block_numbers(int64_t type, int run)
{
    return type == Q8_1 ? 4 : type == Q8_K ? 4 + 32 * run : type == IQ4_XS ? 8 + 16 * run : type == MXFP4 ? 1 : 2;
}

DEVICE weights block_weights(const uint8_t *block, int64_t type, int run, int s)
{
    const float scale = block_scale(block, type, run);
    const uint8_t *numbers = block + block_numbers(type, run);
    weights w = {{0, 0}, 0, {scale, scale}, {0, 0}};
    if (type == IQ4_NL || type == IQ4_XS || type == MXFP4)
        look_up(w.numbers, type == MXFP4 ? MXFP4_NUMBERS : IQ4_NUMBERS, four_bytes(numbers + 4 * s));
    else {
        w.numbers[0] = (int)four_bytes(numbers + 4 * s);
        w.numbers[1] = (int)four_bytes(numbers + 4 * s + 16);
    }
    return w;
}

/* Of weights with this GGML type, as pack_blocks leaves them: 32 columns number `run32` of a row of `runs` of them. */
DEVICE weights weights_at(const uint8_t *w, int64_t type, int64_t row, int64_t run32, int64_t runs, int s)
{
    const block_type kind = type_of(type);
    const int64_t inner = kind.values / BLOCK, block = run32 / inner, blocks = runs / inner;
    if (in_bands(type))
        return band_weights(w + (row / BAND * blocks + block) * band_bytes(type), type, (int)(run32 % inner),
                            (int)(row % BAND), s);
    return block_weights(w + (row * blocks + block) * kind.nbytes, type, (int)(run32 % inner), s);
}

/* One weight. */
DEVICE float weight_at(const uint8_t *w, int64_t type, int64_t row, int64_t column, int64_t columns)
{
    const int inside = (int)(column % BLOCK), h = inside / 16;
    const weights four = weights_at(w, type, row, column / BLOCK, columns / BLOCK, inside % 16 / 4);
    const int number = (int8_t)(four.numbers[h] >> inside % 4 * 8);
    const float product = __fmul_rn(four.scales[h], (float)(number - four.bias)); /* in two roundings, as defined */
    return four.bias ? product : __fadd_rn(product, -four.minimums[h]);
}

/* Of linear_q8_0 (scales of 2 bytes) or linear_q8_group (of 4): as weights_at, of block k of `blocks` of a row. */
template <int SCALE_BYTES> DEVICE weights q8_weights(const uint8_t *w, int64_t row, int64_t k, int64_t blocks, int s)
{
    const uint8_t *block = w + (row / BAND * blocks + k) * (BAND * SCALE_BYTES + BAND_BYTES);
    const uint8_t *scale_at = block + row % BAND * SCALE_BYTES;
    const int *numbers = (const int *)(block + BAND * SCALE_BYTES) + row % BAND;
    const float scale = SCALE_BYTES == 2 ? f16_to_float(*(const uint16_t *)scale_at) : *(const float *)scale_at;
    return weights{{numbers[s * BAND], numbers[(4 + s) * BAND]}, 0, {scale, scale}, {0, 0}};
}

/* One weight of linear_q8_0 (scales of 2 bytes) or linear_q8_group (of 4). */
DEVICE float q8_weight_at(const uint8_t *packed, int64_t row, int64_t column, int64_t columns, int scale_bytes)
{
    const int64_t blocks = PARTS(columns, BLOCK);
    const uint8_t *block = packed + (row / BAND * blocks + column / BLOCK) * (BAND * scale_bytes + BAND_BYTES);
    const uint8_t *scale = block + row % BAND * scale_bytes;
    const int8_t number =
        (int8_t)block[BAND * scale_bytes + column % BLOCK / 4 * BAND * 4 + row % BAND * 4 + column % 4];
    return (float)number * (scale_bytes == 2 ? half_at(scale) : __int_as_float((int)four_bytes(scale)));
}
#endif
