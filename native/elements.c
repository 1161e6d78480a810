/* Reading and writing elements of any type (elements.h). */
#include "elements.h"
#include "halves.h"

int64_t view_of(view *v, const void *p, int64_t type, int64_t rank, const int64_t *sizes, const int64_t *strides)
{
    int64_t count = 1;
    if (rank < 0 || rank > RANK || !is_type(type))
        return -1;
    *v = (view){p, (int)type, 0, {0}, {0}};
    for (int i = 0; i < rank; i++) {
        if (sizes[i] < 0)
            return -1;
        count *= sizes[i];
        const int last = v->rank - 1;
        if (sizes[i] == 1)
            continue;
        if (v->rank && v->stride[last] == strides[i] * sizes[i]) {
            v->size[last] *= sizes[i];
            v->stride[last] = strides[i];
        } else {
            v->size[v->rank] = sizes[i];
            v->stride[v->rank++] = strides[i];
        }
    }
    return count;
}

/* ---- Runs of a view */

int64_t next_run(const view *v, int64_t at, int64_t *n, int64_t *step)
{
    int64_t offset = 0;
    *step = 0;
    if (!v->rank)
        return 0;
    const int last = v->rank - 1;
    const int64_t place = last ? at % v->size[last] : at, left = v->size[last] - place;
    offset = place * v->stride[last];
    *step = v->stride[last];
    if (last)
        at /= v->size[last];
    *n = left < *n ? left : *n;
    for (int i = last - 1; i >= 0; i--) {
        offset += (i ? at % v->size[i] : at) * v->stride[i];
        at /= v->size[i];
    }
    return offset;
}

/* ---- 8-bit floats (Micikevicius et al. 2022, arXiv 2209.05433) */

static float e4m3_to_float(uint8_t code)
{
    const union {
        uint32_t bits;
        float value;
    } normal = {((uint32_t)(code & 0x7f) << 20) + (120u << 23)};
    float size = code & 0x78 ? normal.value : (float)(code & 7) * 0x1p-9f;
    if ((code & 0x7f) == 0x7f)
        size = __builtin_nanf("");
    return code & 0x80 ? -size : size;
}

/* To nearest, ties to even; past `largest` comes `beyond`. */
INLINE uint8_t float_to_8_bits(float x, const int fraction, const int bias, const uint32_t largest,
                               const uint32_t beyond)
{
    const union {
        float value;
        uint32_t bits;
    } in = {x};
    const uint32_t size = in.bits & 0x7fffffff, sign = in.bits >> 24 & 0x80;
    const uint32_t least_normal = (uint32_t)(128 - bias) << 23;
    const int shift = 23 - fraction;
    uint32_t code;
    if (size > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    if (size < least_normal) { /* adding a power of two leaves the rounded multiple in the low bits */
        const union {
            uint32_t bits;
            float value;
        } small = {size}, magic = {(uint32_t)(128 - bias - fraction + 23) << 23};
        const union {
            float value;
            uint32_t bits;
        } sum = {small.value + magic.value};
        code = sum.bits - magic.bits;
    } else {
        const uint32_t rounded = size + (1u << (shift - 1)) - 1 + (size >> shift & 1);
        code = (rounded >> shift) - ((uint32_t)(127 - bias) << fraction);
    }
    return (uint8_t)(sign | (code > largest ? beyond : code));
}

static uint8_t float_to_e4m3(float x) { return float_to_8_bits(x, 3, 7, 126, 126); }
static uint8_t float_to_e5m2(float x) { return float_to_8_bits(x, 2, 15, 123, 124); }
static float e5m2_to_float(uint8_t code) { return f16_to_float((uint16_t)(code << 8)); }

/* ---- Reading */

#define ITSELF(x) (x)
#define IS_TRUE(x) ((x) != 0)
#if defined(__wasm__) /* code is downloaded */
#define COPY_RUN(convert)                                                                                              \
    for (int64_t i = 0; i < run; i++)                                                                                  \
        to[i] = convert(p[i * step]);
#else /* one element for all, and neighbours, in vectors */
#define COPY_RUN(convert)                                                                                              \
    if (step == 0) {                                                                                                   \
        const __typeof__(*to) value = (__typeof__(*to))convert(p[0]);                                                  \
        for (int64_t i = 0; i < run; i++)                                                                              \
            to[i] = value;                                                                                             \
    } else if (step == 1) {                                                                                            \
        for (int64_t i = 0; i < run; i++)                                                                              \
            to[i] = convert(p[i]);                                                                                     \
    } else {                                                                                                           \
        for (int64_t i = 0; i < run; i++)                                                                              \
            to[i] = convert(p[i * step]);                                                                              \
    }
#endif
#define READ(kind, c_type, convert)                                                                                    \
    case TYPE_##kind: {                                                                                                \
        const c_type *p = (const c_type *)(const void *)v->p + offset;                                                 \
        COPY_RUN(convert)                                                                                              \
        break;                                                                                                         \
    }
