/* Factors of matrices, and triangular systems. A block has a matrix, or 32 right-hand sides of one; larger matrices are
 * factored into L and U by all blocks.
 *
 * Golub and Van Loan 2013, "Matrix Computations", 4th edition: 3.1 (triangular systems), 3.2 and 3.4 (LU, and its exchanges of
 * rows), 4.2 (Cholesky), 5.1 and 5.2 (Householder's reflectors and QR), 8.5 and 8.6 (Jacobi's rotations). Cholesky and LU go by
 * panels of a few columns, which lie in shared memory while they are factored, so that each element of the rest is read and
 * written once for a panel and not once for a column. Every sum has one order. */
#include "gpu.h"

#define MOST_ROWS 512 /* of a panel in shared memory: what cards of sm_75 have without asking for more */
#define ROW_BYTES                                                                                                      \
    72           /* of a panel's row: 17 floats or 9 doubles, so that threads with rows of their own meet in no bank */
#define SIDES 32 /* right-hand sides of a block */
#define STEP_ROWS 32 /* rows of a triangular system that are solved at a time: a lane has one */

template <class T> struct panel_of {
    enum { WIDTH = sizeof(T) == 8 ? 8 : 16, PITCH = WIDTH + 1 };
};

DEVICE float root_of(float x) { return sqrtf(x); }
DEVICE double root_of(double x) { return sqrt(x); }
DEVICE float size_of(float x) { return fabsf(x); }
DEVICE double size_of(double x) { return fabs(x); }

/* Columns first .. first + width - 1 of y (?, columns), from row `first` on. */
template <class T> DEVICE void load_panel(T *panel, const T *y, int64_t columns, int64_t first, int height, int width)
{
    FOR_THREADS(i, height * width)
    panel[i / width * panel_of<T>::PITCH + i % width] = y[(first + i / width) * columns + first + i % width];
}

/* What is right of and below a panel, y[i][c] for i and c of first + width and more (c below `end`), less the panel, whose
 * rows begin `pitch` apart, times the rows beside it: lanes have columns, warps rows. above(u, c) gives the column c of these
 * rows. `lower`: only where i >= c. */
template <class T, class Above>
DEVICE void subtract_product(T *y, const T *panel, int64_t pitch, int64_t rows, int64_t columns, int64_t end,
                             int64_t first, int width, bool lower, Above above)
{
    const int64_t begin = first + width;
    for (int64_t tile = begin; tile < end; tile += 32) {
        const int64_t c = tile + LANE;
        T u[panel_of<T>::WIDTH];
        if (c >= end)
            continue;
        above(u, c);
        for (int64_t i = (lower ? tile : begin) + WARP; i < rows; i += WARPS) {
            const T *const own = panel + (i - first) * pitch;
            T sum = 0;
            if (lower && i < c)
                continue;
#pragma unroll
            for (int j = 0; j < panel_of<T>::WIDTH; j++)
                if (j < width)
                    sum += own[j] * u[j];
            y[i * columns + c] -= sum;
        }
    }
}

/* ---- Cholesky: columns of a panel one after the other, each less the products of those before it. */

template <class T> DEVICE void cholesky_of(const launch &record, int32_t *status, T *panel)
{
    constexpr int WIDTH = panel_of<T>::WIDTH, PITCH = panel_of<T>::PITCH;
    __shared__ T roots[WIDTH];
    const int64_t n = record.dims[cholesky_n];
    FOR_EACH_BLOCK(matrix, record.dims[cholesky_batch])
    {
        T *const y = (T *)record.pointers[cholesky_y] + matrix * n * n;
        const T *const x = (const T *)record.pointers[cholesky_x] + matrix * n * n;
        FOR_THREADS(i, n * n)
        y[i] = i % n <= i / n ? x[i] : 0;
        __syncthreads();
        for (int64_t first = 0; first < n; first += WIDTH) {
            const int width = (int)MIN(WIDTH, n - first), height = (int)(n - first);
            load_panel(panel, y, n, first, height, width);
            __syncthreads();
            for (int j = 0; j < width; j++) { /* panel[j][j] stays as it is: others read it */
                const T *const across = panel + j * PITCH;
                T pivot = across[j];
                for (int t = 0; t < j; t++)
                    pivot -= across[t] * across[t];
                const T root = root_of(pivot);
                for (int i = j + 1 + (int)threadIdx.x; i < height; i += blockDim.x) {
                    T *const own = panel + i * PITCH, value = own[j];
                    for (int t = 0; t < j; t++)
                        value -= own[t] * across[t];
                    own[j] = value / root;
                }
                if (threadIdx.x == 0) {
                    roots[j] = root;
                    if (!(pivot > 0))
                        report(KERNEL_NOT_POSITIVE);
                }
                __syncthreads();
            }
            FOR_THREADS(i, height * width)
            {
                const int row = (int)(i / width), column = (int)(i % width);
                if (column <= row)
                    y[(first + row) * n + first + column] = column == row ? roots[row] : panel[row * PITCH + column];
            }
            subtract_product(y, panel, PITCH, n, n, n, first, width, true, [=](T *u, int64_t c) {
#pragma unroll
                for (int j = 0; j < WIDTH; j++)
                    if (j < width)
                        u[j] = panel[(c - first) * PITCH + j];
            });
            __syncthreads();
        }
    }
}

KERNEL(cholesky, batch, 256, MIN(n, MOST_ROWS) * ROW_BYTES)
{
    DYNAMIC_SHARED(unsigned char, panel);
    const int64_t *d = record.dims;
    if (d[cholesky_n] < 0 || d[cholesky_n] > MOST_ROWS)
        return report(KERNEL_BAD_ARGUMENT);
    if (d[cholesky_type] == TYPE_float32)
        cholesky_of<float>(record, status, (float *)panel);
    else if (d[cholesky_type] == TYPE_float64)
        cholesky_of<double>(record, status, (double *)panel);
    else
        report(KERNEL_BAD_ARGUMENT);
}

/* ---- LU: of each column the element of the largest size, the first of them, is the pivot. One block has a matrix, or
 * PANEL columns of a larger one; then the columns beside these are exchanged alike, and the rest is reduced, by all blocks.
 * A panel of at most MOST_ROWS rows lies in shared memory while its columns are eliminated, a higher one where it is. */

