/* Rows of one element type, read where they lie; included by reduce.c: element, whole (the signed integer of its size),
 * is_float, total (the type of a sum of few elements), adds (the type in which columns are added), NAME(f). */

typedef element NAME(row) __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef whole NAME(mask) __attribute__((vector_size(4 * LANES)));
enum { NAME(WIDTH) = 4 * LANES / (int)sizeof(element) };

#define no_number (element)(is_float ? __builtin_nan("") : 0)
#define is_nan(x) (is_float && (x) != (x))

INLINE NAME(row) NAME(row_at)(const element *x) { return *(const NAME(row) *)x; }

INLINE NAME(row) NAME(better)(NAME(row) a, NAME(row) b, const int larger)
{
    const NAME(mask) first = larger ? a > b : a < b;
    return (NAME(row))(((NAME(mask))a & first) | ((NAME(mask))b & ~first));
}

INLINE NAME(mask) NAME(no_numbers)(NAME(row) x)
{
    const NAME(row) same = x;
    return is_float ? x != same : (NAME(mask)){0};
}

/* The largest or smallest of n elements; *unordered: whether one is NaN. */
INLINE element NAME(extreme_of)(const element *x, int64_t n, int *unordered, const int larger)
{
    element found = x[0];
    int64_t i = 0;
    int none = 0;
    if (n >= NAME(WIDTH)) {
        NAME(row) best[4];
        NAME(mask) some = {0};
        for (int j = 0; j < 4; j++)
            best[j] = NAME(row_at)(x);
        for (; i + 4 * NAME(WIDTH) <= n; i += 4 * NAME(WIDTH))
            for (int j = 0; j < 4; j++) {
                const NAME(row) next = NAME(row_at)(x + i + j * NAME(WIDTH));
                best[j] = NAME(better)(next, best[j], larger);
                some |= NAME(no_numbers)(next);
            }
        for (; i + NAME(WIDTH) <= n; i += NAME(WIDTH)) {
            const NAME(row) next = NAME(row_at)(x + i);
            best[0] = NAME(better)(next, best[0], larger);
            some |= NAME(no_numbers)(next);
        }
        const NAME(row) both =
            NAME(better)(NAME(better)(best[0], best[1], larger), NAME(better)(best[2], best[3], larger), larger);
        for (int lane = 0; lane < NAME(WIDTH); lane++) {
            found = (larger ? both[lane] > found : both[lane] < found) ? both[lane] : found;
            none |= some[lane] != 0;
        }
    }
    for (; i < n; i++) {
        found = (larger ? x[i] > found : x[i] < found) ? x[i] : found;
        none |= is_nan(x[i]);
    }
    *unordered = none;
    return found;
}

static element NAME(extreme)(const element *x, int64_t n, int *unordered, int larger)
{
    return larger ? NAME(extreme_of)(x, n, unordered, 1) : NAME(extreme_of)(x, n, unordered, 0);
}

/* The first element that is `sought`, or NaN. */
static int64_t NAME(place_of)(const element *x, int64_t n, element sought, int unordered)
{
    enum { AT_ONCE = 64 };
    int64_t i = 0;
    for (int found = 0; i + AT_ONCE <= n; i += AT_ONCE) {
        for (int j = 0; j < AT_ONCE; j++)
            found |= unordered ? is_nan(x[i + j]) : x[i + j] == sought;
        if (found)
            break;
    }
    while (i < n - 1 && !(unordered ? is_nan(x[i]) : x[i] == sought))
        i++;
    return i;
}

/* Whether one of n elements is true, or with `sought` 0 one is false. */
static int NAME(has)(const element *p, int64_t n, int sought)
{
    typedef whole __attribute__((may_alias)) any;
    enum { AT_ONCE = 64 };
    const any *x = (const any *)(const void *)p;
    const whole truth = (whole)(UINT64_MAX >> (64 - 8 * sizeof(element) + is_float)); /* -0 is false */
    int64_t i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        whole found = 0;
        for (int j = 0; j < AT_ONCE; j++)
            found |= (whole)(((x[i + j] & truth) != 0) == sought);
        if (found)
            return 1;
    }
    for (; i < n; i++)
        if (((x[i] & truth) != 0) == sought)
            return 1;
    return 0;
}