#define READ_INTEGERS                                                                                                  \
    READ(bool, uint8_t, IS_TRUE)                                                                                       \
    READ(uint8, uint8_t, ITSELF)                                                                                       \
    READ(int8, int8_t, ITSELF)                                                                                         \
    READ(uint16, uint16_t, ITSELF)                                                                                     \
    READ(int16, int16_t, ITSELF)                                                                                       \
    READ(uint32, uint32_t, ITSELF)                                                                                     \
    READ(int32, int32_t, ITSELF)
#define FOR_RUNS                                                                                                       \
    for (int64_t run, step, offset; n > 0; at += run, to += run, n -= run) {                                           \
        run = n;                                                                                                       \
        offset = next_run(v, at, &run, &step);

const float *read_floats(float *to, const view *v, int64_t at, int64_t n)
{
    float *const start = to;
    FOR_RUNS
    if (step == 1) {
        const void *p = v->p + offset * type_bytes(v->type);
        if (v->type == TYPE_float32) {
            if (run == n && to == start)
                return p;
            memcpy(to, p, (size_t)run * sizeof *to);
            continue;
        }
        int64_t i = 0;
        const int kind = v->type == TYPE_float16 ? KIND_F16 : KIND_BF16;
        for (; i + LANES <= run; i += LANES)
            vstore(to + i, kind == KIND_F16 ? vload_f16((const uint16_t *)p + i) : vload_bf16((const uint16_t *)p + i));
        for (; i < run; i++)
            to[i] = scalar_at(p, i, kind);
        continue;
    }
    switch (v->type) {
        READ(float32, float, ITSELF)
        READ(float16, uint16_t, f16_to_float)
        READ(bfloat16, uint16_t, bf16_to_float)
    }
}
return start;
}

void read_doubles(double *to, const view *v, int64_t at, int64_t n)
{
    if (type_in(v->type, TYPES_HALF)) {
        float part[PART];
        const float *from = read_floats(part, v, at, n);
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i];
        return;
    }
    FOR_RUNS
    switch (v->type) {
        READ_INTEGERS
        READ(int64, int64_t, ITSELF)
        READ(uint64, uint64_t, ITSELF)
        READ(float32, float, ITSELF)
        READ(float64, double, ITSELF)
        READ(float8_e4m3fn, uint8_t, e4m3_to_float)
        READ(float8_e5m2, uint8_t, e5m2_to_float)
    }
}
}

void read_integers(int64_t *to, const view *v, int64_t at, int64_t n)
{
    FOR_RUNS
    switch (v->type) {
        READ_INTEGERS
        READ(int64, int64_t, ITSELF)
        READ(uint64, uint64_t, (int64_t))
    }
}
}

#if defined(__wasm__)
#define READ_BITS(type)                                                                                                \
    for (int64_t i = 0; i < run; i++)                                                                                  \
    ((type *)(void *)to)[i] = ((const type *)(const void *)v->p)[offset + i * step]