#define PANEL 64 /* columns of one launch */

/* The element of the largest size that was met, and its row; of equal ones the first. */
template <class T> struct largest {
    T size;
    int row;
    DEVICE_MEMBER void meet(T other, int at)
    {
        if (other > size || (other == size && at < row))
            size = other, row = at;
    }
};

/* That of all lanes. */
template <class T> DEVICE largest<T> largest_of_warp(largest<T> own)
{
    for (int apart = 16; apart; apart >>= 1) {
        const T other = __shfl_xor_sync(EVERY_LANE, own.size, apart);
        own.meet(other, __shfl_xor_sync(EVERY_LANE, own.row, apart));
    }
    return own;
}

template <class T> DEVICE void exchange(T *a, T *b)
{
    const T kept = *a;
    *a = *b;
    *b = kept;
}

/* Eliminates the `width` columns of a panel, whose rows begin `pitch` apart and which all threads have written. A thread has
 * rows of its own, and notes the largest element in the next column. chosen[j]: the row that row j was exchanged with. */
template <class T> DEVICE void eliminate(T *panel, int64_t pitch, int height, int width, bool exchanged, int *chosen)
{
    constexpr int WIDTH = panel_of<T>::WIDTH;
    __shared__ T sizes[32];
    __shared__ int rows[32];
    largest<T> found = {-1, 0};
    if (exchanged)
        FOR_THREADS(i, height)
    found.meet(size_of(panel[i * pitch]), (int)i);
    for (int j = 0; j < width; j++) {
        T *const across = panel + j * pitch;
        if (exchanged) {
            found = largest_of_warp(found);
            if (LANE == 0)
                sizes[WARP] = found.size, rows[WARP] = found.row;
            __syncthreads();
        }
        if (WARP == 0) {
            int best = j;
            if (exchanged) {
                const bool has = LANE < WARPS;
                best = largest_of_warp(largest<T>{has ? sizes[LANE] : -1, has ? rows[LANE] : j}).row;
            }
            if (best != j && LANE < width)
                exchange(across + LANE, panel + best * pitch + LANE);
            if (LANE == 0)
                chosen[j] = best;
        }
        __syncthreads();
        const T pivot = across[j];
        T above[WIDTH];
#pragma unroll
        for (int c = 0; c < WIDTH; c++)
            above[c] = c > j && c < width ? across[c] : 0;
        found = largest<T>{-1, j + 1};
        for (int i = j + 1 + (int)threadIdx.x; i < height; i += blockDim.x) {
            T *const own = panel + i * pitch;
            const T factor = pivot != 0 ? own[j] / pivot : exchanged ? own[j] : 0;
            T values[WIDTH]; /* all are read before one is written, or each would wait for the one before */
#pragma unroll
            for (int c = 0; c < WIDTH; c++)
                values[c] = c > j && c < width ? own[c] - factor * above[c] : 0;
            own[j] = factor;
#pragma unroll
            for (int c = 0; c < WIDTH; c++)
                if (c > j && c < width) {
                    own[c] = values[c];
                    if (c == j + 1)
                        found.meet(size_of(values[c]), i);
                }
        }
    }
    __syncthreads();
}

/* Solves for the first `width` of u with a unit lower triangle, whose rows begin `pitch` apart. */
template <class T> DEVICE void solve_unit(T *u, const T *lower, int64_t pitch, int width)
{
#pragma unroll
    for (int j = 1; j < panel_of<T>::WIDTH; j++) {
        lower += pitch;
#pragma unroll
        for (int t = 0; t < j; t++)
            if (j < width)
                u[j] -= lower[t] * u[t];
    }
}

/* The columns begin .. end - 1, WIDTH at a time: a panel lies in `shared`, or stays in y. One block has a matrix. */
template <class T, bool IN_SHARED> DEVICE void lu_of(const launch &record, T *shared)
{
    constexpr int WIDTH = panel_of<T>::WIDTH;
    __shared__ int chosen[WIDTH];
    const int64_t *const d = record.dims, rows = d[lu_factor_rows], columns = d[lu_factor_columns];
    const int64_t begin = d[lu_factor_begin], end = d[lu_factor_end], pivots = MIN(rows, columns);
    const bool exchanged = record.pointers[lu_factor_exchanges] != 0;
    FOR_EACH_BLOCK(matrix, d[lu_factor_batch])
    {
        T *const y = (T *)record.pointers[lu_factor_y] + matrix * rows * columns;
        const T *const x = (const T *)record.pointers[lu_factor_x] + matrix * rows * columns;
        int32_t *const exchanges = exchanged ? (int32_t *)record.pointers[lu_factor_exchanges] + matrix * pivots : 0;
        int32_t *const order = exchanged ? (int32_t *)record.pointers[lu_factor_order] + matrix * rows : 0;
        if (record.pointers[lu_factor_x])
            FOR_THREADS(i, rows * columns)
        y[i] = x[i];
        if (exchanged && begin == 0)
            FOR_THREADS(i, rows)
        order[i] = (int32_t)i;
        __syncthreads();
        for (int64_t first = begin; first < MIN(end, pivots); first += WIDTH) {
            const int width = (int)MIN(WIDTH, MIN(end, pivots) - first), height = (int)(rows - first);
            const int64_t behind = first + width, pitch = IN_SHARED ? panel_of<T>::PITCH : columns;
            T *const panel = IN_SHARED ? shared : y + first * columns + first;
            if (IN_SHARED) {
                load_panel(panel, y, columns, first, height, width);
                __syncthreads();
            }
            eliminate(panel, pitch, height, width, exchanged, chosen);
            if (IN_SHARED)
                FOR_THREADS(i, height * width)
            y[(first + i / width) * columns + first + i % width] = panel[i / width * pitch + i % width];
            /* The last thread has no column of those beside the panel, if they are few. */
            if (exchanged && threadIdx.x == blockDim.x - 1)
#pragma unroll 1 /* else registers are spilled */
                for (int j = 0; j < width; j++) {
                    exchanges[first + j] = (int32_t)(first + chosen[j]);
                    exchange(order + first + j, order + first + chosen[j]);
                }
            FOR_THREADS(i, end - begin - width) /* the columns beside the panel; those behind it become rows of U */
            {
                const int64_t c = begin + i < first ? begin + i : begin + i + width;
                T *own = y + first * columns + c, u[WIDTH];
#pragma unroll 1 /* as above */
                for (int j = 0; j < width; j++)
                    if (chosen[j] != j)
                        exchange(own + j * columns, own + chosen[j] * columns);
                if (c < behind)
                    continue;
#pragma unroll
                for (int j = 0; j < WIDTH; j++)
                    u[j] = j < width ? own[j * columns] : 0;
                solve_unit(u, panel, pitch, width);
#pragma unroll
                for (int j = 1; j < WIDTH; j++) {
                    own += columns;
                    if (j < width)
                        *own = u[j];
                }
            }
            __syncthreads();
            subtract_product(y, panel, pitch, rows, columns, end, first, width, false, [=](T *u, int64_t c) {
#pragma unroll
                for (int j = 0; j < WIDTH; j++)
                    if (j < width)
                        u[j] = y[(first + j) * columns + c];
            });
            __syncthreads();
        }
    }
}

