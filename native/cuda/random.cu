/* Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3; 2011). A thread makes four numbers. */
#include "gpu.h"

DEVICE void philox(uint32_t words[4], uint64_t counter, uint64_t seed)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    words[0] = (uint32_t)counter;
    words[1] = (uint32_t)(counter >> 32);
    words[2] = words[3] = 0;
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)words[0] * 0xD2511F53u, b = (uint64_t)words[2] * 0xCD9E8D57u;
        words[0] = (uint32_t)(b >> 32) ^ words[1] ^ key0;
        words[2] = (uint32_t)(a >> 32) ^ words[3] ^ key1;
        words[1] = (uint32_t)b;
        words[3] = (uint32_t)a;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* Box and Muller (1958): a pair of words gives sqrt(-2 ln u) cos(2 pi v) and sqrt(-2 ln u) sin(2 pi v), with
 * u = ((word >> 8) + 1) * 2^-24, never 0, and v = (word >> 8) * 2^-24. */
DEVICE void to_normal(float out[4], const uint32_t words[4])
{
    for (int pair = 0; pair < 4; pair += 2) {
        const float u = (float)((words[pair] >> 8) + 1) * 0x1p-24f, v = (float)(words[pair + 1] >> 8) * 0x1p-24f;
        const float radius = sqrtf(-2.0f * logf(u));
        float sine, cosine;
        sincospif(2 * v, &sine, &cosine);
        out[pair] = radius * cosine;
        out[pair + 1] = radius * sine;
    }
}

DEVICE void fill_random(const launch &record, bool normal)
{
    const int64_t *state = (const int64_t *)record.pointers[random_uniform_state], *d = record.dims;
    const int64_t count = d[random_uniform_count];
    const uint64_t seed = (uint64_t)(state ? state[0] : d[random_uniform_seed]);
    const uint64_t offset = (uint64_t)d[random_uniform_offset] + (uint64_t)(state ? state[1] : 0);
    float *y = (float *)record.pointers[random_uniform_y];
    const bool aligned = (uint64_t)y % 16 == 0;
    FOR_EACH(i, PARTS(count, 4))
    {
        uint32_t words[4];
        float out[4];
        philox(words, offset + (uint64_t)i, seed);
        if (normal)
            to_normal(out, words);
        else
            for (int k = 0; k < 4; k++)
                out[k] = (float)(words[k] >> 8) * 0x1p-24f;
        if (aligned && 4 * i + 4 <= count)
            ((float4 *)y)[i] = float4{out[0], out[1], out[2], out[3]};
        else
            for (int k = 0; k < 4 && 4 * i + k < count; k++)
                y[4 * i + k] = out[k];
    }
}

KERNEL(random_uniform, PARTS(count, 1024), 256, 0) { fill_random(record, false); }
KERNEL(random_normal, PARTS(count, 1024), 256, 0) { fill_random(record, true); }
