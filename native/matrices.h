/* Factors of one matrix, and a triangular system, for one type. The including file defines NUMBER (the type), REGISTER and
 * WIDTH (a vector of it), ROOT and EPSILON. Matrices lie row by row; `pitch` is where the next row begins. */
#define subtract_product JOIN(subtract_product, NUMBER)
#define cholesky_of JOIN(cholesky_of, NUMBER)
#define eliminate_panel JOIN(eliminate_panel, NUMBER)
#define lu_of JOIN(lu_of, NUMBER)
#define solve_of JOIN(solve_of, NUMBER)
#define reflector_of JOIN(reflector_of, NUMBER)
#define reflect JOIN(reflect, NUMBER)
#define qr_of JOIN(qr_of, NUMBER)
#define add_scaled JOIN(add_scaled, NUMBER)
#define dot_of JOIN(dot_of, NUMBER)
#define rotate JOIN(rotate, NUMBER)
#define is_finite JOIN(is_finite, NUMBER)
#define tridiagonal_of JOIN(tridiagonal_of, NUMBER)
#define diagonalise JOIN(diagonalise, NUMBER)
#define eigh_of JOIN(eigh_of, NUMBER)
#define complete_columns JOIN(complete_columns, NUMBER)
#define svd_of JOIN(svd_of, NUMBER)

/* y += factor x */
INLINE void add_scaled(NUMBER *y, const NUMBER *x, NUMBER factor, int64_t count)
{
    int64_t i = 0;
    for (; i + WIDTH <= count; i += WIDTH)
        *(REGISTER *)(y + i) += *(const REGISTER *)(x + i) * factor;
    for (; i < count; i++)
        y[i] += factor * x[i];
}

INLINE NUMBER dot_of(const NUMBER *x, const NUMBER *y, int64_t count)
{
    REGISTER sums = {0};
    NUMBER sum = 0;
    int64_t i = 0;
    for (; i + WIDTH <= count; i += WIDTH)
        sums += *(const REGISTER *)(x + i) * *(const REGISTER *)(y + i);
    for (; i < count; i++)
        sum += x[i] * y[i];
    for (int lane = 0; lane < WIDTH; lane++)
        sum += sums[lane];
    return sum;
}

/* (x, y) = (cosine x - sine y, sine x + cosine y) */
INLINE void rotate(NUMBER *x, NUMBER *y, NUMBER cosine, NUMBER sine, int64_t count)
{
    int64_t i = 0;
    for (; i + WIDTH <= count; i += WIDTH) {
        const REGISTER a = *(REGISTER *)(x + i), b = *(REGISTER *)(y + i);
        *(REGISTER *)(x + i) = a * cosine - b * sine;
        *(REGISTER *)(y + i) = a * sine + b * cosine;
    }
    for (; i < count; i++) {
        const NUMBER a = x[i], b = y[i];
        x[i] = a * cosine - b * sine;
        y[i] = a * sine + b * cosine;
    }
}

INLINE int is_finite(const NUMBER *x, int64_t count)
{
    NUMBER sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * 0;
    return sum == 0;
}