template <class T> DEVICE void lu_columns(const launch &record, T *shared)
{
    if (record.dims[lu_factor_rows] - record.dims[lu_factor_begin] <= MOST_ROWS)
        lu_of<T, true>(record, shared);
    else
        lu_of<T, false>(record, 0);
}

#define OTHERS (columns - end + begin) /* columns that are not of this launch */
#define BESIDE 64                      /* of them a block has; a thread has one */

STEP(lu_factor, 1, batch, 256, CHOOSE(rows - begin <= MOST_ROWS, MAX(rows - begin, 0) * ROW_BYTES, 0))
{
    DYNAMIC_SHARED(unsigned char, panel);
    const int64_t *d = record.dims, rows = d[lu_factor_rows], columns = d[lu_factor_columns];
    const int64_t begin = d[lu_factor_begin], end = d[lu_factor_end];
    if (rows < 0 || rows > INT32_MAX || begin < 0 || end < begin || end > columns ||
        (OTHERS > 0 && end - begin > PANEL))
        return report(KERNEL_BAD_ARGUMENT);
    if (d[lu_factor_type] == TYPE_float32)
        lu_columns<float>(record, (float *)panel);
    else if (d[lu_factor_type] == TYPE_float64)
        lu_columns<double>(record, (double *)panel);
    else
        report(KERNEL_BAD_ARGUMENT);
}

/* The columns beside the panel begin .. end - 1: their rows are exchanged alike, and those behind it become rows of U. */
template <class T> DEVICE void lu_beside(const launch &record, T *corner, int *chosen)
{
    constexpr int WIDTH = panel_of<T>::WIDTH;
    const int64_t *const d = record.dims, rows = d[lu_factor_rows], columns = d[lu_factor_columns];
    const int64_t begin = d[lu_factor_begin], end = d[lu_factor_end], pivots = MIN(rows, columns);
    const int64_t parts = PARTS(OTHERS, BESIDE);
    const int width = (int)MAX(MIN(end, pivots) - begin, 0);
    const int32_t *const exchanges = (const int32_t *)record.pointers[lu_factor_exchanges];
    FOR_EACH_BLOCK(block, d[lu_factor_batch] * parts)
    {
        const int64_t matrix = block / parts, at = block % parts * BESIDE + threadIdx.x;
        const int64_t c = at < begin ? at : at + end - begin;
        T *const y = (T *)record.pointers[lu_factor_y] + matrix * rows * columns, *const own = y + begin * columns + c;
        FOR_THREADS(i, width * width)
        corner[i / width * PANEL + i % width] = y[(begin + i / width) * columns + begin + i % width];
        FOR_THREADS(i, width)
        chosen[i] = exchanges ? (int)(exchanges[matrix * pivots + begin + i] - begin) : (int)i;
        __syncthreads();
        for (int j = 0; j < width && c < columns; j++)
            if (chosen[j] != j)
                exchange(own + j * columns, own + chosen[j] * columns);
        for (int first = 0; first < width && c >= end && c < columns; first += WIDTH) {
            const T *const beside = corner + first * PANEL;
            T u[WIDTH];
#pragma unroll
            for (int j = 0; j < WIDTH; j++)
                u[j] = first + j < width ? own[(first + j) * columns] : 0;
            for (int t = 0; t < first; t++) {
                const T above = own[t * columns];
#pragma unroll
                for (int j = 0; j < WIDTH; j++)
                    if (first + j < width)
                        u[j] -= beside[j * PANEL + t] * above;
            }
            solve_unit(u, beside + first, PANEL, width - first);
#pragma unroll
            for (int j = 0; j < WIDTH; j++)
                if (first + j < width)
                    own[(first + j) * columns] = u[j];
        }
        __syncthreads();
    }
}

STEP(lu_factor, 2, batch *PARTS(OTHERS, BESIDE), 64, 0)
{
    __shared__ double corner[PANEL * PANEL];
    __shared__ int chosen[PANEL];
    if (failed)
        return;
    if (record.dims[lu_factor_type] == TYPE_float32)
        lu_beside<float>(record, (float *)corner, chosen);
    else
        lu_beside<double>(record, corner, chosen);
}

/* What is right of and below the panel, less its product with the rows of U: 64 x 64 elements for a block, 16 for a thread. */
#define REST 64
#define REST_DEPTH 16

