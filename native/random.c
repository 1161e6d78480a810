/* Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3; 2011). */
#include "vmath.h"

enum {
    BLOCKS = 16,
    ROUNDS = 10
}; /* BLOCKS counters at a time, side by side so that the compiler makes vectors of them */

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