/* y (rows, columns) -= a (rows, inner) b (inner, columns); a has any strides. */
static void subtract_product(NUMBER *y, int64_t y_pitch, const NUMBER *a, int64_t a_row, int64_t a_column,
                             const NUMBER *b, int64_t b_pitch, int64_t rows, int64_t columns, int64_t inner)
{
    enum { HEIGHT = 4 };
    int64_t j = 0;
    for (; j + 2 * WIDTH <= columns; j += 2 * WIDTH) {
        int64_t i = 0;
        for (; i + HEIGHT <= rows; i += HEIGHT) {
            REGISTER sums[HEIGHT][2];
            UNROLL
            for (int r = 0; r < HEIGHT; r++)
                for (int half = 0; half < 2; half++)
                    sums[r][half] = *(REGISTER *)(y + (i + r) * y_pitch + j + half * WIDTH);
            for (int64_t k = 0; k < inner; k++) {
                const NUMBER *const own = b + k * b_pitch + j;
                const REGISTER first = *(const REGISTER *)own, second = *(const REGISTER *)(own + WIDTH);
                UNROLL
                for (int r = 0; r < HEIGHT; r++) {
                    const NUMBER factor = a[(i + r) * a_row + k * a_column];
                    sums[r][0] -= first * factor;
                    sums[r][1] -= second * factor;
                }
            }
            UNROLL
            for (int r = 0; r < HEIGHT; r++)
                for (int half = 0; half < 2; half++)
                    *(REGISTER *)(y + (i + r) * y_pitch + j + half * WIDTH) = sums[r][half];
        }
        for (; i < rows; i++)
            for (int64_t k = 0; k < inner; k++)
                add_scaled(y + i * y_pitch + j, b + k * b_pitch + j, -a[i * a_row + k * a_column], 2 * WIDTH);
    }
    if (j < columns)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < inner; k++)
                add_scaled(y + i * y_pitch + j, b + k * b_pitch + j, -a[i * a_row + k * a_column], columns - j);
}

/* By rows of L^T, which are contiguous: each is finished, and its products are taken from those behind it. */
static int cholesky_of(NUMBER *y, const NUMBER *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++)
            y[i * n + j] = x[j * n + i];
    for (int64_t k = 0; k < n; k++) {
        NUMBER *const own = y + k * n;
        if (!(own[k] > 0))
            return KERNEL_NOT_POSITIVE;
        const NUMBER root = ROOT(own[k]);
        for (int64_t j = k; j < n; j++)
            own[j] /= root;
        for (int64_t i = k + 1; i < n; i++)
            add_scaled(y + i * n + i, own + i, -own[i], n - i);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            y[j * n + i] = y[i * n + j];
            y[i * n + j] = 0;
        }
    return KERNEL_OK;
}

/* Columns begin .. end - 1 from row `begin` on. Exchanges concern whole rows. */
static void eliminate_panel(NUMBER *y, int32_t *exchanges, int32_t *order, int64_t rows, int64_t columns, int64_t begin,
                            int64_t end)
{
    for (int64_t k = begin; k < end && k < rows; k++) {
        NUMBER *const own = y + k * columns;
        if (exchanges) {
            int64_t best = k;
            NUMBER most = own[k] < 0 ? -own[k] : own[k];
            for (int64_t i = k + 1; i < rows; i++) {
                const NUMBER found = y[i * columns + k], size = found < 0 ? -found : found;
                if (size > most || (size != size && most == most)) {
                    most = size;
                    best = i;
                }
            }
            exchanges[k] = (int32_t)best;
            if (best != k) {
                NUMBER *const other = y + best * columns;
                const int32_t place = order[k];
                for (int64_t j = 0; j < columns; j++) {
                    const NUMBER kept = own[j];
                    own[j] = other[j];
                    other[j] = kept;
                }
                order[k] = order[best];
                order[best] = place;
            }
        }
        for (int64_t i = k + 1; i < rows; i++) {
            NUMBER *const row = y + i * columns;
            if (own[k] != 0)
                row[k] /= own[k];
            add_scaled(row + k + 1, own + k + 1, -row[k], end - k - 1);
        }
    }
}

enum { JOIN(PANEL, NUMBER) = 32 };

static void lu_of(NUMBER *y, int32_t *exchanges, int32_t *order, int64_t rows, int64_t columns, int64_t begin,
                  int64_t end)
{
    for (int64_t start = begin; start < end; start += JOIN(PANEL, NUMBER)) {
        const int64_t stop = start + JOIN(PANEL, NUMBER) < end ? start + JOIN(PANEL, NUMBER) : end;
        const int64_t last = stop < rows ? stop : rows; /* rows of U that the panel finishes */
        eliminate_panel(y, exchanges, order, rows, columns, start, stop);
        for (int64_t k = start + 1; k < last && stop < columns; k++)
            for (int64_t j = start; j < k; j++)
                add_scaled(y + k * columns + stop, y + j * columns + stop, -y[k * columns + j], columns - stop);
        if (last < rows && stop < columns)
            subtract_product(y + last * columns + stop, columns, y + last * columns + start, columns, 1,
                             y + start * columns + stop, columns, rows - last, columns - stop, last - start);
    }
}

