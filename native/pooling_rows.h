/* Windows of one element type that follow one another along the last dim; included by pooling.c: real, LEAST,
 * is_nan(x), NAME(f). */

static __attribute__((unused)) void NAME(mean_row)(const window *w, const span *s, int64_t at, int64_t n)
{
    const geometry *g = w->geometry;
    const real *x = (const real *)w->x + (w->x ? w->plane : 0);
    real *grad_x = (real *)w->grad_x + (w->grad_x ? w->plane : 0);
    const int64_t stride = g->stride[2];
    real total[BLOCK], divisor[BLOCK]; /* of gradients, `total` is what each element of a window gets */
    for (int64_t o = 0; o < n; o++) {
        const span last = span_of(g, 2, at + o);
        const int64_t elements = w->counted ? s[0].all * s[1].all * last.all : s[0].count * s[1].count * last.count;
        divisor[o] = (real)(w->divisor ? w->divisor : elements);
        total[o] = w->grad_x ? ((const real *)w->grad_y)[w->at + o] / divisor[o] : 0;
    }
    for (int64_t i = 0; i < s[0].count; i++)
        for (int64_t j = 0; j < s[1].count; j++)
            for (int64_t k = 0, row = row_of(w, s, i, j); k < g->kernel[2]; k++) {
                const column c = column_of(g, at, k, n);
                if (w->grad_x)
                    for (int64_t o = c.begin; o < c.end; o++)
                        grad_x[row + c.first + o * stride] += total[o];
                else
                    for (int64_t o = c.begin; o < c.end; o++)
                        total[o] += x[row + c.first + o * stride];
            }
    for (int64_t o = 0; o < n && w->y; o++)
        ((real *)w->y)[w->at + o] = total[o] / divisor[o];
}

#if !defined(__wasm__) /* where code must be short, max_planes does it */
/* Elements begin .. end - 1, `stride` apart. The largest so far stays where it is NaN. */
INLINE void NAME(keep_larger)(real *most, const real *x, int64_t begin, int64_t end, const int64_t stride)
{
    for (int64_t o = begin; o < end; o++) {
        const real value = x[o * stride];
        most[o] = ((value > most[o]) | is_nan(value)) ? value : most[o];
    }
}

/* The same, and where they are in the plane: the first at `place`, -1 so far for those without. */
INLINE void NAME(keep_places)(real *most, int64_t *places, const real *x, int64_t place, int64_t begin, int64_t end,
                              const int64_t stride)
{
    for (int64_t o = begin; o < end; o++) {
        const real value = x[o * stride];
        const int more = (value > most[o]) | is_nan(value) | (places[o] < 0);
        most[o] = more ? value : most[o];
        places[o] = more ? place + o * stride : places[o];
    }
}

static __attribute__((unused)) void NAME(max_row)(const window *w, const span *s, int64_t at, int64_t n)
{
    const geometry *g = w->geometry;
    const real *x = (const real *)w->x + w->plane;
    const int64_t stride = g->stride[2];
    real most[BLOCK];
    int64_t places[BLOCK];
    for (int64_t o = 0; o < n; o++) {
        most[o] = LEAST;
        places[o] = -1;
    }
    for (int64_t i = 0; i < s[0].count; i++)
        for (int64_t j = 0; j < s[1].count; j++)
            for (int64_t k = 0, row = row_of(w, s, i, j); k < g->kernel[2]; k++) {
                const column c = column_of(g, at, k, n);
                const real *from = x + row + c.first;
                if (w->indices || w->grad_x)
                    NAME(keep_places)(most, places, from, row + c.first, c.begin, c.end, stride);
                else if (stride == 1)
                    NAME(keep_larger)(most, from, c.begin, c.end, 1);
                else if (stride == 2)
                    NAME(keep_larger)(most, from, c.begin, c.end, 2);
                else
                    NAME(keep_larger)(most, from, c.begin, c.end, stride);
            }
    if (w->y)
        memcpy((real *)w->y + w->at, most, (size_t)n * sizeof *most);
    if (w->indices)
        memcpy(w->indices + w->at, places, (size_t)n * sizeof *places);
    for (int64_t o = 0; o < n && w->grad_x; o++)
        if (places[o] >= 0)
            ((real *)w->grad_x)[w->plane + places[o]] += ((const real *)w->grad_y)[w->at + o];
}
#endif

#undef real
#undef LEAST
#undef is_nan
#undef NAME
