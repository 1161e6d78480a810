/* Reductions. */
#include "elements.h"
#include "halves.h"

enum {
    BLOCK = 4096,
    ROWS_AT_ONCE = 128,
    STRIP = 4
}; /* BLOCK: elements summed in f32 before the sum goes on in double */

static float sum_row(const float *x, int64_t columns)
{
    double total = 0;
    for (int64_t start = 0; start < columns; start += BLOCK) {
        const int64_t end = columns - start < BLOCK ? columns : start + BLOCK;
        vfloat sums[4] = {vzero(), vzero(), vzero(), vzero()};
        int64_t i = start;
        for (; i + 4 * LANES <= end; i += 4 * LANES)
            for (int j = 0; j < 4; j++)
                sums[j] += vload(x + i + j * LANES);
        for (; i < end; i += LANES)
            sums[0] += vload_up_to(x + i, end - i);
        total += vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
    return (float)total;
}

KERNEL(sum_rows_f32)
{
    float *y = record->pointers[sum_rows_f32_y];
    const float *x = record->pointers[sum_rows_f32_x];
    int64_t first, last;
    worker_share(record->dims[sum_rows_f32_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last; row++)
        y[row] = sum_row(x + row * record->dims[sum_rows_f32_x_stride], record->dims[sum_rows_f32_columns]);
    return KERNEL_OK;
}

/* Sums of columns first .. first + n - 1, in a group of vectors; rows are added up in parts, and the parts in turn. */
INLINE void sum_strip(float *y, const float *x, int64_t rows, int64_t stride, int64_t n, const int vectors)
{
    vfloat totals[STRIP];
    for (int j = 0; j < vectors; j++)
        totals[j] = vzero();
    for (int64_t start = 0; start < rows; start += ROWS_AT_ONCE) {
        const int64_t end = rows - start < ROWS_AT_ONCE ? rows : start + ROWS_AT_ONCE;
        vfloat sums[STRIP];
        for (int j = 0; j < vectors; j++)
            sums[j] = vzero();
        for (int64_t row = start; row < end; row++)
            for (int j = 0; j < vectors; j++)
                sums[j] += vectors == 1 ? vload_up_to(x + row * stride, n) : vload(x + row * stride + j * LANES);
        for (int j = 0; j < vectors; j++)
            totals[j] += sums[j];
    }
    for (int j = 0; j < vectors; j++)
        vstore_up_to(y + j * LANES, totals[j], vectors == 1 ? n : LANES);
}

KERNEL(sum_columns_f32)
{
    float *y = record->pointers[sum_columns_f32_y];
    const float *x = record->pointers[sum_columns_f32_x];
    const int64_t rows = record->dims[sum_columns_f32_rows], stride = record->dims[sum_columns_f32_x_stride];
    int64_t first, last;
    worker_share(record->dims[sum_columns_f32_columns], 16, worker, workers, &first, &last);
    for (; first + STRIP * LANES <= last; first += STRIP * LANES)
        sum_strip(y + first, x + first, rows, stride, STRIP * LANES, STRIP);
    for (; first < last; first += LANES)
        sum_strip(y + first, x + first, rows, stride, last - first, 1);
    return KERNEL_OK;
}

/* The first of the largest elements; as in NumPy and torch, NaN counts as larger than everything. */
static int64_t largest_at(const float *x, int64_t columns)
{
    vint unordered = vsplat_int(0);
    int64_t i = 0;
    for (; i < columns; i += LANES) {
        const vfloat v = vload_up_to(x + i, columns - i);
        unordered |= v != v;
    }
    int32_t some = 0;
    for (int j = 0; j < LANES; j++)
        some |= unordered[j];
    const float largest = row_largest(x, columns);
    for (i = 0; i < columns; i++)
        if (some ? x[i] != x[i] : x[i] == largest)
            break;
    return i;
}

KERNEL(argmax_f32)
{
    int32_t *index = record->pointers[argmax_f32_index];
    const float *x = record->pointers[argmax_f32_x];
    const int64_t columns = record->dims[argmax_f32_columns];
    int64_t first, last;
    worker_share(record->dims[argmax_f32_rows], 1, worker, workers, &first, &last);
    for (int64_t row = first; row < last && columns > 0; row++)
        index[row] = (int32_t)largest_at(x + row * record->dims[argmax_f32_x_stride], columns);
    return KERNEL_OK;
}

/* ---- Any type and strides, by opcode: sums and products in doubles or 64-bit integers, extremes as they are */

typedef struct state {
    double real[PART];
    int64_t whole[PART], index[PART];
} state;

static const uint32_t reduce_types[] = REDUCE_TYPES;

/* Element number k of n results: `x` holds one for each. NaN is the largest and the smallest; the first of equals
 * counts. 64-bit integers wrap. */
#define ACROSS(expression)                                                                                             \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        to[i] = expression;                                                                                            \
    break
#define ACROSS_FUNCTION(name, type, wide, field)                                                                       \
    static SMALL_CODE void name(int64_t opcode, state *s, const type *x, int64_t n, int64_t k)                         \
    {                                                                                                                  \
        type *to = s->field;                                                                                           \
        switch (opcode) {                                                                                              \
        case REDUCE_sum:                                                                                               \
            ACROSS((type)((wide)to[i] + (wide)x[i]));                                                                  \
        case REDUCE_sum_squares:                                                                                       \
            ACROSS((type)((wide)to[i] + (wide)x[i] * (wide)x[i]));                                                     \
        case REDUCE_prod:                                                                                              \
            ACROSS((type)((wide)to[i] * (wide)x[i]));                                                                  \
        case REDUCE_any:                                                                                               \
            ACROSS((to[i] != 0) | (x[i] != 0));                                                                        \
        case REDUCE_all:                                                                                               \
            ACROSS((to[i] != 0) & (x[i] != 0));                                                                        \
        case REDUCE_max:                                                                                               \
            ACROSS(((x[i] > to[i]) | (x[i] != x[i])) ? x[i] : to[i]);                                                  \
        case REDUCE_min:                                                                                               \
            ACROSS(((x[i] < to[i]) | (x[i] != x[i])) ? x[i] : to[i]);                                                  \
        default:                                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                            \
                if (k == 0 || (opcode == REDUCE_argmax ? x[i] > to[i] : x[i] < to[i]) ||                               \
                    (x[i] != x[i] && to[i] == to[i])) {                                                                \
                    to[i] = x[i];                                                                                      \
                    s->index[i] = k;                                                                                   \
                }                                                                                                      \
        }                                                                                                              \
    }
ACROSS_FUNCTION(reals_across, double, double, real)
ACROSS_FUNCTION(wholes_across, int64_t, uint64_t, whole)

/* Elements k .. k + n - 1 of result 0. */
#define ALONG(expression)                                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        to = expression;                                                                                               \
    break
#define ALONG_FUNCTION(name, type, wide, field)                                                                        \
    static SMALL_CODE void name(int64_t opcode, state *s, const type *x, int64_t n, int64_t k)                         \
    {                                                                                                                  \
        type to = s->field[0];                                                                                         \
        int64_t at = s->index[0];                                                                                      \
        switch (opcode) {                                                                                              \
        case REDUCE_sum:                                                                                               \
            ALONG((type)((wide)to + (wide)x[i]));                                                                      \
        case REDUCE_prod:                                                                                              \
            ALONG((type)((wide)to * (wide)x[i]));                                                                      \
        case REDUCE_any:                                                                                               \
            ALONG((to != 0) | (x[i] != 0));                                                                            \
        case REDUCE_all:                                                                                               \
            ALONG((to != 0) & (x[i] != 0));                                                                            \
        case REDUCE_max:                                                                                               \
            ALONG(((x[i] > to) | (x[i] != x[i])) ? x[i] : to);                                                         \
        case REDUCE_min:                                                                                               \
            ALONG(((x[i] < to) | (x[i] != x[i])) ? x[i] : to);                                                         \
        default:                                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                            \
                if (k + i == 0 || (opcode == REDUCE_argmax ? x[i] > to : x[i] < to) || (x[i] != x[i] && to == to)) {   \
                    to = x[i];                                                                                         \
                    at = k + i;                                                                                        \
                }                                                                                                      \
        }                                                                                                              \
        s->field[0] = to;                                                                                              \
        s->index[0] = at;                                                                                              \
    }
ALONG_FUNCTION(reals_along, double, double, real)
ALONG_FUNCTION(wholes_along, int64_t, uint64_t, whole)

/* The product of a part: eight chains do not wait for each other. */
static double product_of(const double *x, int64_t n)
{
    double products[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++)
            products[j] *= x[i + j];
    for (; i < n; i++)
        products[0] *= x[i];
    return ((products[0] * products[4]) * (products[2] * products[6])) *
           ((products[1] * products[5]) * (products[3] * products[7]));
}

#if defined(__wasm__)
/* Whether a dense line of bools has one that is `sought`. */
static int has_bool(const uint8_t *x, int64_t n, int sought)
{
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        uint8_t found = 0;
        for (int j = 0; j < 64; j++)
            found |= (x[i + j] != 0) == sought;
        if (found)
            return 1;
    }
    for (; i < n; i++)
        if ((x[i] != 0) == sought)
            return 1;
    return 0;
}
#else /* there as the others: code is downloaded */
/* The product of a dense row of f32 in double, in chains that do not wait for each other. */
static double product_of_row(const float *x, int64_t n)
{
    double products[32], total = 1;
    int64_t i = 0;
    for (int j = 0; j < 32; j++)
        products[j] = 1;
    for (; i + 32 <= n; i += 32)
        for (int j = 0; j < 32; j++)
            products[j] *= (double)x[i + j];
    for (; i < n; i++)
        products[0] *= (double)x[i];
    for (int j = 0; j < 32; j++)
        total *= products[j];
    return total;
}

/* The sum of the squares of a dense row of f32 in double, in chains that do not wait for each other. */
static double squares_of_row(const float *x, int64_t n)
{
    double sums[32] = {0}, total = 0;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (int j = 0; j < 32; j++)
            sums[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < n; i++)
        sums[0] += (double)x[i] * (double)x[i];
    for (int j = 0; j < 32; j++)
        total += sums[j];
    return total;
}
#endif

#if defined(__wasm__)
enum { CHAINS = 8 };
#else
enum { CHAINS = 32 }; /* that do not wait for each other */
#endif

/* Adds a part to result 0; `lost` is the sum of the rounding errors of earlier additions (Neumaier 1974). */
static SMALL_CODE void add_part(state *s, double *lost, const double *x, int64_t n, int squares)
{
    double sums[CHAINS] = {0};
    int64_t i = 0;
    for (; i + CHAINS <= n; i += CHAINS)
        for (int j = 0; j < CHAINS; j++)
            sums[j] += squares ? x[i + j] * x[i + j] : x[i + j];
    for (; i < n; i++)
        sums[0] += squares ? x[i] * x[i] : x[i];
    for (int half = CHAINS / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            sums[j] += sums[j + half];
    const double more = sums[0];
    const double total = s->real[0] + more;
    const double rounded =
        __builtin_fabs(s->real[0]) >= __builtin_fabs(more) ? (s->real[0] - total) + more : (more - total) + s->real[0];
    *lost += total - total == 0 ? rounded : 0;
    s->real[0] = total;
}

/* Largest or smallest of a dense row of f32; NaN if an element is NaN. */
static SMALL_CODE float extreme_of_row(const float *x, int64_t n, int larger)
{
    vfloat best = vsplat(x[0]);
    vint unordered = vsplat_int(0);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const vfloat v = vload(x + i);
        best = larger ? vmax(best, v) : vmin(best, v);
        unordered |= v != v;
    }
    float found = best[0];
    int none = 0;
    for (int j = 0; j < LANES; j++) {
        none |= unordered[j] != 0;
        found = (larger ? best[j] > found : best[j] < found) ? best[j] : found;
    }
    for (; i < n; i++) {
        none |= x[i] != x[i];
        found = (larger ? x[i] > found : x[i] < found) ? x[i] : found;
    }
    return none ? __builtin_nanf("") : found;
}

typedef struct reduction {
    const char *x;
    void *y;
    int64_t opcode, inner, reduced, x_outer, x_reduced, x_inner;
    double correction;
    int type, y_type, is_real;
} reduction;

#if !defined(__wasm__)
/* ---- Rows and columns in their own type */

#define element uint8_t
#define whole int8_t
#define is_float 0
#define total uint32_t
#define NAME(f) f##_uint8
#include "reduce_rows.h"
#define element int8_t
#define whole int8_t
#define is_float 0
#define total int32_t
#define NAME(f) f##_int8
#include "reduce_rows.h"
#define element int16_t
#define whole int16_t
#define is_float 0
#define total int32_t
#define NAME(f) f##_int16
#include "reduce_rows.h"
#define element int32_t
#define whole int32_t
#define is_float 0
#define total int64_t
#define NAME(f) f##_int32
#include "reduce_rows.h"
#define element int64_t
#define whole int64_t
#define is_float 0
#define adds uint64_t
#define NAME(f) f##_int64
#include "reduce_rows.h"
#define element float
#define whole int32_t
#define is_float 1
#define NAME(f) f##_float32
#include "reduce_rows.h"
#define element double
#define whole int64_t
#define is_float 1
#define adds double
#define NAME(f) f##_float64
#include "reduce_rows.h"

/* Bools, of which every byte but 0 is true. */
static int along_bools(const reduction *r, const uint8_t *x, int64_t at)
{
    const int one = r->opcode == REDUCE_any || r->opcode == REDUCE_max;
    int64_t sum = 0;
    if (one || r->opcode == REDUCE_all || r->opcode == REDUCE_min) {
        ((uint8_t *)r->y)[at] = has_uint8(x, r->reduced, one) == one;
        return 1;
    }
    if (r->opcode != REDUCE_sum)
        return 0;
    for (int64_t k = 0; k < r->reduced; k += BLOCK) {
        const int64_t n = r->reduced - k < BLOCK ? r->reduced - k : BLOCK;
        uint32_t part = 0;
        for (int64_t i = 0; i < n; i++)
            part += x[k + i] != 0;
        sum += part;
    }
    ((int64_t *)r->y)[at] = sum;
    return 1;
}

/* Result `at` of a dense row; 0 where it is not computed in the type of the elements. */
static int along_of_type(const reduction *r, const char *x, int64_t at)
{
    switch (r->type) {
    case TYPE_bool:
        return along_bools(r, (const uint8_t *)x, at);
    case TYPE_uint8:
        return along_uint8(r, x, at);
    case TYPE_int8:
        return along_int8(r, x, at);
    case TYPE_int16:
        return along_int16(r, x, at);
    case TYPE_int32:
        return along_int32(r, x, at);
    case TYPE_int64:
        return along_int64(r, x, at);
    case TYPE_float32:
        return along_float32(r, x, at);
    case TYPE_float64:
        return along_float64(r, x, at);
    default:
        return 0;
    }
}

/* The largest or smallest of less than a vector of columns. */
static void extreme_of_few(float *y, const float *x, int64_t rows, int64_t stride, int64_t n, int larger)
{
    vfloat best = vload_up_to(x, n);
    for (int64_t row = 1; row < rows; row++) {
        const vfloat next = vload_up_to(x + row * stride, n);
        best = larger ? vmaximum(best, next) : vminimum(best, next);
    }
    vstore_up_to(y, best, n);
}

/* The sums of n columns of halves, at most PART: rows are added up in float32 in parts, and the parts in turn. */
INLINE void sum_half_columns(float *totals, const uint16_t *x, int64_t rows, int64_t stride, int64_t n, const int kind)
{
    for (int64_t i = 0; i < n; i += STRIP * LANES) {
        const int64_t left = n - i;
        vfloat strip[STRIP] = {{0}};
        for (int64_t start = 0; start < rows; start += ROWS_AT_ONCE) {
            const int64_t end = rows - start < ROWS_AT_ONCE ? rows : start + ROWS_AT_ONCE;
            vfloat sums[STRIP] = {{0}};
            for (int64_t row = start; row < end; row++) {
                const uint16_t *from = x + row * stride + i;
                if (left >= STRIP * LANES)
                    for (int j = 0; j < STRIP; j++)
                        sums[j] += vload_at(from, j * LANES, kind);
                else
                    for (int j = 0; j * LANES < left; j++)
                        sums[j] += load_halves(from + j * LANES, left - j * LANES, kind);
            }
            for (int j = 0; j < STRIP; j++)
                strip[j] += sums[j];
        }
        for (int j = 0; j * LANES < left && j < STRIP; j++)
            vstore_up_to(totals + i + j * LANES, strip[j], left - j * LANES);
    }
}

static void sums_across_halves(const reduction *r, const uint16_t *x, int64_t at, int64_t n)
{
    float totals[PART];
    if (r->type == TYPE_float16)
        sum_half_columns(totals, x, r->reduced, r->x_reduced, n, KIND_F16);
    else
        sum_half_columns(totals, x, r->reduced, r->x_reduced, n, KIND_BF16);
    write_floats(r->y, r->y_type, at, totals, n);
}

/* Results at .. at + n - 1, columns of rows whose neighbours lie side by side; 0 where they are not computed in the type of
 * the elements. */
static int across_of_type(const reduction *r, const char *x, int64_t at, int64_t n)
{
    const int larger = r->opcode == REDUCE_max;
    if (r->opcode == REDUCE_sum && r->type == TYPE_float64 && r->y_type == TYPE_float64)
        sums_across_float64((double *)r->y + at, (const double *)(const void *)x, r->reduced, r->x_reduced, n);
    else if (r->opcode == REDUCE_sum && r->type == TYPE_int64)
        sums_across_int64((int64_t *)r->y + at, (const int64_t *)(const void *)x, r->reduced, r->x_reduced, n);
    else if (r->opcode == REDUCE_sum && type_in(r->type, TYPES_HALF) && r->y_type != TYPE_float64)
        sums_across_halves(r, (const uint16_t *)(const void *)x, at, n);
    else if ((larger || r->opcode == REDUCE_min) && r->type == TYPE_float32 && n < LANES)
        extreme_of_few((float *)r->y + at, (const float *)(const void *)x, r->reduced, r->x_reduced, n, larger);
    else if (larger || r->opcode == REDUCE_min)
        switch (r->type) {
#define ACROSS_TYPE(element, name)                                                                                     \
    case TYPE_##name:                                                                                                  \
        across_##name((element *)r->y + at, (const element *)(const void *)x, r->reduced, r->x_reduced, n, larger);    \
        break;
            ACROSS_TYPE(uint8_t, uint8)
            ACROSS_TYPE(int8_t, int8)
            ACROSS_TYPE(int16_t, int16)
            ACROSS_TYPE(int32_t, int32)
            ACROSS_TYPE(int64_t, int64)
            ACROSS_TYPE(float, float32)
            ACROSS_TYPE(double, float64)
        default:
            return 0;
        }
    else
        return 0;
    return 1;
}

/* The sum of the squares of a line of halves, added up in float32 a part at a time. */
static double squares_of_halves(const view *line, int64_t count)
{
    double total = 0;
    for (int64_t k = 0; k < count; k += PART) {
        float part[PART];
        const int64_t n = count - k < PART ? count - k : PART;
        const float *x = read_floats(part, line, k, n);
        vfloat sums[2] = {vzero(), vzero()};
        for (int64_t i = 0; i < n; i += LANES) {
            const vfloat v = vload_up_to(x + i, n - i);
            sums[i / LANES & 1] = vfma(v, v, sums[i / LANES & 1]);
        }
        total += vsum(sums[0] + sums[1]);
    }
    return total;
}

/* The largest or smallest of a line of halves, NaN if one is. */
static float extreme_of_halves(const view *line, int64_t count, int larger)
{
    float found = 0, part[PART];
    for (int64_t k = 0; k < count && found == found; k += PART) {
        const int64_t n = count - k < PART ? count - k : PART;
        const float next = extreme_of_row(read_floats(part, line, k, n), n, larger);
        found = k == 0 || next != next || (larger ? next > found : next < found) ? next : found;
    }
    return found;
}
#endif

static void write_results(const reduction *r, const state *s, int64_t at, int64_t n)
{
    if (r->opcode == REDUCE_argmax || r->opcode == REDUCE_argmin)
        write_integers(r->y, TYPE_int64, at, s->index, n);
    else if (r->is_real)
        write_doubles(r->y, r->y_type, at, s->real, n);
    else
        write_integers(r->y, r->y_type, at, s->whole, n);
}

static SMALL_CODE void begin_results(const reduction *r, state *s, int64_t n)
{
    const int one = r->opcode == REDUCE_prod || r->opcode == REDUCE_all;
    for (int64_t i = 0; i < n; i++) {
        s->real[i] = r->opcode == REDUCE_max ? -__builtin_inf() : r->opcode == REDUCE_min ? __builtin_inf() : one;
        s->whole[i] = r->opcode == REDUCE_max ? INT64_MIN : r->opcode == REDUCE_min ? INT64_MAX : one;
        s->index[i] = 0;
    }
}

/* A float sum of a line of f32 or halves, added up in f32 a part at a time. */
static double sum_of_halves(const view *line, int64_t count)
{
    double total = 0;
    for (int64_t k = 0; k < count; k += PART) {
        float part[PART];
        const int64_t n = count - k < PART ? count - k : PART;
        total += sum_row(read_floats(part, line, k, n), n);
    }
    return total;
}

/* The sums of x - centre and of its squares over a line of f32 or halves. */
static SMALL_CODE void sum_moments(const view *line, int64_t count, float centre, double *sum, double *squares)
{
    *sum = *squares = 0;
    for (int64_t k = 0; k < count; k += PART) {
        const int64_t n = count - k < PART ? count - k : PART;
        float part[PART];
        const float *x = read_floats(part, line, k, n);
        vfloat first = vzero(), second = vzero();
        for (int64_t i = 0; i < n; i += LANES) {
            const vfloat distance = (n - i >= LANES ? vload(x + i) : vload_part_or(x + i, n - i, centre)) - centre;
            first += distance;
            second = vfma(distance, distance, second);
        }
        *sum += vsum(first);
        *squares += vsum(second);
    }
}

/* The variance of a line. Distances are those from the mean as a float: what that adds is taken away again (Chan, Golub
 * and LeVeque 1983). */
static SMALL_CODE double variance(const view *line, int64_t count, double correction)
{
    double sum, squares;
    sum_moments(line, count, 0, &sum, &squares);
    sum_moments(line, count, (float)(sum / (double)count), &sum, &squares);
    return (squares - sum * sum / (double)count) / ((double)count - correction);
}

/* Result `at`, whose elements lie x_reduced apart. */
static SMALL_CODE void reduce_along(const reduction *r, int64_t at)
{
    const char *x = r->x + (at / r->inner * r->x_outer + at % r->inner * r->x_inner) * type_bytes(r->type);
    const view line = {x, r->type, 1, {r->reduced}, {r->x_reduced}};
    state s;
    double lost = 0;
    begin_results(r, &s, 1);
    if (r->type == TYPE_float32 && r->x_reduced == 1) {
        const float *row = (const float *)(const void *)x;
        if (r->opcode == REDUCE_sum && r->y_type == TYPE_float32) {
            ((float *)r->y)[at] = sum_row(row, r->reduced);
            return;
        }
        if (r->opcode == REDUCE_max || r->opcode == REDUCE_min) {
            ((float *)r->y)[at] = extreme_of_row(row, r->reduced, r->opcode == REDUCE_max);
            return;
        }
#if !defined(__wasm__)
        if (r->opcode == REDUCE_prod || r->opcode == REDUCE_sum_squares) {
            s.real[0] = (r->opcode == REDUCE_prod ? product_of_row : squares_of_row)(row, r->reduced);
            write_results(r, &s, at, 1);
            return;
        }
#endif
    }
#if defined(__wasm__)
    if (r->type == TYPE_bool && r->x_reduced == 1 && (r->opcode == REDUCE_any || r->opcode == REDUCE_all)) {
        const int sought = r->opcode == REDUCE_any;
        ((uint8_t *)r->y)[at] = has_bool((const uint8_t *)x, r->reduced, sought) == sought;
        return;
    }
#else
    if (r->x_reduced == 1 && along_of_type(r, x, at))
        return;
    if (type_in(r->type, TYPES_HALF) && r->opcode == REDUCE_sum_squares && r->y_type != TYPE_float64) {
        s.real[0] = squares_of_halves(&line, r->reduced);
        write_results(r, &s, at, 1);
        return;
    }
    if (type_in(r->type, TYPES_HALF) && (r->opcode == REDUCE_max || r->opcode == REDUCE_min)) {
        const float found = extreme_of_halves(&line, r->reduced, r->opcode == REDUCE_max);
        write_floats(r->y, r->type, at, &found, 1);
        return;
    }
#endif
    if (r->opcode == REDUCE_sum && r->y_type != TYPE_float64 && type_in(r->type, TYPES_HALF | BIT(TYPE_float32))) {
        s.real[0] = sum_of_halves(&line, r->reduced);
        write_results(r, &s, at, 1);
        return;
    }
    if (r->opcode == REDUCE_var) {
        s.real[0] = variance(&line, r->reduced, r->correction);
        write_results(r, &s, at, 1);
        return;
    }
    for (int64_t k = 0; k < r->reduced; k += PART) {
        const int64_t n = r->reduced - k < PART ? r->reduced - k : PART;
        union {
            double real[PART];
            int64_t whole[PART];
        } part;
        if (!r->is_real) {
#if !defined(__wasm__)
            if (r->type == TYPE_int64) { /* where they lie */
                wholes_along(r->opcode, &s, read_bits(part.whole, &line, k, n, sizeof *part.whole), n, k);
                continue;
            }
#endif
            read_integers(part.whole, &line, k, n);
            wholes_along(r->opcode, &s, part.whole, n, k);
            continue;
        }
        const double *from = part.real;
#if !defined(__wasm__)
        if (r->type == TYPE_float64) /* where they lie */
            from = read_bits(part.real, &line, k, n, sizeof *part.real);
        else
#endif
            read_doubles(part.real, &line, k, n);
        if (r->opcode == REDUCE_sum || r->opcode == REDUCE_sum_squares)
            add_part(&s, &lost, from, n, r->opcode == REDUCE_sum_squares);
        else if (r->opcode == REDUCE_prod)
            s.real[0] *= product_of(from, n);
        else
            reals_along(r->opcode, &s, from, n, k);
    }
    s.real[0] += lost;
    write_results(r, &s, at, 1);
}

/* n results from `at` on, of one outer index, row by row: their elements lie nearer to each other than to the next
 * row. */
static SMALL_CODE void reduce_across(const reduction *r, int64_t at, int64_t n)
{
    const char *x = r->x + (at / r->inner * r->x_outer + at % r->inner * r->x_inner) * type_bytes(r->type);
    state s;
    begin_results(r, &s, n);
    for (int64_t k = 0; k < r->reduced; k++) {
        const view row = {x + k * r->x_reduced * type_bytes(r->type), r->type, 1, {n}, {r->x_inner}};
        if (r->is_real) {
            double part[PART];
            read_doubles(part, &row, 0, n);
            reals_across(r->opcode, &s, part, n, k);
        } else {
            int64_t part[PART];
            read_integers(part, &row, 0, n);
            wholes_across(r->opcode, &s, part, n, k);
        }
    }
    write_results(r, &s, at, n);
}

static int y_type_fits(const reduction *r)
{
    if (r->opcode == REDUCE_argmax || r->opcode == REDUCE_argmin)
        return r->y_type == TYPE_int64;
    if (r->opcode == REDUCE_any || r->opcode == REDUCE_all)
        return r->y_type == TYPE_bool;
    if (r->opcode == REDUCE_max || r->opcode == REDUCE_min)
        return r->y_type == r->type;
    return r->is_real ? type_in(r->y_type, TYPES_FLOAT) : r->y_type == TYPE_int64;
}

KERNEL(reduce)
{
    const int64_t *d = record->dims, opcode = d[reduce_opcode], outer = d[reduce_outer];
    const reduction r = {.x = record->pointers[reduce_x],
                         .y = record->pointers[reduce_y],
                         .opcode = opcode,
                         .inner = d[reduce_inner],
                         .reduced = d[reduce_reduced],
                         .x_outer = d[reduce_x_outer],
                         .x_reduced = d[reduce_x_reduced],
                         .x_inner = d[reduce_x_inner],
                         .correction = record->floats[reduce_correction],
                         .type = (int)d[reduce_x_type],
                         .y_type = (int)d[reduce_y_type],
                         .is_real = type_in(d[reduce_x_type], TYPES_FLOAT)};
    const int picks = opcode >= REDUCE_max;
    int64_t first, last;
    if (outer <= 0 || r.inner <= 0)
        return outer < 0 || r.inner < 0 ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (opcode < 0 || opcode >= REDUCE_COUNT || !type_in(d[reduce_x_type], reduce_types[opcode]) || !y_type_fits(&r) ||
        r.reduced < 0 || (picks && !r.reduced))
        return KERNEL_BAD_ARGUMENT;
    const int across = opcode != REDUCE_var && r.inner > 1 &&
                       (r.x_inner < 0 ? -r.x_inner : r.x_inner) < (r.x_reduced < 0 ? -r.x_reduced : r.x_reduced);
    if (!across) {
        worker_share(outer * r.inner, 1, worker, workers, &first, &last);
        for (int64_t at = first; at < last; at++)
            reduce_along(&r, at);
        return KERNEL_OK;
    }
    const int64_t tiles = (r.inner + PART - 1) / PART;
    worker_share(outer * tiles, 1, worker, workers, &first, &last);
    for (int64_t tile = first; tile < last; tile++) {
        const int64_t column = tile % tiles * PART, n = r.inner - column < PART ? r.inner - column : PART;
        const int64_t at = tile / tiles * r.inner + column;
        if (r.type == TYPE_float32 && opcode == REDUCE_sum && r.y_type == TYPE_float32 && r.x_inner == 1)
            for (int64_t i = 0; i < n; i += STRIP * LANES) {
                const float *x = (const float *)(const void *)r.x + tile / tiles * r.x_outer + column + i;
                float *y = (float *)r.y + at + i;
                if (n - i >= STRIP * LANES)
                    sum_strip(y, x, r.reduced, r.x_reduced, STRIP * LANES, STRIP);
                else
                    for (int64_t j = 0; j < n - i; j += LANES)
                        sum_strip(y + j, x + j, r.reduced, r.x_reduced, n - i - j, 1);
            }
#if !defined(__wasm__)
        else if (r.x_inner == 1 &&
                 across_of_type(&r, r.x + (tile / tiles * r.x_outer + column) * type_bytes(r.type), at, n))
            continue;
#endif
        else
            reduce_across(&r, at, n);
    }
    return KERNEL_OK;
}
