/* From any element type to any other. */
#include "elements.h"
#include "halves.h"

void widen_rest(float *y, const uint16_t *x, int64_t n, int kind)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = scalar_at(x, i, kind);
}

enum { SHARE = 64 };

typedef vfloat widen_function(const uint16_t *x);
typedef vuint narrow_function(vfloat x);

INLINE int widen(widen_function *function, const launch *record, int worker, int workers)
{
    float *y = record->pointers[f16_to_f32_y];
    const uint16_t *x = record->pointers[f16_to_f32_x];
    int64_t first, last, i;
    worker_share(record->dims[f16_to_f32_count], SHARE, worker, workers, &first, &last);
    for (i = first; i + LANES <= last; i += LANES)
        vstore(y + i, function(x + i));
    if (i < last) {
        uint16_t part[LANES] = {0};
        memcpy(part, x + i, (size_t)(last - i) * sizeof *x);
        vstore_part(y + i, function(part), last - i);
    }
    return KERNEL_OK;
}

INLINE int narrow(narrow_function *function, const launch *record, int worker, int workers)
{
    uint16_t *y = record->pointers[f32_to_f16_y];
    const float *x = record->pointers[f32_to_f16_x];
    int64_t first, last;
    worker_share(record->dims[f32_to_f16_count], SHARE, worker, workers, &first, &last);
    for (int64_t i = first; i < last; i += LANES)
        store_halves(y + i, function(vload_up_to(x + i, last - i)), last - i);
    return KERNEL_OK;
}

#define WIDEN_KERNEL(name, function)                                                                                   \
    KERNEL(name) { return widen(function, record, worker, workers); }
#define NARROW_KERNEL(name, function)                                                                                  \
    KERNEL(name) { return narrow(function, record, worker, workers); }

WIDEN_KERNEL(f16_to_f32, vload_f16)
WIDEN_KERNEL(bf16_to_f32, vload_bf16)
NARROW_KERNEL(f32_to_f16, vto_f16)
NARROW_KERNEL(f32_to_bf16, vto_bf16)

/* ---- Any pair of types. Frequent targets are converted in one step, others through doubles or 64-bit integers. */

#define DIRECT(to_type, to, from_type, from)                                                                           \
    if (y_type == TYPE_##to_type && x_type == TYPE_##from_type) {                                                      \
        ROLLED for (int64_t i = 0; i < n; i++)((to *)y)[i] = (to)((const from *)x)[i];                                 \
        return 1;                                                                                                      \
    }

static int cast_dense(void *y, int y_type, const void *x, int x_type, int64_t n)
{
    DIRECT(float32, float, bool, uint8_t)
    DIRECT(float32, float, uint8, uint8_t)
    DIRECT(float32, float, int32, int32_t)
    DIRECT(float32, float, int64, int64_t)
    DIRECT(float32, float, float64, double)
    DIRECT(float64, double, float32, float)
    DIRECT(int32, int32_t, int64, int64_t)
    DIRECT(int64, int64_t, int32, int32_t)
    return 0;
}

/* 64-bit integers to f32 and narrower formats in one rounding to f32, as C does it. */
static void integers_to_floats(double *to, const int64_t *from, int64_t n, int x_type, int y_type)
{
    ROLLED for (int64_t i = 0; i < n; i++)
    {
        if (y_type == TYPE_float64)
            to[i] = x_type == TYPE_uint64 ? (double)(uint64_t)from[i] : (double)from[i];
        else
            to[i] = x_type == TYPE_uint64 ? (float)(uint64_t)from[i] : (float)from[i];
    }
}

static void cast_part(void *y, int y_type, const view *x, int64_t at, int64_t n)
{
    double part[PART];
    if (type_in(x->type, TYPES_INTEGER | BIT(TYPE_bool))) {
        int64_t whole[PART];
        read_integers(whole, x, at, n);
        if (type_in(y_type, TYPES_INTEGER | BIT(TYPE_bool))) {
            write_integers(y, y_type, at, whole, n);
            return;
        }
        integers_to_floats(part, whole, n, x->type, y_type);
    } else if (type_in(x->type, TYPES_HALF | BIT(TYPE_float32)) && type_in(y_type, TYPES_HALF | BIT(TYPE_float32))) {
        float floats[PART];
        write_floats(y, y_type, at, read_floats(floats, x, at, n), n);
        return;
    } else
        read_doubles(part, x, at, n);
    write_doubles(y, y_type, at, part, n);
}

KERNEL(cast)
{
    const int64_t *d = record->dims;
    int64_t first, last;
    view x;
    const int64_t count =
        view_of(&x, record->pointers[cast_x], d[cast_x_type], d[cast_rank], d + cast_shape0, d + cast_x0);
    if (count < 0 || !is_type(d[cast_y_type]))
        return KERNEL_BAD_ARGUMENT;
    const int y_type = (int)d[cast_y_type];
    char *y = record->pointers[cast_y];
    worker_share(count, ELEMENT_SHARE, worker, workers, &first, &last);
    if (first < last && (x.rank == 0 || (x.rank == 1 && x.stride[0] == 1)) &&
        cast_dense(y + first * type_bytes(y_type), y_type, x.p + first * type_bytes(x.type), x.type, last - first))
        return KERNEL_OK;
    for (int64_t at = first; at < last; at += PART)
        cast_part(y, y_type, &x, at, last - at < PART ? last - at : PART);
    return KERNEL_OK;
}