template <class T> DEVICE void lu_rest(const launch &record, T *left, T *right)
{
    constexpr int PITCH = REST + 4;
    const int64_t *const d = record.dims, rows = d[lu_factor_rows], columns = d[lu_factor_columns];
    const int64_t begin = d[lu_factor_begin], end = d[lu_factor_end];
    const int64_t down = PARTS(rows - end, REST), across = PARTS(columns - end, REST);
    const int row = (int)threadIdx.x / 16 * 4, column = (int)threadIdx.x % 16; /* four rows; columns 16 apart */
    FOR_EACH_BLOCK(block, d[lu_factor_batch] * down * across)
    {
        const int64_t m = end + block / across % down * REST, n = end + block % across * REST;
        T *const y = (T *)record.pointers[lu_factor_y] + block / across / down * rows * columns, sums[4][4] = {};
        for (int64_t start = begin; start < end; start += REST_DEPTH) {
            FOR_THREADS(i, REST * REST_DEPTH)
            {
                const int64_t r = i / REST_DEPTH, k = i % REST_DEPTH;
                left[k * PITCH + r] = m + r < rows && start + k < end ? y[(m + r) * columns + start + k] : 0;
            }
            FOR_THREADS(i, REST * REST_DEPTH)
            {
                const int64_t k = i / REST, c = i % REST;
                right[k * PITCH + c] = n + c < columns && start + k < end ? y[(start + k) * columns + n + c] : 0;
            }
            __syncthreads();
            for (int k = 0; k < REST_DEPTH; k++) {
                T a[4], b[4];
                for (int i = 0; i < 4; i++)
                    a[i] = left[k * PITCH + row + i], b[i] = right[k * PITCH + column + 16 * i];
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++)
                        sums[i][j] += a[i] * b[j];
            }
            __syncthreads();
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                if (m + row + i < rows && n + column + 16 * j < columns)
                    y[(m + row + i) * columns + n + column + 16 * j] -= sums[i][j];
    }
}

KERNEL(lu_factor, batch *PARTS(MAX(rows - end, 0), REST) * PARTS(columns - end, REST), 256, 0)
{
    __shared__ double left[REST_DEPTH * (REST + 4)], right[REST_DEPTH * (REST + 4)];
    if (failed)
        return;
    if (record.dims[lu_factor_type] == TYPE_float32)
        lu_rest<float>(record, (float *)left, (float *)right);
    else
        lu_rest<double>(record, left, right);
}

/* ---- QR, as LAPACK's geqr2 and org2r: reflectors 1 - tau v v^T, v[j] = 1, the rest of v below the diagonal of column j. */

/* Columns j + 1 .. of a (rows, columns), from row j on, times the reflector j. Lanes have columns, warps rows. */
template <class T> DEVICE void reflect(T *a, int64_t rows, int64_t columns, int64_t j, T tau)
{
    __shared__ T parts[8][32];
    for (int64_t tile = j + 1; tile < columns; tile += 32) {
        const int64_t c = tile + LANE;
        T sum = 0;
        if (c < columns)
            for (int64_t i = j + 1 + WARP; i < rows; i += WARPS)
                sum += a[i * columns + j] * a[i * columns + c];
        parts[WARP][LANE] = sum;
        __syncthreads();
        if (c < columns) {
            sum = a[j * columns + c];
            for (int w = 0; w < WARPS; w++)
                sum += parts[w][LANE];
        }
        __syncthreads(); /* row j has been read, and the parts */
        if (c >= columns)
            continue;
        sum *= tau;
        if (WARP == 0)
            a[j * columns + c] -= sum;
        for (int64_t i = j + 1 + WARP; i < rows; i += WARPS)
            a[i * columns + c] -= sum * a[i * columns + j];
    }
    __syncthreads();
}

/* The reflectors of a (rows, columns), below its diagonal, and R on and above it. All threads have written a. */
template <class T> DEVICE void find_reflectors(T *a, T *taus, int64_t rows, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        T *const corner = a + j * columns + j;
        const T alpha = *corner;
        T most = 0, sum = 0, tau = 0;
        for (int64_t i = 1 + threadIdx.x; i < rows - j; i += blockDim.x)
            most = Larger()(size_of(corner[i * columns]), most);
        most = block_largest(most);
        if (most != 0) {
            most = Larger()(size_of(alpha), most); /* squares of what is at most 1 */
            for (int64_t i = threadIdx.x; i < rows - j; i += blockDim.x) {
                const T part = corner[i * columns] / most;
                sum += part * part;
            }
            const T length = most * root_of(block_sum(sum)), beta = alpha >= 0 ? -length : length;
            tau = (beta - alpha) / beta;
            __syncthreads();
            for (int64_t i = threadIdx.x; i < rows - j; i += blockDim.x)
                corner[i * columns] = i ? corner[i * columns] / (alpha - beta) : beta;
        }
        if (threadIdx.x == 0)
            taus[j] = tau;
        __syncthreads();
        reflect(a, rows, columns, j, tau);
    }
}

/* Q in the place of its reflectors. What is above the diagonal is not read before it is written. */
template <class T> DEVICE void find_columns(T *a, const T *taus, int64_t rows, int64_t columns)
{
    for (int64_t j = columns - 1; j >= 0; j--) {
        const T tau = taus[j];
        if (threadIdx.x == 0) /* what is behind it in its row begins as 0 */
            a[j * columns + j] = 1 - tau;
        reflect(a, rows, columns, j, tau);
        for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
            if (i != j)
                a[i * columns + j] = i < j ? 0 : -tau * a[i * columns + j];
        __syncthreads();
    }
}

template <class T> DEVICE void qr_of(const launch &record)
{
    const int64_t rows = record.dims[qr_rows], columns = record.dims[qr_columns];
    FOR_EACH_BLOCK(matrix, record.dims[qr_batch])
    {
        T *const a = (T *)record.pointers[qr_y] + matrix * (rows + columns) * columns, *const r = a + rows * columns;
        const T *const x = (const T *)record.pointers[qr_x] + matrix * rows * columns;
        T *const taus = (T *)record.pointers[qr_taus] + matrix * columns;
        FOR_THREADS(i, rows * columns)
        a[i] = x[i];
        __syncthreads();
        find_reflectors(a, taus, rows, columns);
        FOR_THREADS(i, columns * columns)
        r[i] = i / columns <= i % columns ? a[i] : 0;
        __syncthreads();
        find_columns(a, taus, rows, columns);
    }
}

KERNEL(qr, batch, 256, 0)
{
    const int64_t *d = record.dims;
    if (d[qr_columns] < 0 || d[qr_rows] < d[qr_columns])
        return report(KERNEL_BAD_ARGUMENT);
    if (d[qr_type] == TYPE_float32)
        qr_of<float>(record);
    else if (d[qr_type] == TYPE_float64)
        qr_of<double>(record);
    else
        report(KERNEL_BAD_ARGUMENT);
}

