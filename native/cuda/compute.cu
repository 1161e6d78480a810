/* Short programs for every element of some tensors: steps of optimisers and other chains of simple operations. */
#include "gpu.h"

enum { TENSORS = 6, TEMPORARIES = 8, NUMBERS = 16, PLACES = TENSORS + TEMPORARIES + NUMBERS };

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

DEVICE float computed(int opcode, float a, float b, float c)
{
    switch (opcode) {
    case COMPUTE_F32_add:
        return a + b;
    case COMPUTE_F32_sub:
        return a - b;
    case COMPUTE_F32_mul:
        return a * b;
    case COMPUTE_F32_div:
        return a / b;
    case COMPUTE_F32_maximum:
        return a > b || a != a ? a : b;
    case COMPUTE_F32_minimum:
        return a < b || a != a ? a : b;
    case COMPUTE_F32_greater:
        return a > b ? 1.0f : 0.0f;
    case COMPUTE_F32_where:
        return a != 0 ? b : c;
    case COMPUTE_F32_multiply_add:
        return a * b + c;
    case COMPUTE_F32_sqrt:
        return sqrtf(a);
    case COMPUTE_F32_abs:
        return fabsf(a);
    default: /* sign */
        return a > 0 ? 1.0f : a < 0 ? -1.0f : 0.0f;
    }
}

KERNEL(compute_f32, PARTS(count, 128), 128, 0)
{
    const int64_t *d = record.dims, steps = d[compute_f32_steps], single = d[compute_f32_single];
    const instruction *program = (const instruction *)record.pointers[compute_f32_program];
    const double *numbers = (const double *)record.pointers[compute_f32_numbers];
    if (is_bad(record)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[compute_f32_count])
    {
        float place[PLACES];
        unsigned written = 0;
        for (int k = 0; k < TENSORS; k++) {
            const float *tensor = (const float *)record.pointers[compute_f32_x0 + k];
            place[k] = tensor ? tensor[single >> k & 1 ? 0 : i] : 0.0f;
        }
        for (int k = 0; k < NUMBERS; k++)
            place[TENSORS + TEMPORARIES + k] =
                (float)(k < d[compute_f32_held] ? numbers[k] : real_of(d[compute_f32_number0 + k]));
        for (int64_t s = 0; s < steps; s++) {
            const instruction now = program[s];
            place[now.to] = computed(now.opcode, place[now.a], place[now.b], place[now.c]);
            written |= 1u << now.to;
        }
        for (int k = 0; k < TENSORS; k++)
            if (written >> k & 1)
                ((float *)record.pointers[compute_f32_x0 + k])[i] = place[k];
    }
}
