/* Short programs for every element of some tensors: steps of optimisers and other chains of simple operations. */
#include "arithmetic.h"
#include "halves.h"

enum {
    TENSORS = 6,
    TEMPORARIES = 8,
    NUMBERS = 16,
    PLACES = TENSORS + TEMPORARIES + NUMBERS,
    BLOCK = 256, /* elements that are computed together, in cache */
    SHARE = 64
};

typedef struct instruction {
    uint8_t opcode, to, a, b, c; /* places: tensors, then temporaries, then numbers */
} instruction;

#define EACH(name, expression)                                                                                         \
    case COMPUTE_F32_##name:                                                                                           \
        ROLLED for (int64_t i = 0; i < n; i += LANES)                                                                  \
        {                                                                                                              \
            const vfloat a = vload(left + i), b = vload(right + i), c = vload(third + i);                              \
            vstore(y + i, expression);                                                                                 \
        }                                                                                                              \
        break;

#define EACH_OF_TWO(name) EACH(name, ((void)c, vector_##name(a, b)))

/* n is a multiple of LANES; y may be an operand. */
static void compute(int opcode, float *y, const float *left, const float *right, const float *third, int64_t n)
{
    switch (opcode) {
        VECTOR_ARITHMETIC(EACH_OF_TWO)
        EACH(greater, ((void)c, vselect(a > b, vsplat(1), vzero())))
        EACH(where, vselect(a != vzero(), b, c))
        EACH(multiply_add, a * b + c)
        EACH(sqrt, ((void)b, (void)c, vsqrt(a)))
        EACH(abs, ((void)b, (void)c, vabs(a)))
        EACH(sign, ((void)b, (void)c, vselect(a > vzero(), vsplat(1), vselect(a < vzero(), vsplat(-1), vzero()))))
    }
}

#if defined(__wasm__)
enum { HALVES = 0 }; /* code is downloaded */
#else
enum { HALVES = 1 };
#endif

INLINE void read_part(float *to, const void *tensor, int64_t at, int64_t n, int kind)
{
    if (HALVES && kind == KIND_F16)
        widen_row(to, (const uint16_t *)tensor + at, n, KIND_F16);
    else if (HALVES && kind == KIND_BF16)
        widen_row(to, (const uint16_t *)tensor + at, n, KIND_BF16);
    else
        memcpy(to, (const float *)tensor + at, (size_t)n * sizeof(float));
}

INLINE void write_part(void *tensor, const float *from, int64_t at, int64_t n, int kind)
{
    if (HALVES && kind == KIND_F16)
        narrow_row((uint16_t *)tensor + at, from, NULL, n, KIND_F16);
    else if (HALVES && kind == KIND_BF16)
        narrow_row((uint16_t *)tensor + at, from, NULL, n, KIND_BF16);
    else
        memcpy((float *)tensor + at, from, (size_t)n * sizeof(float));
}

KERNEL(compute_f32)
{
    float scratch[PLACES][BLOCK] __attribute__((aligned(64)));
    void *tensors[TENSORS];
    float *place[PLACES];
    const int64_t count = record->dims[compute_f32_count], steps = record->dims[compute_f32_steps],
                  single = record->dims[compute_f32_single], held = record->dims[compute_f32_held],
                  half = record->dims[compute_f32_half];
    const int kind = half == TYPE_float16 ? KIND_F16 : half == TYPE_bfloat16 ? KIND_BF16 : KIND_F32;
    const double *numbers = record->pointers[compute_f32_numbers];
    const instruction *program = record->pointers[compute_f32_program];
    unsigned written = 0;
    int used = 0; /* numbers */
    int64_t first, last;
    if (count < 0 || steps < 0 || held < 0 || held > (numbers ? NUMBERS : 0))
        return KERNEL_BAD_ARGUMENT;
    if (half && (!HALVES || kind == KIND_F32))
        return KERNEL_BAD_ARGUMENT;
    if (count == 0)
        return KERNEL_OK;
    for (int k = 0; k < PLACES; k++)
        place[k] = scratch[k];
    for (int k = 0; k < TENSORS; k++) {
        tensors[k] = record->pointers[compute_f32_x0 + k];
        if (tensors[k] && single >> k & 1) {
            read_part(scratch[k], tensors[k], 0, 1, kind);
            for (int i = 1; i < BLOCK; i++)
                scratch[k][i] = scratch[k][0];
        }
    }
    for (int64_t s = 0; s < steps; s++) {
        const uint8_t places[] = {program[s].to, program[s].a, program[s].b, program[s].c};
        for (int k = 0; k < 4; k++) {
            if (places[k] >= PLACES || (places[k] < TENSORS && !tensors[places[k]]))
                return KERNEL_BAD_ARGUMENT;
            used = places[k] - TENSORS - TEMPORARIES >= used ? places[k] - TENSORS - TEMPORARIES + 1 : used;
        }
        if (program[s].opcode >= COMPUTE_F32_COUNT || program[s].to >= TENSORS + TEMPORARIES ||
            (program[s].to < TENSORS && single >> program[s].to & 1))
            return KERNEL_BAD_ARGUMENT;
        written |= 1u << program[s].to;
    }
    for (int k = 0; k < used; k++) {
        double number;
        memcpy(&number, k < held ? (const void *)&numbers[k] : &record->dims[compute_f32_number0 + k], sizeof number);
        for (int i = 0; i < BLOCK; i++)
            scratch[TENSORS + TEMPORARIES + k][i] = (float)number;
    }
    worker_share(count, SHARE, worker, workers, &first, &last);
    for (int64_t at = first; at < last; at += BLOCK) {
        const int64_t n = last - at < BLOCK ? last - at : BLOCK, whole = n & -LANES, padded = (n + LANES - 1) & -LANES;
        const int copied = whole != n || (HALVES && kind != KIND_F32);
        for (int k = 0; k < TENSORS; k++) {
            if (!tensors[k] || single >> k & 1)
                continue;
            place[k] = copied ? scratch[k] : (float *)tensors[k] + at;
            if (copied) {
                memset(scratch[k] + whole, 0, (size_t)(padded - whole) * sizeof(float));
                read_part(scratch[k], tensors[k], at, n, kind);
            }
        }
        for (int64_t s = 0; s < steps; s++)
            compute(program[s].opcode, place[program[s].to], place[program[s].a], place[program[s].b],
                    place[program[s].c], padded);
        for (int k = 0; copied && k < TENSORS; k++)
            if (written >> k & 1)
                write_part(tensors[k], scratch[k], at, n, kind);
    }
    return KERNEL_OK;
}
