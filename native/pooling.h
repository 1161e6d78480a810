/* Windows of pools for one element type, included by pooling.c: real, NAME(f), get(p, i, type), put(p, i, x, type),
 * sum(p, i, n, type). */

/* Where the largest element of a window is: the first of equal ones, but the last NaN. */
INLINE int64_t NAME(largest)(const void *x, int64_t plane, const geometry *g, const span *s, int type)
{
    real most = -(real)INFINITE;
    int64_t found = plane + (s[0].first * g->size[1] + s[1].first) * g->size[2] + s[2].first;
    for (int64_t i = 0; i < s[0].count; i++)
        for (int64_t j = 0; j < s[1].count; j++) {
            const int64_t row =
                plane + ((s[0].first + i * s[0].step) * g->size[1] + s[1].first + j * s[1].step) * g->size[2];
            for (int64_t k = 0; k < s[2].count; k++) {
                const int64_t at = row + s[2].first + k * s[2].step;
                const real value = get(x, at, type);
                const int more = (value > most) | (value != value);
                most = more ? value : most;
                found = more ? at : found;
            }
        }
    return found;
}

COMPACT void NAME(max_window)(const window *w, const span *s, int type)
{
    const int exists = s[0].count && s[1].count && s[2].count;
    const int64_t found = exists ? NAME(largest)(w->x, w->plane, w->geometry, s, type) : w->plane - 1;
    if (w->grad_x && exists) {
        put(w->grad_x, found, get(w->grad_x, found, type) + get(w->grad_y, w->at, type), type);
    }
    if (w->y)
        put(w->y, w->at, exists ? get(w->x, found, type) : -(real)INFINITE, type);
    if (w->indices)
        w->indices[w->at] = found - w->plane;
}

COMPACT void NAME(mean_window)(const window *w, const span *s, int type)
{
    const geometry *g = w->geometry;
    const int64_t elements = w->counted ? s[0].all * s[1].all * s[2].all : s[0].count * s[1].count * s[2].count;
    const real divisor = (real)(w->divisor ? w->divisor : elements);
    const real share = w->grad_x ? get(w->grad_y, w->at, type) / divisor : 0;
    real total = 0;
    for (int64_t i = 0; i < s[0].count; i++)
        for (int64_t j = 0; j < s[1].count; j++) {
            const int64_t row = w->plane + ((s[0].first + i) * g->size[1] + s[1].first + j) * g->size[2] + s[2].first;
            if (!w->grad_x)
                total += sum(w->x, row, s[2].count, type);
            else
                for (int64_t k = 0; k < s[2].count; k++)
                    put(w->grad_x, row + k, get(w->grad_x, row + k, type) + share, type);
        }
    if (!w->grad_x)
        put(w->y, w->at, total / divisor, type);
}
