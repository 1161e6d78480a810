/* Running sums, products, extremes along a dim: in doubles or 64-bit integers, rounded where they are written. */
#include "elements.h"
#include "vmath64.h"

typedef struct scan_state {
    double real[PART];
    int64_t whole[PART], index[PART];
} scan_state;

static const uint32_t scan_types[] = SCAN_TYPES;

/* Step k of n lines side by side; of equals the last counts, and the first NaN stays the extreme. */
static void scan_reals(int64_t opcode, scan_state *s, const double *x, int64_t n, int64_t k)
{
#if !defined(__wasm__)
    if (opcode == SCAN_logcumsumexp && k) {
        for (int64_t i = 0; i < n; i += DLANES)
            dstore(s->real + i, dlogaddexp(dload(s->real + i), dload(x + i)));
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++) {
        double *to = s->real + i;
        if (k == 0) {
            *to = x[i];
            s->index[i] = 0;
        } else if (opcode == SCAN_cumsum)
            *to += x[i];
        else if (opcode == SCAN_cumprod)
            *to *= x[i];
        else if (opcode == SCAN_logcumsumexp)
            *to = dlogaddexp(dsplat(*to), dsplat(x[i]))[0];
        else if (x[i] != x[i] || (opcode == SCAN_cummax ? x[i] >= *to : x[i] <= *to)) {
            *to = x[i];
            s->index[i] = k;
        }
    }
}

static void scan_wholes(int64_t opcode, scan_state *s, const int64_t *x, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t *to = s->whole + i;
        if (k == 0) {
            *to = x[i];
            s->index[i] = 0;
        } else if (opcode == SCAN_cumsum)
            *to = (int64_t)((uint64_t)*to + (uint64_t)x[i]);
        else if (opcode == SCAN_cumprod)
            *to = (int64_t)((uint64_t)*to * (uint64_t)x[i]);
        else if (opcode == SCAN_cummax ? x[i] >= *to : x[i] <= *to) {
            *to = x[i];
            s->index[i] = k;
        }
    }
}

/* Elements k .. k + n - 1 of line 0. */
#define RUN(expression)                                                                                                \
    for (; i < n; i++)                                                                                                 \
        y[i] = to = expression;                                                                                        \
    break
#if defined(__wasm__) /* code is downloaded */
#define EXTREMES                                                                                                       \
    default:                                                                                                           \
        for (; i < n; i++) {                                                                                           \
            if (x[i] != x[i] || (opcode == SCAN_cummax ? x[i] >= to : x[i] <= to))                                     \
                to = x[i], at = k + i;                                                                                 \
            y[i] = to, index[i] = at;                                                                                  \
        }
#else
/* New extremes are rare: a branch, so that an element need not wait for the one before it. */
#define EXTREME(within, beyond)                                                                                        \
    for (; i < n; i++) {                                                                                               \
        if (__builtin_expect(!(x[i] within to), 0) && (x[i] != x[i] || x[i] beyond to))                                \
            to = x[i], at = k + i;                                                                                     \
        y[i] = to, index[i] = at;                                                                                      \
    }                                                                                                                  \
    break
#define EXTREMES                                                                                                       \
    case SCAN_cummax:                                                                                                  \
        EXTREME(<, >=);                                                                                                \
    default:                                                                                                           \
        EXTREME(>, <=)
#endif
#define ALONG_FUNCTION(name, type, wide, field, log_of_sum)                                                            \
    static __attribute__((noinline)) void name(int64_t opcode, scan_state *s, type *y, int64_t *index, const type *x,  \
                                               int64_t n, int64_t k)                                                   \
    {                                                                                                                  \
        type to = k ? s->field[0] : x[0];                                                                              \
        int64_t at = k ? s->index[0] : 0, i = 0;                                                                       \
        if (k == 0)                                                                                                    \
            y[i] = to, index[i++] = 0;                                                                                 \
        switch (opcode) {                                                                                              \
        case SCAN_cumsum:                                                                                              \
            RUN((type)((wide)to + (wide)x[i]));                                                                        \
        case SCAN_cumprod:                                                                                             \
            RUN((type)((wide)to * (wide)x[i]));                                                                        \
        case SCAN_logcumsumexp:                                                                                        \
            RUN(log_of_sum(to, x[i]));                                                                                 \
            EXTREMES;                                                                                                  \
        }                                                                                                              \
        s->field[0] = to;                                                                                              \
        s->index[0] = at;                                                                                              \
    }
#define LOG_OF_SUM(a, b) dlogaddexp(dsplat(a), dsplat(b))[0]
#define NO_LOG(a, b) (a)
ALONG_FUNCTION(scan_reals_along, double, double, real, LOG_OF_SUM)
ALONG_FUNCTION(scan_wholes_along, int64_t, uint64_t, whole, NO_LOG)