/* Rows begin .. end - 1 of y with a y = y, less what the rows make of those that are left. */
static int solve_of(NUMBER *y, int64_t pitch, const NUMBER *a, int64_t a_row, int64_t a_column, int64_t n,
                    int64_t columns, int upper, int unit, int64_t begin, int64_t end)
{
    enum { TOGETHER = 32 };
    for (int64_t done = 0; done < end - begin; done += TOGETHER) {
        const int64_t left = end - begin - done, count = left < TOGETHER ? left : TOGETHER;
        const int64_t first = upper ? end - done - count : begin + done, last = first + count;
        for (int64_t step = 0; step < count; step++) {
            const int64_t i = upper ? last - 1 - step : first + step;
            NUMBER *const own = y + i * pitch;
            for (int64_t k = upper ? i + 1 : first; k < (upper ? last : i); k++)
                add_scaled(own, y + k * pitch, -a[i * a_row + k * a_column], columns);
            if (unit != 1) {
                const NUMBER pivot = a[i * a_row + i * a_column];
                if (pivot == 0 && !unit)
                    return KERNEL_SINGULAR;
                for (int64_t j = 0; j < columns; j++)
                    own[j] /= pivot;
            }
        }
        const int64_t rest = upper ? 0 : last, rows = upper ? first : n - last;
        if (rows > 0)
            subtract_product(y + rest * pitch, pitch, a + rest * a_row + first * a_column, a_row, a_column,
                             y + first * pitch, pitch, rows, columns, count);
    }
    return KERNEL_OK;
}

/* The vector (1, x / (first - result)) and the factor of a reflector that turns (first, x) to (result, 0): x has `count`
 * elements, `step` apart. Returns result. */
INLINE NUMBER reflector_of(NUMBER first, NUMBER *x, int64_t step, int64_t count, NUMBER *tau)
{
    NUMBER most = first < 0 ? -first : first, rest = 0;
    for (int64_t i = 0; i < count; i++) {
        const NUMBER size = x[i * step] < 0 ? -x[i * step] : x[i * step];
        rest = size > rest || size != size ? size : rest;
    }
    *tau = 0;
    if (rest == 0)
        return first;
    most = rest > most ? rest : most;
    NUMBER sum = (first / most) * (first / most); /* of numbers up to 1: no square is too large */
    for (int64_t i = 0; i < count; i++)
        sum += (x[i * step] / most) * (x[i * step] / most);
    const NUMBER size = most * ROOT(sum), result = first < 0 ? size : -size;
    *tau = (result - first) / result;
    for (int64_t i = 0; i < count; i++)
        x[i * step] /= first - result;
    return result;
}

/* y (1 + count, columns) -= tau v (v^T y), where v is 1 and then x, `step` apart. */
INLINE void reflect(NUMBER *y, int64_t pitch, const NUMBER *x, int64_t step, int64_t count, NUMBER tau, int64_t columns)
{
    enum { TOGETHER = 64 };
    for (int64_t at = 0; at < columns; at += TOGETHER) {
        const int64_t wide = columns - at < TOGETHER ? columns - at : TOGETHER;
        NUMBER products[TOGETHER];
        for (int64_t j = 0; j < wide; j++)
            products[j] = y[at + j];
        for (int64_t i = 0; i < count; i++)
            add_scaled(products, y + (i + 1) * pitch + at, x[i * step], wide);
        add_scaled(y + at, products, -tau, wide);
        for (int64_t i = 0; i < count; i++)
            add_scaled(y + (i + 1) * pitch + at, products, -tau * x[i * step], wide);
    }
}