#else /* one element for all in vectors */
#define READ_BITS(type)                                                                                                \
    do {                                                                                                               \
        const type *p = (const type *)(const void *)v->p + offset, value = *p;                                         \
        type *into = (type *)(void *)to;                                                                               \
        if (step == 0)                                                                                                 \
            for (int64_t i = 0; i < run; i++)                                                                          \
                into[i] = value;                                                                                       \
        else                                                                                                           \
            for (int64_t i = 0; i < run; i++)                                                                          \
                into[i] = p[i * step];                                                                                 \
    } while (0)
#endif

const void *read_bits(void *target, const view *v, int64_t at, int64_t n, int64_t bytes)
{
    char *to = target;
    for (int64_t run, step, offset; n > 0; at += run, to += run * bytes, n -= run) {
        run = n;
        offset = next_run(v, at, &run, &step);
        if (step == 1 && run == n && to == (char *)target)
            return v->p + offset * bytes;
        if (step == 1)
            memcpy(to, v->p + offset * bytes, (size_t)(run * bytes));
        else if (bytes == 4)
            READ_BITS(any32);
        else if (bytes == 8)
            READ_BITS(any64);
        else if (bytes == 2)
            READ_BITS(any16);
        else
            READ_BITS(char);
    }
    return target;
}

/* ---- Writing */

void write_floats(void *y, int type, int64_t at, const float *from, int64_t n)
{
    if (type == TYPE_float32) {
        float *to = (float *)y + at;
        if (to != from)
            memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    uint16_t *to = (uint16_t *)y + at;
    const int kind = type == TYPE_float16 ? KIND_F16 : KIND_BF16;
    for (int64_t i = 0; i < n; i += LANES)
        store_halves(to + i, to_halves(vload_up_to(from + i, n - i), kind), n - i);
}

INLINE int64_t to_int64(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }
INLINE int32_t to_int32(double x) { return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN; }
INLINE uint32_t to_uint32(double x) { return x > -0x1p63 && x < 0x1p63 ? (uint32_t)(int64_t)x : 0; }
INLINE uint64_t to_uint64(double x)
{
    if (x > -0x1p63 && x < 0x1p63)
        return (uint64_t)(int64_t)x;
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)(int64_t)(x - 0x1p63) + ((uint64_t)1 << 63) : 0;
}

#define WRITE(kind, c_type, convert)                                                                                   \
    case TYPE_##kind:                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            ((c_type *)y)[at + i] = (c_type)convert(from[i]);                                                          \
        break;

void write_doubles(void *y, int type, int64_t at, const double *from, int64_t n)
{
    if (type_in(type, TYPES_HALF | TYPES_FLOAT8)) {
        float part[PART];
        for (int64_t i = 0; i < n; i++)
            part[i] = (float)from[i];
        if (type_in(type, TYPES_HALF))
            write_floats(y, type, at, part, n);
        else
            for (int64_t i = 0; i < n; i++)
                ((uint8_t *)y)[at + i] = type == TYPE_float8_e4m3fn ? float_to_e4m3(part[i]) : float_to_e5m2(part[i]);
        return;
    }
    switch (type) {
        WRITE(bool, uint8_t, IS_TRUE)
        WRITE(uint8, uint8_t, to_int32)
        WRITE(int8, int8_t, to_int32)
        WRITE(uint16, uint16_t, to_int32)
        WRITE(int16, int16_t, to_int32)
        WRITE(uint32, uint32_t, to_uint32)
        WRITE(int32, int32_t, to_int32)
        WRITE(uint64, uint64_t, to_uint64)
        WRITE(int64, int64_t, to_int64)
        WRITE(float32, float, ITSELF)
        WRITE(float64, double, ITSELF)
    }
}

void write_integers(void *y, int type, int64_t at, const int64_t *from, int64_t n)
{
    switch (type) {
        WRITE(bool, uint8_t, IS_TRUE)
        WRITE(uint8, uint8_t, ITSELF)
        WRITE(int8, int8_t, ITSELF)
        WRITE(uint16, uint16_t, ITSELF)
        WRITE(int16, int16_t, ITSELF)
        WRITE(uint32, uint32_t, ITSELF)
        WRITE(int32, int32_t, ITSELF)
        WRITE(uint64, uint64_t, ITSELF)
        WRITE(int64, int64_t, ITSELF)
    }
}
