/* Short programs for every element of some tensors: steps of optimisers and other chains of simple operations. */
#include "vectors.h"

enum { TENSORS = 6, TEMPORARIES = 8, NUMBERS = 16, PLACES = TENSORS + TEMPORARIES + NUMBERS };
enum { HELD_STEPS = 64 }; /* longer programs are read from global memory */

struct instruction {
    uint8_t opcode, to, a, b, c; /* places: tensors, then temporaries, then numbers */
};

DEVICE bool is_bad(const launch &record)
{
    const int64_t *d = record.dims, held = d[compute_f32_held];
    const instruction *program = (const instruction *)record.pointers[compute_f32_program];
    if (d[compute_f32_steps] < 0 || held < 0 || held > (record.pointers[compute_f32_numbers] ? NUMBERS : 0))
        return true;
    for (int64_t s = 0; s < d[compute_f32_steps]; s++) {
        const instruction now = program[s];
        const uint8_t places[] = {now.to, now.a, now.b, now.c};
        for (int k = 0; k < 4; k++)
            if (places[k] >= PLACES || (places[k] < TENSORS && !record.pointers[compute_f32_x0 + places[k]]))
                return true;
        if (now.opcode >= COMPUTE_F32_COUNT || now.to >= TENSORS + TEMPORARIES ||
            (now.to < TENSORS && d[compute_f32_single] >> now.to & 1))
            return true;
    }
    return false;
}

#define EACH(expression)                                                                                               \
    for (int e = 0; e < COUNT; e++) {                                                                                  \
        const float a = first[e], b = second[e], c = third[e];                                                         \
        (void)b, (void)c;                                                                                              \
        y[e] = expression;                                                                                             \
    }                                                                                                                  \
    break;
template <int COUNT>
DEVICE void computed(int opcode, float *y, const float *first, const float *second, const float *third)
{
    switch (opcode) {
    case COMPUTE_F32_add:
        EACH(a + b)
    case COMPUTE_F32_sub:
        EACH(a - b)
    case COMPUTE_F32_mul:
        EACH(a * b)
    case COMPUTE_F32_div:
        EACH(a / b)
    case COMPUTE_F32_maximum:
        EACH(a > b || a != a ? a : b)
    case COMPUTE_F32_minimum:
        EACH(a < b || a != a ? a : b)
    case COMPUTE_F32_greater:
        EACH(a > b ? 1.0f : 0.0f)
    case COMPUTE_F32_where:
        EACH(a != 0 ? b : c)
    case COMPUTE_F32_multiply_add:
        EACH(a * b + c)
    case COMPUTE_F32_sqrt:
        EACH(sqrtf(a))
    case COMPUTE_F32_abs:
        EACH(fabsf(a))
    default: /* sign */
        EACH(a > 0 ? 1.0f : a < 0 ? -1.0f : 0.0f)
    }
}

/* Runs the program for `COUNT` elements from element i on: places hold what tensors and intermediate values are. */
template <int COUNT>
DEVICE void run_program(const launch &record, const instruction *program, const float *numbers, int64_t i)
{
    struct alignas(4 * COUNT) values {
        float x[COUNT];
    };
    const int64_t *d = record.dims, single = d[compute_f32_single], steps = d[compute_f32_steps];
    values place[TENSORS + TEMPORARIES];
    unsigned written = 0;
#pragma unroll
    for (int k = 0; k < TENSORS; k++) {
        const float *tensor = (const float *)record.pointers[compute_f32_x0 + k];
        if (tensor && single >> k & 1)
            for (int e = 0; e < COUNT; e++)
                place[k].x[e] = *tensor;
        else if (tensor)
            place[k] = *(const values *)(tensor + i);
    }
    for (int64_t s = 0; s < steps; s++) {
        const instruction now = program[s];
        const uint8_t from[3] = {now.a, now.b, now.c};
        values in[3];
        for (int k = 0; k < 3; k++) {
            if (from[k] < TENSORS + TEMPORARIES)
                in[k] = place[from[k]];
            else
                for (int e = 0; e < COUNT; e++)
                    in[k].x[e] = numbers[from[k] - TENSORS - TEMPORARIES];
        }
        values result;
        computed<COUNT>(now.opcode, result.x, in[0].x, in[1].x, in[2].x);
        place[now.to] = result;
        written |= 1u << now.to;
    }
#pragma unroll
    for (int k = 0; k < TENSORS; k++)
        if (written >> k & 1)
            *(values *)((float *)record.pointers[compute_f32_x0 + k] + i) = place[k];
}

KERNEL(compute_f32, PARTS(count, 512), 128, 0)
{
    __shared__ float numbers[NUMBERS];
    __shared__ instruction program[HELD_STEPS];
    const int64_t *d = record.dims, count = d[compute_f32_count], steps = d[compute_f32_steps];
    const instruction *given = (const instruction *)record.pointers[compute_f32_program];
    const double *held = (const double *)record.pointers[compute_f32_numbers];
    if (is_bad(record)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_THREADS(k, NUMBERS)
    numbers[k] = (float)(k < d[compute_f32_held] ? held[k] : real_of(d[compute_f32_number0 + k]));
    FOR_THREADS(s, MIN(steps, HELD_STEPS)) program[s] = given[s];
    __syncthreads();
    const instruction *own = steps <= HELD_STEPS ? program : given;
    bool aligned = true;
    for (int k = 0; k < TENSORS; k++)
        aligned = aligned && (d[compute_f32_single] >> k & 1 || is_aligned(record.pointers[compute_f32_x0 + k]));
    const int64_t vectors = aligned ? count / 4 : 0;
    FOR_EACH(i, vectors) run_program<4>(record, own, numbers, 4 * i);
    FOR_EACH(i, count - 4 * vectors) run_program<1>(record, own, numbers, 4 * vectors + i);
}
