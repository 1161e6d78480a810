/* Attention to a whole sequence packed in int8, for models with int8 weights (layout: kernels.h). The mean of the keys is
 * subtracted, which does not change the softmax and makes the numbers smaller. */
#include "flash_floats.h"

enum { KEYS = ATTENTION_Q8_KEYS, MOST_DIMS = ATTENTION_Q8_DIMS };

DEVICE int64_t round_up(int64_t n, int64_t unit) { return PARTS(n, unit) * unit; }
/* Of eight keys; of KEYS values. */
DEVICE int64_t group_bytes(int64_t dims) { return BAND * 4 + round_up(dims, 4) * BAND; }
DEVICE int64_t block_bytes(int64_t dims) { return round_up(dims, BAND) * (4 + KEYS); }

DEVICE int8_t rounded(float x, float scale)
{
    const float inverse = scale > 1e-30f ? 1.0f / scale : 0.0f;
    return x - x == 0 ? (int8_t)(int)rintf(x * inverse) : (int8_t)0;
}

/* A block for each head: the mean of its keys, then a warp for each key. */
KERNEL(pack_keys_q8, heads, 128, 4 * head_dim)
{
    DYNAMIC_SHARED(float, mean);
    const int64_t *d = record.dims, tokens = d[pack_keys_q8_tokens], dims = d[pack_keys_q8_head_dim],
                  stride = d[pack_keys_q8_x_stride];
    if (dims > MOST_DIMS) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH_BLOCK(head, d[pack_keys_q8_heads])
    {
        const float *x = (const float *)record.pointers[pack_keys_q8_x] + head * dims;
        uint8_t *to = (uint8_t *)record.pointers[pack_keys_q8_packed] + head * PARTS(tokens, BAND) * group_bytes(dims);
        FOR_THREADS(i, dims)
        {
            float sum = 0;
            for (int64_t token = 0; token < tokens; token++)
                sum += x[token * stride + i];
            mean[i] = sum / (float)tokens;
        }
        __syncthreads();
        for (int64_t key = WARP; key < round_up(tokens, BAND); key += WARPS) {
            uint8_t *group = to + key / BAND * group_bytes(dims);
            float most = 0;
            for (int64_t i = LANE; i < dims && key < tokens; i += 32) {
                const float value = fabsf(x[key * stride + i] - mean[i]);
                most = value > most || value != value ? value : most;
            }
            const bool finite = __all_sync(EVERY_LANE, most - most == 0);
            const float scale = finite ? warp_reduce(most, Larger()) / 127.0f : NOT_A_NUMBER;
            if (LANE == 0)
                ((float *)group)[key % BAND] = scale;
            for (int64_t i = LANE; i < round_up(dims, 4); i += 32)
                group[BAND * 4 + i / 4 * BAND * 4 + key % BAND * 4 + i % 4] =
                    (uint8_t)(key < tokens && i < dims ? rounded(x[key * stride + i] - mean[i], scale) : 0);
        }
        __syncthreads();
    }
}

/* A thread for each column of KEYS values. */
KERNEL(pack_values_q8, PARTS(heads *PARTS(tokens, 64) * PARTS(head_dim, 8) * 8, 128), 128, 0)
{
    const int64_t *d = record.dims, tokens = d[pack_values_q8_tokens], dims = d[pack_values_q8_head_dim],
                  stride = d[pack_values_q8_x_stride], padded = round_up(dims, BAND), blocks = PARTS(tokens, KEYS);
    if (dims > MOST_DIMS) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(at, d[pack_values_q8_heads] * blocks * padded)
    {
        const int64_t i = at % padded, unit = at / padded, first = unit % blocks * KEYS;
        const float *x = (const float *)record.pointers[pack_values_q8_x] + unit / blocks * dims + i;
        uint8_t *to = (uint8_t *)record.pointers[pack_values_q8_packed] + unit * block_bytes(dims);
        float most = 0;
        for (int64_t k = 0; k < KEYS && first + k < tokens && i < dims; k++) {
            const float value = fabsf(x[(first + k) * stride]);
            most = value > most || value != value ? value : most;
        }
        const float scale = most - most == 0 ? most / 127.0f : NOT_A_NUMBER;
        ((float *)to)[i] = scale;
        for (int64_t k = 0; k < KEYS; k++)
            to[4 * padded + k / 4 * padded * 4 + i * 4 + k % 4] =
                (uint8_t)(first + k < tokens && i < dims ? rounded(x[(first + k) * stride], scale) : 0);
    }
}