/* ---- Eigenvalues and eigenvectors of symmetric matrices, by Jacobi's rotations. Each makes an element off the diagonal 0.
 * Pairs of rows that have no row in common are rotated at once, as in a round of a tournament; a sweep is all its rounds, in
 * which every row meets every other. */

#define JACOBI_BYTES 32768 /* of a matrix in shared memory, at most; a larger one lies in the result's place */
#define WHERE_SMALL(bytes) CHOOSE((bytes) <= JACOBI_BYTES, bytes, 0)
#define SWEEPS 40 /* at most: the last ones square what is left, so that a few suffice */

DEVICE float precision_of(float) { return 0x1p-24f; }
DEVICE double precision_of(double) { return 0x1p-53; }

/* The two, p < q, of the pair k of n / 2 in a round, for an even n: one player stays, the others move around a table. */
DEVICE void pair_of(int k, int round, int n, int *p, int *q)
{
    const int one = k ? (round + k) % (n - 1) : n - 1, other = (round + n - 1 - k) % (n - 1);
    *p = MIN(one, other);
    *q = MAX(one, other);
}

/* The place of an element (i, j) of a symmetric matrix, of which there is the lower triangle. */
DEVICE int lower_place(int i, int j, int n) { return MAX(i, j) * n + MIN(i, j); }

/* Two numbers, rotated by an angle of this sine, whose half has this tangent. A cosine near 1 would be rounded to 1, and
 * what is rotated often would grow (Rutishauser 1966, "The Jacobi Method for Real Symmetric Matrices"). */
template <class T> DEVICE void rotate(T *a, T *b, T sine, T half)
{
    const T from_a = *a, from_b = *b;
    *a = from_a - sine * (from_b + half * from_a);
    *b = from_b + sine * (from_a - half * from_b);
}

/* The sine, and the tangent of the half, of the angle that makes `between` 0, where what is on the diagonal in the second row
 * is larger by `more` than in the first. Of the two angles it is the smaller one. */
template <class T> DEVICE void turn_of(T more, T between, T *sine, T *half)
{
    const T slope = more / (2 * between), size = size_of(slope);
    const T longer = size < 1 / precision_of(size) ? root_of(slope * slope + 1) : size; /* a square may be infinite */
    const T tangent = (slope >= 0 ? 1 : -1) / (size + longer);
    const T cosine = 1 / root_of(tangent * tangent + 1);
    *sine = tangent * cosine;
    *half = *sine / (1 + cosine);
}

/* The sine of each pair's angle in a round, and the tangent of its half, in turns. What is rotated with a row that there is
 * not stays as it is. */
template <class T> DEVICE void find_turns(T *turns, const T *a, int n, int pairs, int round)
{
    FOR_THREADS(k, pairs)
    {
        int p, q;
        T half = 0, sine = 0;
        pair_of((int)k, round, 2 * pairs, &p, &q);
        const T between = q < n ? a[q * n + p] : 0;
        if (between != 0)
            turn_of(a[q * n + q] - a[p * n + p], between, &sine, &half);
        turns[2 * k] = sine;
        turns[2 * k + 1] = half;
    }
}

/* What a pair of rows, k, and a pair of columns, l, have in common. A thread alone reads and writes these four elements. */
template <class T> DEVICE void rotate_block(T *a, const T *turns, int n, int pairs, int round, int k, int l)
{
    int p, q, r, s;
    const T sine = turns[2 * k], half = turns[2 * k + 1];
    pair_of(k, round, 2 * pairs, &p, &q);
    if (k == l) {
        if (q < n) {
            const T step = sine / (1 - sine * half) * a[q * n + p];
            a[p * n + p] -= step;
            a[q * n + q] += step;
            a[q * n + p] = 0;
        }
        return;
    }
    pair_of(l, round, 2 * pairs, &r, &s);
    T *const pr = a + lower_place(p, r, n), *const ps = a + lower_place(p, s, n);
    T *const qr = a + lower_place(q, r, n), *const qs = a + lower_place(q, s, n);
    const T other_sine = turns[2 * l], other_half = turns[2 * l + 1], zero = 0;
    T at_pr = *pr, at_ps = s < n ? *ps : zero, at_qr = q < n ? *qr : zero, at_qs = q < n && s < n ? *qs : zero;
    rotate(&at_pr, &at_qr, sine, half);
    rotate(&at_ps, &at_qs, sine, half);
    rotate(&at_pr, &at_ps, other_sine, other_half);
    rotate(&at_qr, &at_qs, other_sine, other_half);
    *pr = at_pr;
    if (s < n)
        *ps = at_ps;
    if (q < n)
        *qr = at_qr;
    if (q < n && s < n)
        *qs = at_qs;
}