/* Result `at` of a row; 0 where it is not computed here. */
static int NAME(along)(const reduction *r, const void *p, int64_t at)
{
    const element *x = p;
    const int larger = r->opcode == REDUCE_max || r->opcode == REDUCE_argmax, any = r->opcode == REDUCE_any;
    int unordered;
    switch (r->opcode) {
    case REDUCE_max:
    case REDUCE_min: {
        const element found = NAME(extreme)(x, r->reduced, &unordered, larger);
        ((element *)r->y)[at] = unordered ? no_number : found;
        return 1;
    }
    case REDUCE_argmax:
    case REDUCE_argmin: {
        const element found = NAME(extreme)(x, r->reduced, &unordered, larger);
        ((int64_t *)r->y)[at] = NAME(place_of)(x, r->reduced, found, unordered);
        return 1;
    }
    case REDUCE_any:
    case REDUCE_all:
        ((uint8_t *)r->y)[at] = NAME(has)(x, r->reduced, any) == any;
        return 1;
#if defined(total)
    case REDUCE_sum: {
        int64_t sum = 0;
        for (int64_t k = 0; k < r->reduced; k += BLOCK) {
            const int64_t n = r->reduced - k < BLOCK ? r->reduced - k : BLOCK;
            total part = 0;
            for (int64_t i = 0; i < n; i++)
                part += x[k + i];
            sum += part;
        }
        ((int64_t *)r->y)[at] = sum;
        return 1;
    }
#endif
    default:
        return 0;
    }
}

/* Columns of dense rows: their sums, or the largest or smallest elements, `vectors` vectors of them at a time. */
INLINE void NAME(extreme_columns)(element *y, const element *x, int64_t rows, int64_t stride, const int vectors,
                                  const int larger)
{
    NAME(row) best[STRIP];
    NAME(mask) none[STRIP] = {{0}};
    for (int j = 0; j < vectors; j++)
        best[j] = NAME(row_at)(x + j * NAME(WIDTH));
    for (int64_t row = 0; row < rows; row++)
        for (int j = 0; j < vectors; j++) {
            const NAME(row) next = NAME(row_at)(x + row * stride + j * NAME(WIDTH));
            best[j] = NAME(better)(next, best[j], larger);
            none[j] |= NAME(no_numbers)(next);
        }
    const NAME(row) nothing = (NAME(row)){0} + no_number;
    for (int j = 0; j < vectors; j++)
        *(NAME(row) *)(y + j * NAME(WIDTH)) =
            (NAME(row))(((NAME(mask))best[j] & ~none[j]) | ((NAME(mask))nothing & none[j]));
}

static void NAME(across)(element *y, const element *x, int64_t rows, int64_t stride, int64_t n, int larger)
{
    int64_t i = 0;
    for (; i + STRIP * NAME(WIDTH) <= n; i += STRIP * NAME(WIDTH))
        if (larger)
            NAME(extreme_columns)(y + i, x + i, rows, stride, STRIP, 1);
        else
            NAME(extreme_columns)(y + i, x + i, rows, stride, STRIP, 0);
    while (i < n && n >= NAME(WIDTH)) {
        const int64_t at = i + NAME(WIDTH) <= n ? i : n - NAME(WIDTH); /* the last ones may be computed twice */
        if (larger)
            NAME(extreme_columns)(y + at, x + at, rows, stride, 1, 1);
        else
            NAME(extreme_columns)(y + at, x + at, rows, stride, 1, 0);
        i = at + NAME(WIDTH);
    }
    for (; i < n; i++) {
        element best = x[i]; /* not y[i], which the compiler would write for every row */
        int none = is_nan(best);
        for (int64_t row = 1; row < rows; row++) {
            const element next = x[row * stride + i];
            none |= is_nan(next);
            best = (larger ? next > best : next < best) ? next : best;
        }
        y[i] = none ? no_number : best;
    }
}

#if defined(adds) /* a column's elements are added in the order of the rows */
typedef adds NAME(sums) __attribute__((vector_size(4 * LANES)));

static void NAME(sums_across)(element *y, const element *x, int64_t rows, int64_t stride, int64_t n)
{
    int64_t i = 0;
    for (; i + STRIP * NAME(WIDTH) <= n; i += STRIP * NAME(WIDTH)) {
        NAME(sums) sums[STRIP] = {{0}};
        for (int64_t row = 0; row < rows; row++)
            for (int j = 0; j < STRIP; j++)
                sums[j] += (NAME(sums))NAME(row_at)(x + row * stride + i + j * NAME(WIDTH));
        memcpy(y + i, sums, sizeof sums);
    }
    for (; i < n; i++) {
        adds sum = 0;
        for (int64_t row = 0; row < rows; row++)
            sum += (adds)x[row * stride + i];
        y[i] = (element)sum;
    }
}
#endif

#undef no_number
#undef is_nan
#undef element
#undef whole
#undef is_float
#undef total
#undef adds
#undef NAME