static void qr_of(NUMBER *y, const NUMBER *x, NUMBER *taus, int64_t rows, int64_t columns)
{
    NUMBER *const upper = y + rows * columns;
    memcpy(y, x, sizeof(NUMBER) * (size_t)(rows * columns));
    for (int64_t k = 0; k < columns; k++) {
        NUMBER *const own = y + k * columns + k;
        own[0] = reflector_of(own[0], own + columns, columns, rows - k - 1, taus + k);
        if (taus[k] != 0 && k + 1 < columns)
            reflect(own + 1, columns, own + columns, columns, rows - k - 1, taus[k], columns - k - 1);
    }
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = 0; j < columns; j++)
            upper[i * columns + j] = j < i ? 0 : y[i * columns + j];
    for (int64_t k = columns - 1; k >= 0; k--) { /* Q, from its last column on; above the diagonal it is 0 until then */
        NUMBER *const own = y + k * columns + k;
        for (int64_t j = 1; j < columns - k; j++)
            own[j] = 0;
        if (k + 1 < columns)
            reflect(own + 1, columns, own + columns, columns, rows - k - 1, taus[k], columns - k - 1);
        own[0] = 1 - taus[k];
        for (int64_t i = 1; i < rows - k; i++)
            own[i * columns] *= -taus[k];
    }
}

/* Q^T T Q of symmetric a (n, n) with tridiagonal T: its diagonal, what lies beside it, and Q in a (Golub and Van Loan,
 * 8.3.1). */
static void tridiagonal_of(NUMBER *a, double *diagonal, double *beside, int64_t n)
{
    NUMBER taus[MOST_ROWS], products[MOST_ROWS];
    for (int64_t k = 0; k + 2 < n; k++) {
        NUMBER *const x = a + k * n + k + 2; /* of row k, which is column k; it keeps the reflector */
        const int64_t count = n - k - 2;
        const NUMBER result = reflector_of(x[-1], x, 1, count, taus + k);
        NUMBER *const rest = a + (k + 1) * n + k + 1;
        beside[k] = (double)result;
        x[-1] = 1;
        if (taus[k] == 0)
            continue;
        const NUMBER *const v = x - 1;
        for (int64_t j = 0; j <= count; j++)
            products[j] = 0;
        for (int64_t i = 0; i <= count; i++)
            add_scaled(products, rest + i * n, taus[k] * v[i], count + 1);
        const NUMBER half = taus[k] * dot_of(products, v, count + 1) / 2;
        add_scaled(products, v, -half, count + 1);
        for (int64_t i = 0; i <= count; i++) {
            add_scaled(rest + i * n, products, -v[i], count + 1);
            add_scaled(rest + i * n, v, -products[i], count + 1);
        }
    }
    for (int64_t i = 0; i < n; i++)
        diagonal[i] = (double)a[i * n + i];
    if (n > 1)
        beside[n - 2] = (double)a[(n - 2) * n + n - 1];
    for (int64_t k = n - 1; k >= 0; k--) { /* the rows below and right of k are those of Q already */
        NUMBER *const rest = a + k * n + k;
        const NUMBER *const above = k ? a + (k - 1) * n + k : NULL; /* the reflector of row k - 1 */
        for (int64_t i = 1; i < n - k; i++)
            rest[i] = rest[i * n] = 0;
        rest[0] = 1;
        if (above && k + 1 < n && taus[k - 1] != 0)
            reflect(rest, n, above + 1, 1, n - k - 1, taus[k - 1], n - k);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            const NUMBER kept = a[i * n + j];
            a[i * n + j] = a[j * n + i];
            a[j * n + i] = kept;
        }
}

/* The QL method with implicit shifts (Dubrulle, Martin and Wilkinson 1968): the diagonal becomes the eigenvalues, and the rows
 * of `vectors` are turned with it. 0 where it does not end. */