template <class T> DEVICE void eigh_of(const launch &record, T *shared_matrix)
{
    __shared__ T turns[MOST_ROWS]; /* and in the end the eigenvalues */
    __shared__ int places[MOST_ROWS];
    const int n = (int)record.dims[eigh_n], pairs = PARTS(n, 2);
    FOR_EACH_BLOCK(matrix, record.dims[eigh_batch])
    {
        T *const y = (T *)record.pointers[eigh_y] + matrix * (n + 1) * n;
        const T *const x = (const T *)record.pointers[eigh_x] + matrix * n * n;
        T *const vectors = (T *)record.pointers[eigh_vectors] + matrix * n * n; /* as rows */
        T *const a = n * n * (int)sizeof(T) <= JACOBI_BYTES ? shared_matrix : y + n;
        T most = 0, sum = 0;
        FOR_THREADS(i, n * n)
        if ((int)i % n <= (int)i / n || x[i] - x[i] != 0)
            most = Larger()(size_of(x[i]), most);
        most = block_largest(most);
        if (most - most != 0) { /* infinite, or not a number */
            FOR_THREADS(i, (n + 1) * n)
            y[i] = (T)NAN;
            continue;
        }
        const T scale = most != 0 ? most : 1;
        FOR_THREADS(i, n * n)
        {
            const int row = (int)i / n, column = (int)i % n;
            const T value = column <= row ? x[i] / scale : 0;
            a[i] = value;
            vectors[i] = row == column;
            sum += (row == column ? 1 : 2) * value * value;
        }
        const T limit = block_sum(sum) * precision_of(sum) * precision_of(sum);
        for (int sweep = 0; sweep < SWEEPS; sweep++) {
            sum = 0;
            FOR_THREADS(i, n * n)
            if ((int)i % n < (int)i / n)
                sum += 2 * a[i] * a[i];
            if (block_sum(sum) <= limit)
                break;
            for (int round = 0; round < 2 * pairs - 1; round++) {
                find_turns(turns, a, n, pairs, round);
                __syncthreads();
                FOR_THREADS(i, pairs * pairs)
                if ((int)i % pairs <= (int)i / pairs)
                    rotate_block(a, turns, n, pairs, round, (int)i / pairs, (int)i % pairs);
                FOR_THREADS(i, pairs * n)
                {
                    int p, q;
                    const int k = (int)i / n, column = (int)i % n;
                    pair_of(k, round, 2 * pairs, &p, &q);
                    if (q < n)
                        rotate(vectors + p * n + column, vectors + q * n + column, turns[2 * k], turns[2 * k + 1]);
                }
                __syncthreads();
            }
        }
        FOR_THREADS(i, n)
        turns[i] = a[i * n + i];
        __syncthreads();
        FOR_THREADS(i, n)
        {
            int place = 0;
            for (int j = 0; j < n; j++)
                place += turns[j] < turns[i] || (turns[j] == turns[i] && j < i);
            places[i] = place;
            y[place] = turns[i] * scale;
        }
        __syncthreads();
        FOR_THREADS(i, n * n)
        y[n + (int)i / n * n + places[(int)i % n]] = vectors[(int)i % n * n + (int)i / n];
        __syncthreads();
    }
}

KERNEL(eigh, batch, 256, WHERE_SMALL(n *n *CHOOSE(type == TYPE_float64, 8, 4)))
{
    DYNAMIC_SHARED(unsigned char, matrix);
    const int64_t *d = record.dims;
    if (d[eigh_n] < 0 || d[eigh_n] > MOST_ROWS)
        return report(KERNEL_BAD_ARGUMENT);
    if (d[eigh_type] == TYPE_float32)
        eigh_of<float>(record, (float *)matrix);
    else if (d[eigh_type] == TYPE_float64)
        eigh_of<double>(record, (double *)matrix);
    else
        report(KERNEL_BAD_ARGUMENT);
}

/* ---- Singular values and vectors of square matrices, by rotations of pairs of rows, each of which makes two rows orthogonal
 * (Hestenes 1958, "Inversion of Matrices by Biorthogonalization and Related Results"). The rotations together are U^T, and
 * what they leave is S V^T. Rounds and sweeps are those of eigh; a warp has a pair. */

/* Lengths below this, of rows whose largest element was 1 or more in the beginning, have squares that are rounded to few
 * digits or to 0. Such rows may point anywhere; V gets other columns for them. */
DEVICE float short_for(float) { return 0x1p-60f; }
DEVICE double short_for(double) { return 0x1p-500; }

/* The largest power of 2 up to x > 0: what is divided by it keeps its bits. */
DEVICE float power_below(float x) { return scalbnf(1, ilogbf(x)); }
DEVICE double power_below(double x) { return scalbn(1.0, ilogb(x)); }

/* Makes rows p and q of a orthogonal, and turns those of `turned` alike, unless it is NULL. A lane reads and writes the same
 * columns of every row. Whether it has turned them. */
template <class T> DEVICE bool turn_rows(T *a, T *turned, int n, int p, int q, T limit)
{
    T *const first = a + p * n, *const second = a + q * n;
    T first_square = 0, second_square = 0, between = 0, sine, half;
    for (int c = LANE; c < n; c += 32) {
        const T one = first[c], other = second[c];
        first_square += one * one;
        second_square += other * other;
        between += one * other;
    }
    first_square = warp_reduce(first_square, Sum());
    second_square = warp_reduce(second_square, Sum());
    between = warp_reduce(between, Sum());
    const T lengths[] = {root_of(first_square), root_of(second_square)};
    if (MIN(lengths[0], lengths[1]) < short_for(limit) || size_of(between) <= limit * lengths[0] * lengths[1])
        return false;
    turn_of(second_square - first_square, between, &sine, &half);
    for (int c = LANE; c < n; c += 32) {
        rotate(first + c, second + c, sine, half);
        if (turned)
            rotate(turned + p * n + c, turned + q * n + c, sine, half);
    }
    return sine != 0;
}

/* The length of each row of a (n, n); by warps. */
template <class T> DEVICE void find_lengths(T *lengths, const T *a, int n)
{
    for (int row = WARP; row < n; row += WARPS) {
        T most = 0, sum = 0;
#pragma unroll 1 /* else registers are spilled */
        for (int c = LANE; c < n; c += 32)
            most = Larger()(size_of(a[row * n + c]), most);
        most = warp_reduce(most, Larger());
#pragma unroll 1 /* else registers are spilled */
        for (int c = LANE; c < n; c += 32) {
            const T part = most != 0 ? a[row * n + c] / most : 0;
            sum += part * part;
        }
        sum = warp_reduce(sum, Sum());
        if (LANE == 0)
            lengths[row] = most * root_of(sum);
    }
}

