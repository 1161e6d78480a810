/* The root-mean-square norm of one row, by each block that then multiplies it: kernels that do what rms_norm_f32 and a linear
 * layer do. */
#ifndef PYAPP_NORMED_ROW_H
#define PYAPP_NORMED_ROW_H
#include "gpu.h"

enum { NORM_THREADS = 512 /* of rms_norm_f32, whose sums have the same order */, NORMED_THREADS = 256 };
enum { NORMED_FOURS = 4, MOST_NORMED = 4 * NORMED_FOURS * NORM_THREADS /* columns */ };

/* Four elements from i on, with one load where they are aligned. */
template <int TYPE> DEVICE void load_four(float to[4], const void *p, int64_t i, bool aligned)
{
    if (TYPE == TYPE_float32 && aligned) {
        const float4 four = *(const float4 *)((const float *)p + i);
        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else if (aligned) {
        const uint2 four = *(const uint2 *)((const uint16_t *)p + i);
        const uint16_t halves[4] = {(uint16_t)four.x, (uint16_t)(four.x >> 16), (uint16_t)four.y,
                                    (uint16_t)(four.y >> 16)};
        for (int j = 0; j < 4; j++)
            to[j] = load_float(halves, j, TYPE);
    } else
        for (int j = 0; j < 4; j++)
            to[j] = load_float(p, i + j, TYPE);
}

/* put(four, y) gets the norm of columns 4 four .. 4 four + 3, zeros past the end: all lanes of a warp come there, for fours
 * that follow one another, as long as one of them is inside. The bits are those of rms_norm_row (norm.cu): a thread stands for
 * two of its threads. x and weight begin where 16 bytes do; columns are a multiple of 4, and more than 512. */
template <class Put>
DEVICE void norm_row(const float4 *x, const void *weight, int weight_type, int64_t columns, float epsilon, Put put)
{
    __shared__ float parts[NORM_THREADS / 32];
    constexpr int TURNS = NORM_THREADS / NORMED_THREADS;
    const int64_t fours = columns / 4;
    float4 own[TURNS][NORMED_FOURS];
    const auto four_of = [](int turn, int i) {
        return (int64_t)threadIdx.x + turn * NORMED_THREADS + i * NORM_THREADS;
    };
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++)
#pragma unroll
        for (int i = 0; i < NORMED_FOURS; i++) {
            const int64_t four = four_of(turn, i);
            own[turn][i] = four < fours ? x[four] : float4{0, 0, 0, 0};
        }
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < NORMED_FOURS; i++) {
            const float four[4] = {own[turn][i].x, own[turn][i].y, own[turn][i].z, own[turn][i].w};
            for (int j = 0; j < 4; j++)
                sum += four[j] * four[j];
        }
        sum = warp_reduce(sum, Sum());
        if (LANE == 0)
            parts[turn * NORMED_THREADS / 32 + WARP] = sum;
    }
    __syncthreads();
    const float total = warp_reduce(LANE < NORM_THREADS / 32 ? parts[LANE] : 0.0f, Sum());
    const float inverse = 1.0f / sqrtf(total / (float)columns + epsilon);
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++)
#pragma unroll
        for (int i = 0; i < NORMED_FOURS; i++) {
            const int64_t four = four_of(turn, i);
            if (four - LANE >= fours)
                continue;
            float y[4] = {0, 0, 0, 0};
            if (four < fours) {
                if (weight_type == TYPE_float32)
                    load_four<TYPE_float32>(y, weight, 4 * four, true);
                else if (weight_type == TYPE_float16)
                    load_four<TYPE_float16>(y, weight, 4 * four, true);
                else
                    load_four<TYPE_bfloat16>(y, weight, 4 * four, true);
                y[0] = own[turn][i].x * inverse * y[0], y[1] = own[turn][i].y * inverse * y[1];
                y[2] = own[turn][i].z * inverse * y[2], y[3] = own[turn][i].w * inverse * y[3];
            }
            put(four, y);
        }
}
#endif