static int diagonalise(double *diagonal, double *beside, NUMBER *vectors, int64_t n)
{
    beside[n - 1] = 0;
    for (int64_t first = 0; first < n; first++) {
        for (int turn = 0;; turn++) {
            int64_t last = first, i;
            for (; last < n - 1; last++) {
                const double size = __builtin_fabs(diagonal[last]) + __builtin_fabs(diagonal[last + 1]);
                if (__builtin_fabs(beside[last]) <= EPSILON * size)
                    break;
            }
            if (last == first)
                break;
            if (turn == 60)
                return 0;
            double g = (diagonal[first + 1] - diagonal[first]) / (2 * beside[first]);
            double r = __builtin_sqrt(g * g + 1), sine = 1, cosine = 1, p = 0;
            g = diagonal[last] - diagonal[first] + beside[first] / (g + (g < 0 ? -r : r));
            for (i = last - 1; i >= first; i--) {
                const double f = sine * beside[i], b = cosine * beside[i];
                r = beside[i + 1] = __builtin_sqrt(f * f + g * g);
                if (r == 0) {
                    diagonal[i + 1] -= p;
                    beside[last] = 0;
                    break;
                }
                sine = f / r;
                cosine = g / r;
                g = diagonal[i + 1] - p;
                r = (diagonal[i] - g) * sine + 2 * cosine * b;
                p = sine * r;
                diagonal[i + 1] = g + p;
                g = cosine * r - b;
                rotate(vectors + i * n, vectors + (i + 1) * n, (NUMBER)cosine, (NUMBER)sine, n);
            }
            if (r == 0 && i >= first)
                continue;
            diagonal[first] -= p;
            beside[first] = g;
            beside[last] = 0;
        }
    }
    return 1;
}

static void eigh_of(NUMBER *y, const NUMBER *x, NUMBER *vectors, int64_t n)
{
    double diagonal[MOST_ROWS], beside[MOST_ROWS];
    NUMBER most = 0;
    if (!is_finite(x, n * n)) {
        for (int64_t i = 0; i < (n + 1) * n; i++)
            y[i] = (NUMBER)__builtin_nan("");
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const NUMBER size = x[i * n + j] < 0 ? -x[i * n + j] : x[i * n + j];
            most = size > most ? size : most;
        }
    const NUMBER scale = most > 0 ? most : 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            vectors[i * n + j] = vectors[j * n + i] = x[i * n + j] / scale;
    tridiagonal_of(vectors, diagonal, beside, n);
    if (!diagonalise(diagonal, beside, vectors, n)) {
        for (int64_t i = 0; i < (n + 1) * n; i++)
            y[i] = (NUMBER)__builtin_nan("");
        return;
    }
    for (int64_t place = 0; place < n; place++) {
        int64_t least = place;
        for (int64_t j = place + 1; j < n; j++)
            least = diagonal[j] < diagonal[least] ? j : least;
        const double value = diagonal[least];
        if (least != place) {
            diagonal[least] = diagonal[place];
            for (int64_t i = 0; i < n; i++) {
                const NUMBER kept = vectors[place * n + i];
                vectors[place * n + i] = vectors[least * n + i];
                vectors[least * n + i] = kept;
            }
        }
        y[place] = (NUMBER)(value * (double)scale);
        for (int64_t i = 0; i < n; i++)
            y[(i + 1) * n + place] = vectors[place * n + i];
    }
}

/* Rows known .. n - 1 of orthonormal rows (n, n): of the unit vectors, those that the rows before them are farthest from. */
static void complete_columns(NUMBER *rows, int64_t known, int64_t n)
{
    for (int64_t k = known; k < n; k++) {
        NUMBER *const own = rows + k * n;
        int64_t best = 0;
        NUMBER least = 2;
        for (int64_t i = 0; i < n; i++) {
            NUMBER size = 0; /* of the unit vector's part among the rows */
            for (int64_t j = 0; j < k; j++)
                size += rows[j * n + i] * rows[j * n + i];
            if (size < least) {
                least = size;
                best = i;
            }
        }
        for (int64_t i = 0; i < n; i++)
            own[i] = i == best;
        for (int turn = 0; turn < 2; turn++)
            for (int64_t j = 0; j < k; j++)
                add_scaled(own, rows + j * n, -dot_of(own, rows + j * n, n), n);
        const NUMBER length = ROOT(dot_of(own, own, n));
        for (int64_t i = 0; i < n; i++)
            own[i] /= length;
    }
}