template <class T> DEVICE void singular_of(const launch &record, T *shared_matrix, T *lengths, int *places)
{
    const int n = (int)record.dims[svd_n], pairs = PARTS(n, 2), results = record.dims[svd_vectors] ? 2 * n + 1 : 1;
    FOR_EACH_BLOCK(matrix, record.dims[svd_batch])
    {
        T *const y = (T *)record.pointers[svd_y] + matrix * results * n;
        const T *const x = (const T *)record.pointers[svd_x] + matrix * n * n;
        T *const work = (T *)record.pointers[svd_rotated] + matrix * n * n;
        T *const a = n * n * (int)sizeof(T) <= JACOBI_BYTES ? shared_matrix : work;
        T *const values = results == 1 ? y : y + n * n;
        T *const v = results == 1 ? 0 : values + n; /* and before V the rotations */
        T most = 0;
        FOR_THREADS(i, n * n)
        most = Larger()(size_of(x[i]), most);
        most = block_largest(most);
        if (most - most != 0) { /* infinite, or not a number */
            FOR_THREADS(i, results * n)
            y[i] = (T)NAN;
            continue;
        }
        const T scale = most != 0 ? power_below(most) : 1, limit = precision_of(most) * root_of((T)n);
        FOR_THREADS(i, n * n)
        {
            a[i] = x[i] / scale;
            if (v)
                v[i] = (int)i / n == (int)i % n;
        }
        __syncthreads();
        bool turned = true;
        for (int sweep = 0; sweep < SWEEPS && turned; sweep++) {
            turned = false;
            for (int round = 0; round < 2 * pairs - 1; round++) {
                for (int k = WARP; k < pairs; k += WARPS) {
                    int p, q;
                    pair_of(k, round, 2 * pairs, &p, &q);
                    if (q < n && turn_rows(a, v, n, p, q, limit))
                        turned = true;
                }
                __syncthreads();
            }
            turned = block_largest((int)turned);
        }
        find_lengths(lengths, a, n);
        __syncthreads();
        FOR_THREADS(i, n)
        {
            int place = 0;
            for (int j = 0; j < n; j++)
                place += lengths[j] > lengths[i] || (lengths[j] == lengths[i] && j < i);
            places[i] = place;
            values[place] = lengths[i] * scale;
        }
        __syncthreads();
        if (v) {
            FOR_THREADS(i, n * n)
            y[(int)i / n * n + places[(int)i % n]] = v[(int)i % n * n + (int)i / n];
            __syncthreads();
            FOR_THREADS(i, n * n)
            {
                const int row = (int)i / n, from = (int)i % n;
                v[row * n + places[from]] = lengths[from] != 0 ? a[from * n + row] / lengths[from] : 0;
            }
        }
        __syncthreads();
    }
}

STEP(svd, 1, batch, 256, WHERE_SMALL(n *n *CHOOSE(type == TYPE_float64, 8, 4)))
{
    DYNAMIC_SHARED(unsigned char, matrix);
    __shared__ double lengths[MOST_ROWS];
    __shared__ int places[MOST_ROWS];
    const int64_t *d = record.dims;
    if (d[svd_n] < 0 || d[svd_n] > MOST_ROWS)
        return report(KERNEL_BAD_ARGUMENT);
    if (d[svd_type] == TYPE_float32)
        singular_of<float>(record, (float *)matrix, (float *)lengths, places);
    else if (d[svd_type] == TYPE_float64)
        singular_of<double>(record, (double *)matrix, lengths, places);
    else
        report(KERNEL_BAD_ARGUMENT);
}

/* Where the last columns of V are not orthonormal: V becomes the Q of its QR, with the signs with which R has no negative number
 * on its diagonal. */
template <class T> DEVICE void complete(const launch &record, T *signs)
{
    const int n = (int)record.dims[svd_n];
    FOR_EACH_BLOCK(matrix, record.dims[svd_batch])
    {
        T *const values = (T *)record.pointers[svd_y] + (matrix * (2 * n + 1) + n) * n, *const v = values + n;
        T *const taus = (T *)record.pointers[svd_rotated] + matrix * n * n;
        if (!(values[n - 1] <= short_for(*values) * values[0]))
            continue;
        find_reflectors(v, taus, n, n);
        FOR_THREADS(i, n)
        signs[i] = v[i * n + i] < 0 ? -1 : 1;
        __syncthreads();
        find_columns(v, taus, n, n);
        FOR_THREADS(i, n * n)
        v[i] *= signs[(int)i % n];
        __syncthreads();
    }
}

KERNEL(svd, CHOOSE(vectors *n > 0, batch, 0), 256, 0)
{
    __shared__ double signs[MOST_ROWS];
    if (failed)
        return;
    if (record.dims[svd_type] == TYPE_float32)
        complete<float>(record, (float *)signs);
    else
        complete<double>(record, signs);
}

/* ---- Triangular systems: 32 rows at a time by warps, a lane for each row; then all rows of the launch that are left, less
 * their part, by the same block; then those of no launch yet, by all blocks. */

/* A launch's part of a system: the rows to solve, and those that are left behind them, or where `upper` before them. */
struct system_part {
    int64_t n, columns, begin, end, left, other;
    bool upper, first; /* first: y has nothing yet */

    DEVICE_MEMBER explicit system_part(const launch &record)
    {
        const int64_t *d = record.dims;
        n = d[solve_triangular_n], columns = d[solve_triangular_columns];
        begin = d[solve_triangular_begin], end = d[solve_triangular_end];
        upper = d[solve_triangular_upper];
        left = upper ? begin : n - end;
        other = upper ? 0 : end;
        first = upper ? end == n : begin == 0;
    }
};