struct packed_task {
    static constexpr bool ONLINE = true, SECOND = false, SINKS = false;
    const float *q;
    float *y;
    const uint8_t *k, *v;
    int64_t rows, keys, depth, second_depth, columns, segments, padded, q_stride, y_stride;
    float scale;

    DEVICE_MEMBER void select(int64_t) const {}
    DEVICE_MEMBER void range(int64_t, int64_t, int64_t *first, int64_t *last) const { *first = 0, *last = keys; }
    DEVICE_MEMBER bool whole(int64_t, int64_t, int64_t, int64_t) const { return true; }
    DEVICE_MEMBER float score(int64_t, int64_t other, float product, bool) const
    {
        const float *group = (const float *)(k + other / BAND * group_bytes(depth));
        return seen(product * group[other % BAND] * scale);
    }
    DEVICE_MEMBER float weight(int64_t, int64_t, float, float) const { return 0; }
    template <bool> DEVICE_MEMBER const float *row_floats(int64_t row) const
    {
        return (uint64_t)q % 16 == 0 && (q_stride | depth) % 4 == 0 ? q + row * q_stride : nullptr;
    }
    template <bool> DEVICE_MEMBER const float *other_floats(int64_t) const { return nullptr; }
    DEVICE_MEMBER const float *value_floats(int64_t) const { return nullptr; }
    template <bool> DEVICE_MEMBER float row_at(int64_t row, int64_t column) const { return q[row * q_stride + column]; }
    template <bool> DEVICE_MEMBER float other_at(int64_t key, int64_t column) const
    {
        const uint8_t *group = k + key / BAND * group_bytes(depth);
        return (float)(int8_t)group[BAND * 4 + column / 4 * BAND * 4 + key % BAND * 4 + column % 4];
    }
    DEVICE_MEMBER float value_at(int64_t key, int64_t column) const
    {
        const uint8_t *block = v + key / KEYS * block_bytes(depth);
        const int64_t place = key % KEYS;
        const int8_t number = (int8_t)block[4 * padded + place / 4 * padded * 4 + column * 4 + place % 4];
        return (float)number * ((const float *)block)[column];
    }
    DEVICE_MEMBER void state(int64_t, const softmax_state &) const {}
    DEVICE_MEMBER void result(int64_t row, int64_t column, float value) const { y[row * y_stride + column] = value; }
};

KERNEL(attention_q8, PARTS(tokens, 64) * heads * PARTS(head_dim, 128), 128, FLOATS_SHARED)
{
    DYNAMIC_SHARED(float, shared);
    const int64_t *d = record.dims, heads = d[attention_q8_heads], kv_heads = d[attention_q8_kv_heads],
                  dims = d[attention_q8_head_dim], keys = d[attention_q8_keys], tokens = d[attention_q8_tokens];
    if (kv_heads <= 0 || heads % kv_heads || dims > MOST_DIMS || keys <= 0) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int64_t tiles = PARTS(tokens, FLASH_ROWS), chunks = PARTS(dims, FLASH_COLUMNS);
    FOR_EACH_BLOCK(i, tiles * heads * chunks)
    {
        const int64_t chunk = i % chunks, tile = i / chunks % tiles, head = i / chunks / tiles;
        const int64_t kv_head = head / (heads / kv_heads);
        packed_task task;
        task.q = (const float *)record.pointers[attention_q8_q] + head * dims;
        task.y = (float *)record.pointers[attention_q8_y] + head * dims;
        task.k = (const uint8_t *)record.pointers[attention_q8_k] + kv_head * PARTS(keys, BAND) * group_bytes(dims);
        task.v = (const uint8_t *)record.pointers[attention_q8_v] + kv_head * PARTS(keys, KEYS) * block_bytes(dims);
        task.rows = tokens;
        task.keys = keys;
        task.depth = task.columns = dims;
        task.second_depth = 0;
        task.segments = 1;
        task.padded = round_up(dims, BAND);
        task.q_stride = d[attention_q8_q_stride];
        task.y_stride = d[attention_q8_y_stride];
        task.scale = record.floats[attention_q8_scale];
        flash_floats(task, tile * FLASH_ROWS, chunk * FLASH_COLUMNS, shared);
    }
}