/* n lines from column `column` on. */
static void scan_lines(const launch *record, int64_t o, int64_t column, int64_t n)
{
    const int64_t *d = record->dims, opcode = d[scan_opcode], length = d[scan_length], inner = d[scan_inner];
    const int type = (int)d[scan_type], is_real = type_in(type, TYPES_FLOAT);
    const int y_type = is_real || opcode == SCAN_cummax || opcode == SCAN_cummin ? type : TYPE_int64;
    const char *x =
        (const char *)record->pointers[scan_x] + (o * d[scan_x_outer] + column * d[scan_x_inner]) * type_bytes(type);
    void *y = record->pointers[scan_y],
         *indices = opcode == SCAN_cummax || opcode == SCAN_cummin ? record->pointers[scan_indices] : NULL;
    scan_state s;
    union {
        double real[PART];
        int64_t whole[PART];
    } part, out;
    if (n == 1 && inner == 1) { /* a line by itself: many of its elements at a time */
        const view line = {x, type, 1, {length}, {d[scan_x_dim]}};
        for (int64_t k = 0; k < length; k += PART) {
            const int64_t some = length - k < PART ? length - k : PART, at = o * length + k;
            int64_t index[PART];
            const double *reals = part.real;
            const int64_t *wholes = part.whole;
            double *reals_to = out.real;
            int64_t *wholes_to = out.whole, *index_to = index;
#if !defined(__wasm__) /* read and written where they lie */
            if (indices)
                index_to = (int64_t *)indices + at;
            if (type == TYPE_float64 && d[scan_x_dim] == 1)
                reals = (const double *)x + k, reals_to = (double *)y + at;
            if (type == TYPE_int64 && d[scan_x_dim] == 1)
                wholes = (const int64_t *)x + k, wholes_to = (int64_t *)y + at;
#endif
            if (is_real && reals == part.real)
                read_doubles(part.real, &line, k, some);
            else if (!is_real && wholes == part.whole)
                read_integers(part.whole, &line, k, some);
            if (is_real)
                scan_reals_along(opcode, &s, reals_to, index_to, reals, some, k);
            else
                scan_wholes_along(opcode, &s, wholes_to, index_to, wholes, some, k);
            if (is_real && reals_to == out.real)
                write_doubles(y, y_type, at, out.real, some);
            else if (!is_real && wholes_to == out.whole)
                write_integers(y, y_type, at, out.whole, some);
            if (indices && index_to == index)
                write_integers(indices, TYPE_int64, at, index, some);
        }
        return;
    }
    for (int64_t k = 0; k < length; k++) {
        const view row = {x + k * d[scan_x_dim] * type_bytes(type), type, 1, {n}, {d[scan_x_inner]}};
        const int64_t at = (o * length + k) * inner + column;
        if (is_real) {
            read_doubles(part.real, &row, 0, n);
            scan_reals(opcode, &s, part.real, n, k);
            write_doubles(y, y_type, at, s.real, n);
        } else {
            read_integers(part.whole, &row, 0, n);
            scan_wholes(opcode, &s, part.whole, n, k);
            write_integers(y, y_type, at, s.whole, n);
        }
        if (indices)
            write_integers(indices, TYPE_int64, at, s.index, n);
    }
}

#if !defined(__wasm__)
/* logcumsumexp of `lines` lines of dense rows, from line o on: a lane is a line, since a logarithm takes a vector's time. */
static void log_lines(const launch *record, int64_t o, int64_t lines)
{
    const int64_t *d = record->dims, length = d[scan_length];
    const int type = (int)d[scan_type];
    double part[DLANES][PART];
    vdouble to = dsplat(0.0);
    for (int64_t k = 0; k < length; k += PART) {
        const int64_t some = length - k < PART ? length - k : PART;
        for (int64_t line = 0; line < DLANES; line++) {
            const int64_t row = o + (line < lines ? line : lines - 1);
            const view from = {(const char *)record->pointers[scan_x] + row * d[scan_x_outer] * type_bytes(type),
                               type,
                               1,
                               {length},
                               {d[scan_x_dim]}};
            read_doubles(part[line], &from, k, some);
        }
        for (int64_t i = 0; i < some; i++) {
            vdouble x;
            for (int line = 0; line < DLANES; line++)
                x[line] = part[line][i];
            to = k + i ? dlogaddexp(to, x) : x;
            for (int line = 0; line < DLANES; line++)
                part[line][i] = to[line];
        }
        for (int64_t line = 0; line < lines; line++)
            write_doubles(record->pointers[scan_y], type, (o + line) * length + k, part[line], some);
    }
}
#endif

KERNEL(scan)
{
    const int64_t *d = record->dims, opcode = d[scan_opcode], outer = d[scan_outer], inner = d[scan_inner];
    int64_t first, last;
    if (outer <= 0 || inner <= 0 || d[scan_length] <= 0)
        return outer < 0 || inner < 0 || d[scan_length] < 0 ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (opcode < 0 || opcode >= SCAN_COUNT || !type_in(d[scan_type], scan_types[opcode]))
        return KERNEL_BAD_ARGUMENT;
#if !defined(__wasm__)
    if (opcode == SCAN_logcumsumexp && inner == 1) {
        worker_share(outer, DLANES, worker, workers, &first, &last);
        for (int64_t o = first; o < last; o += DLANES)
            log_lines(record, o, last - o < DLANES ? last - o : DLANES);
        return KERNEL_OK;
    }
#endif
    const int64_t tiles = (inner + PART - 1) / PART;
    worker_share(outer * tiles, 1, worker, workers, &first, &last);
    for (int64_t tile = first; tile < last; tile++) {
        const int64_t column = tile % tiles * PART;
        scan_lines(record, tile / tiles, column, inner - column < PART ? inner - column : PART);
    }
    return KERNEL_OK;
}
