/* Angles from 2^19 on, which take more digits of 2 / pi than three doubles hold (Payne and Hanek, 1983). */
#include "vmath64.h"

enum { WORDS = 7, LONGEST = WORDS + 2 };

/* The fraction of 2 / pi, 32 bits in each. */
static const uint32_t two_over_pi[] = {
    0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
    0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
    0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
    0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
    0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046, 0xfc7b6bab, 0xf0cfbc20, 0x9af4361d};

/* 64 bits of a long number (lowest word first), from bit `at` on */
static uint64_t bits_at(const uint32_t *words, int at)
{
    const int word = at / 32, shift = at % 32;
    const uint64_t low = words[word], middle = words[word + 1], high = words[word + 2];
    return shift ? (low | middle << 32) >> shift | high << (64 - shift) : low | middle << 32;
}

int reduce_angle(double x, double *high, double *low)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 52 & 0x7ff) - 1075; /* |x| = mantissa * 2^exponent */
    const uint64_t mantissa = (bits & 0x000fffffffffffff) | 0x0010000000000000;
    const int start = exponent >= 2 ? (exponent - 2) / 32 : 0; /* the words before it contribute a multiple of 4 */
    const uint64_t factors[2] = {mantissa & 0xffffffff, mantissa >> 32};
    uint32_t product[LONGEST + 1] = {0};
    for (int j = 0; j < 2; j++) {
        uint64_t carry = 0;
        for (int i = 0; i < WORDS; i++) {
            carry += factors[j] * two_over_pi[start + WORDS - 1 - i] + product[i + j];
            product[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product[WORDS + j] += (uint32_t)carry;
    }
    const int whole = 32 * (start + WORDS) - exponent; /* the bit that is worth one quarter */
    int quarter = (int)(bits_at(product, whole - 32) >> 32) & 3;
    uint64_t fraction = bits_at(product, whole - 64), rest = bits_at(product, whole - 128);
    const int above = fraction >> 63 != 0; /* more than half: the next quarter minus the rest */
    if (above) {
        quarter++;
        fraction = ~fraction + (rest == 0);
        rest = -rest;
    }
    const int zeros = fraction ? __builtin_clzll(fraction) : 63;
    if (zeros) {
        fraction = fraction << zeros | rest >> (64 - zeros);
        rest <<= zeros;
    }
    union {
        uint64_t bits;
        double value;
    } scale = {(uint64_t)(1023 - 64 - zeros) << 52};
    const double first = (double)(fraction & 0xffffffc000000000) * scale.value; /* 26 bits */
    const double second =
        ((double)(fraction & 0x3fffffffff) + (double)(rest >> 32) * 0x1p-32) * scale.value; /* and many more */
    const double most = first * 1.570796325802803, least = first * 9.920935796805404e-10 + second * 1.5707963267948966;
    const double sum = most + least, sign = (x < 0) != above ? -1.0 : 1.0;
    *high = sign * sum;
    *low = sign * (least - (sum - most));
    return (x < 0 ? -quarter : quarter) & 3;
}