/* Jacobi's rotations of pairs of columns, which lie as rows (Golub and Van Loan, 8.6.3). */
static void svd_of(NUMBER *y, const NUMBER *x, NUMBER *columns, int64_t n, int with_vectors)
{
    NUMBER values[MOST_ROWS], turned[MOST_ROWS * MOST_ROWS];
    int64_t order[MOST_ROWS], known = 0;
    const int64_t size = with_vectors ? (2 * n + 1) * n : n;
    NUMBER most = 0;
    if (!is_finite(x, n * n)) {
        for (int64_t i = 0; i < size; i++)
            y[i] = (NUMBER)__builtin_nan("");
        return;
    }
    for (int64_t i = 0; i < n * n; i++)
        most = x[i] > most ? x[i] : -x[i] > most ? -x[i] : most;
    const NUMBER scale = most > 0 ? most : 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            columns[j * n + i] = x[i * n + j] / scale;
            turned[i * n + j] = i == j;
        }
    for (int turn = 0, left = 1; left && turn < 60; turn++) {
        left = 0;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                NUMBER *const a = columns + p * n, *const b = columns + q * n;
                const double first = (double)dot_of(a, a, n), second = (double)dot_of(b, b, n);
                const double both = (double)dot_of(a, b, n);
                if (!(__builtin_fabs(both) > 4 * EPSILON * __builtin_sqrt(first * second)))
                    continue;
                const double ratio = (second - first) / (2 * both), length = __builtin_sqrt(ratio * ratio + 1);
                const double tangent = (ratio < 0 ? -1 : 1) / (__builtin_fabs(ratio) + length);
                const double cosine = 1 / __builtin_sqrt(1 + tangent * tangent), sine = cosine * tangent;
                left = 1;
                rotate(a, b, (NUMBER)cosine, (NUMBER)sine, n);
                rotate(turned + p * n, turned + q * n, (NUMBER)cosine, (NUMBER)sine, with_vectors ? n : 0);
            }
    }
    for (int64_t j = 0; j < n; j++) {
        values[j] = ROOT(dot_of(columns + j * n, columns + j * n, n));
        int64_t place = j;
        for (; place > 0 && values[order[place - 1]] < values[j]; place--)
            order[place] = order[place - 1];
        order[place] = j;
    }
    NUMBER *const sizes = with_vectors ? y + n * n : y;
    for (int64_t j = 0; j < n; j++)
        sizes[j] = values[order[j]] * scale;
    if (!with_vectors)
        return;
    NUMBER *const right = sizes + n;
    NUMBER left_rows[MOST_ROWS * MOST_ROWS];
    for (int64_t j = 0; j < n; j++) {
        const int64_t own = order[j];
        if (values[own] > 0) {
            for (int64_t i = 0; i < n; i++)
                left_rows[j * n + i] = columns[own * n + i] / values[own];
            known = j + 1;
        }
        for (int64_t i = 0; i < n; i++)
            right[i * n + j] = turned[own * n + i];
    }
    complete_columns(left_rows, known, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * n + j] = left_rows[j * n + i];
}

#undef subtract_product
#undef cholesky_of
#undef eliminate_panel
#undef lu_of
#undef solve_of
#undef reflector_of
#undef reflect
#undef qr_of
#undef add_scaled
#undef dot_of
#undef rotate
#undef is_finite
#undef tridiagonal_of
#undef diagonalise
#undef eigh_of
#undef complete_columns
#undef svd_of
#undef NUMBER
#undef REGISTER
#undef WIDTH
#undef ROOT
#undef EPSILON