template <class T> DEVICE void solve_of(const launch &record, int32_t *status)
{
    __shared__ T corner[STEP_ROWS][STEP_ROWS + 1], found[STEP_ROWS][SIDES];
    const int64_t *d = record.dims;
    const system_part part(record);
    const int64_t n = part.n, columns = part.columns, height_of_all = part.end - part.begin;
    const int64_t row_step = d[solve_triangular_a_row], column_step = d[solve_triangular_a_column];
    const int64_t parts = PARTS(columns, SIDES), steps = PARTS(height_of_all, STEP_ROWS);
    const bool upper = part.upper, unit = d[solve_triangular_unit] == 1, refuses = d[solve_triangular_unit] == 0;
    const int32_t *const orders = (const int32_t *)record.pointers[solve_triangular_order];
    FOR_EACH_BLOCK(block, d[solve_triangular_batch] * parts)
    {
        const int64_t matrix = block / parts, begin = block % parts * SIDES;
        const int sides = (int)MIN(SIDES, columns - begin);
        const T *const a = (const T *)record.pointers[solve_triangular_a] + matrix * d[solve_triangular_a_batch];
        const T *const b = (const T *)record.pointers[solve_triangular_b] + matrix * n * columns + begin;
        T *const y = (T *)record.pointers[solve_triangular_y] + matrix * n * columns + begin;
        if (part.first)
            FOR_THREADS(i, height_of_all * sides)
            {
                const int64_t row = part.begin + i / sides, c = i % sides;
                y[row * columns + c] = b[(orders ? orders[matrix * n + row] : row) * columns + c];
            }
        __syncthreads();
        for (int64_t step = 0; step < steps; step++) {
            const int64_t first = part.begin + (upper ? steps - 1 - step : step) * STEP_ROWS;
            const int height = (int)MIN(STEP_ROWS, part.end - first);
            FOR_THREADS(i, height * height)
            corner[i / height][i % height] = a[(first + i / height) * row_step + (first + i % height) * column_step];
            __syncthreads();
            for (int c = WARP; c < sides; c += WARPS) {
                T *const own = y + (first + LANE) * columns + c, value = LANE < height ? *own : 0;
                for (int k = 0; k < height; k++) {
                    const int j = upper ? height - 1 - k : k;
                    const T pivot = unit ? 1 : corner[j][j], solved = __shfl_sync(EVERY_LANE, value, j) / pivot;
                    if (LANE == j)
                        value = solved;
                    else if (upper ? LANE < j : LANE > j && LANE < height)
                        value -= corner[LANE][j] * solved;
                    if (pivot == 0 && refuses && LANE == 0)
                        report(KERNEL_SINGULAR);
                }
                if (LANE < height)
                    *own = found[LANE][c] = value;
            }
            __syncthreads();
            const int64_t others = upper ? part.begin : first + height;
            const int64_t left = upper ? first - part.begin : part.end - others;
            FOR_THREADS(i, left * sides)
            {
                const int64_t row = others + i / sides, c = i % sides;
                const T *const own = a + row * row_step + first * column_step;
                T sum = 0;
                for (int j = 0; j < height; j++)
                    sum += own[j * column_step] * found[j][c];
                y[row * columns + c] -= sum;
            }
            __syncthreads();
        }
    }
}

STEP(solve_triangular, 1, batch *PARTS(columns, SIDES), 256, 0)
{
    const int64_t *d = record.dims;
    const system_part part(record);
    if (part.n < 0 || part.columns < 0 || part.begin < 0 || part.end < part.begin || part.end > part.n)
        return report(KERNEL_BAD_ARGUMENT);
    if (d[solve_triangular_type] == TYPE_float32)
        solve_of<float>(record, status);
    else if (d[solve_triangular_type] == TYPE_float64)
        solve_of<double>(record, status);
    else
        report(KERNEL_BAD_ARGUMENT);
}

/* The rows that are left, less their products with the rows that this launch has solved: LEFT_ROWS of them and SIDES
 * right-hand sides for a block. A thread has a row and every LEFT_GROUPS'th side. */
#define LEFT_ROWS 64
enum { LEFT_GROUPS = 256 / LEFT_ROWS };

template <class T> DEVICE void reduce_left(const launch &record)
{
    __shared__ T rows[LEFT_ROWS][STEP_ROWS + 1], found[STEP_ROWS][SIDES];
    const int64_t *d = record.dims;
    const system_part part(record);
    const int64_t n = part.n, columns = part.columns;
    const int64_t row_step = d[solve_triangular_a_row], column_step = d[solve_triangular_a_column];
    const int64_t across = PARTS(columns, SIDES), down = PARTS(part.left, LEFT_ROWS);
    const int own = (int)threadIdx.x % LEFT_ROWS, group = (int)threadIdx.x / LEFT_ROWS;
    const int32_t *const orders = (const int32_t *)record.pointers[solve_triangular_order];
    FOR_EACH_BLOCK(block, d[solve_triangular_batch] * down * across)
    {
        const int64_t matrix = block / across / down, top = part.other + block / across % down * LEFT_ROWS;
        const int64_t begin = block % across * SIDES, row = top + own;
        const int sides = (int)MIN(SIDES, columns - begin), height = (int)MIN(LEFT_ROWS, part.other + part.left - top);
        const T *const a = (const T *)record.pointers[solve_triangular_a] + matrix * d[solve_triangular_a_batch];
        const T *const b = (const T *)record.pointers[solve_triangular_b] + matrix * n * columns + begin;
        T *const y = (T *)record.pointers[solve_triangular_y] + matrix * n * columns + begin;
        T sums[SIDES / LEFT_GROUPS] = {0};
        for (int64_t start = part.begin; start < part.end; start += STEP_ROWS) {
            const int width = (int)MIN(STEP_ROWS, part.end - start);
            FOR_THREADS(i, LEFT_ROWS * STEP_ROWS)
            { /* neighbours read side by side, whichever way the matrix lies */
                const int r = (int)(row_step == 1 ? i % LEFT_ROWS : i / STEP_ROWS);
                const int c = (int)(row_step == 1 ? i / LEFT_ROWS : i % STEP_ROWS);
                rows[r][c] = r < height && c < width ? a[(top + r) * row_step + (start + c) * column_step] : 0;
            }
            FOR_THREADS(i, width * sides)
            found[i / sides][i % sides] = y[(start + i / sides) * columns + i % sides];
            __syncthreads();
            for (int j = 0; j < width; j++) {
                const T value = rows[own][j];
#pragma unroll
                for (int s = 0; s < SIDES / LEFT_GROUPS; s++)
                    if (group + s * LEFT_GROUPS < sides)
                        sums[s] += value * found[j][group + s * LEFT_GROUPS];
            }
            __syncthreads();
        }
#pragma unroll
        for (int s = 0; s < SIDES / LEFT_GROUPS; s++) {
            const int c = group + s * LEFT_GROUPS;
            if (own < height && c < sides) {
                const T before =
                    part.first ? b[(orders ? orders[matrix * n + row] : row) * columns + c] : y[row * columns + c];
                y[row * columns + c] = before - sums[s];
            }
        }
    }
}

KERNEL(solve_triangular, batch *PARTS(columns, SIDES) * PARTS(CHOOSE(upper > 0, begin, n - end), LEFT_ROWS), 256, 0)
{
    if (failed)
        return;
    if (record.dims[solve_triangular_type] == TYPE_float32)
        reduce_left<float>(record);
    else
        reduce_left<double>(record);
}
