/* Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3; 2011). */
#include "vmath.h"

enum {
    BLOCKS = 16,
    ROUNDS = 10
}; /* BLOCKS counters at a time, side by side so that the compiler makes vectors of them */

#if defined(__SSE2__)
typedef uint64_t vlong __attribute__((vector_size(4 * LANES)));
typedef uint32_t vhalf __attribute__((vector_size(2 * LANES)));

/* The products of the low halves: one instruction, which compilers do not find. */
INLINE vlong product_of_lows(vlong a, vlong b)
{
#if LANES == 16
    return (vlong)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif LANES == 8
    return (vlong)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
    return (vlong)_mm_mul_epu32((__m128i)a, (__m128i)b);
#endif
}

/* words[w][j]: word w of the block at counter + j */
static void philox(uint32_t words[4][BLOCKS], uint64_t counter, uint64_t seed)
{
    enum { STEP = LANES / 2 };
    static const uint64_t places[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const vlong low = (vlong){0} + 0xFFFFFFFFu, factor0 = (vlong){0} + 0xD2511F53u, factor2 = (vlong){0} + 0xCD9E8D57u;
    vlong x[4][BLOCKS / STEP], place; /* each word in 64 bits, as its product is */
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    memcpy(&place, places, sizeof place);
    for (int v = 0; v < BLOCKS / STEP; v++) {
        const vlong at = place + (counter + (uint64_t)(v * STEP));
        x[0][v] = at & low;
        x[1][v] = at >> 32;
        x[2][v] = x[3][v] = (vlong){0};
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int v = 0; v < BLOCKS / STEP; v++) {
            const vlong a = product_of_lows(x[0][v], factor0), b = product_of_lows(x[2][v], factor2);
            x[0][v] = (b >> 32) ^ x[1][v] ^ (uint64_t)key0;
            x[2][v] = (a >> 32) ^ x[3][v] ^ (uint64_t)key1;
            x[1][v] = b & low;
            x[3][v] = a & low;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    for (int w = 0; w < 4; w++)
        for (int v = 0; v < BLOCKS / STEP; v++) {
            const vhalf narrow = __builtin_convertvector(x[w][v], vhalf);
            memcpy(&words[w][v * STEP], &narrow, sizeof narrow);
        }
}
#else
/* words[w][j]: word w of the block at counter + j */
static void philox(uint32_t words[4][BLOCKS], uint64_t counter, uint64_t seed)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    ROLLED for (int j = 0; j < BLOCKS; j++)
    {
        words[0][j] = (uint32_t)(counter + (uint64_t)j);
        words[1][j] = (uint32_t)((counter + (uint64_t)j) >> 32);
        words[2][j] = words[3][j] = 0;
    }
    ROLLED for (int round = 0; round < ROUNDS; round++)
    {
        ROLLED for (int j = 0; j < BLOCKS; j++)
        {
            const uint64_t a = (uint64_t)words[0][j] * 0xD2511F53u, b = (uint64_t)words[2][j] * 0xCD9E8D57u;
            words[0][j] = (uint32_t)(b >> 32) ^ words[1][j] ^ key0;
            words[2][j] = (uint32_t)(a >> 32) ^ words[3][j] ^ key1;
            words[1][j] = (uint32_t)b;
            words[3][j] = (uint32_t)a;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}
#endif

typedef void sample_function(float *out, uint32_t words[4][BLOCKS]);

INLINE void uniform_samples(float *out, uint32_t words[4][BLOCKS])
{
    ROLLED for (int j = 0; j < BLOCKS; j++) for (int w = 0; w < 4; w++) out[4 * j + w] =
        (float)(int32_t)(words[w][j] >> 8) * 0x1p-24f;
}

/* Box and Muller (1958): a pair of words gives sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v), with
 * u = ((word >> 8) + 1) * 2^-24, never 0, and v = (word >> 8) * 2^-24. */
INLINE void normal_samples(float *out, uint32_t words[4][BLOCKS])
{
    ROLLED for (int pair = 0; pair < 4; pair += 2) ROLLED for (int j = 0; j < BLOCKS; j += LANES)
    {
        const vuint first = (vuint)vload_int((const int32_t *)words[pair] + j) >> 8;
        const vuint second = (vuint)vload_int((const int32_t *)words[pair + 1] + j) >> 8;
        const vfloat u = vfrom_int((vint)(first + 1u)) * 0x1p-24f, v = vfrom_int((vint)second) * 0x1p-24f;
        const vfloat radius = vsqrt(-2.0f * vlog(u));
        vfloat sine, cosine;
        vsincos_turns(v, &sine, &cosine);
        for (int lane = 0; lane < LANES; lane++) {
            out[4 * (j + lane) + pair] = radius[lane] * cosine[lane];
            out[4 * (j + lane) + pair + 1] = radius[lane] * sine[lane];
        }
    }
}

INLINE int fill_random(sample_function *samples, const launch *record, int worker, int workers)
{
    float *y = record->pointers[random_uniform_y];
    const int64_t *state = record->pointers[random_uniform_state];
    const uint64_t seed = (uint64_t)(state ? state[0] : record->dims[random_uniform_seed]),
                   offset = (uint64_t)record->dims[random_uniform_offset] + (uint64_t)(state ? state[1] : 0);
    int64_t first, last;
    worker_share(record->dims[random_uniform_count], 4 * BLOCKS, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i += 4 * BLOCKS) {
        uint32_t words[4][BLOCKS];
        float out[4 * BLOCKS];
        const int64_t n = last - i < 4 * BLOCKS ? last - i : 4 * BLOCKS;
        philox(words, offset + (uint64_t)i / 4, seed);
        samples(out, words);
        memcpy(y + i, out, (size_t)n * sizeof *y);
    }
    return KERNEL_OK;
}

#define RANDOM_KERNEL(name, samples)                                                                                   \
    KERNEL(name) { return fill_random(samples, record, worker, workers); }

RANDOM_KERNEL(random_uniform, uniform_samples)
RANDOM_KERNEL(random_normal, normal_samples)
