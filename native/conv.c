/* Convolution as a product: windows are packed from the input, panel by panel; a matrix of windows is never stored (as in
 * cuDNN; Chetlur et al., 2014). */
#include "gemm.h"
#include "vmath.h"

enum { AXES = 4 };

/* The right operand of a product with windows: element (k, j) lies at x[offset of k + offset of j]. The offset of an
 * index is that of its digits, the last axis fastest. */
typedef struct windows {
    const float *x;
    const int64_t *k_sizes, *k_strides, *j_sizes, *j_strides;
} windows;

/* An index as digits, and its offset. */
typedef struct place {
    int64_t digits[AXES], offset;
} place;

INLINE place place_of(int64_t index, const int64_t *sizes, const int64_t *strides)
{
    place at = {{0}, 0};
    for (int i = AXES - 1; i >= 0; i--) {
        at.digits[i] = index % sizes[i];
        at.offset += at.digits[i] * strides[i];
        index /= sizes[i];
    }
    return at;
}

/* Adds to the last digit, which becomes its axis's size at most. */
INLINE void advance(place *at, int64_t steps, const int64_t *sizes, const int64_t *strides)
{
    at->digits[AXES - 1] += steps, at->offset += steps * strides[AXES - 1];
    for (int i = AXES - 1; i > 0 && at->digits[i] == sizes[i]; i--) {
        at->digits[i] = 0, at->digits[i - 1]++;
        at->offset += strides[i - 1] - sizes[i] * strides[i];
    }
}

/* Columns start .. start + count - 1 of a panel that lie evenly apart. */
typedef struct stretch {
    int64_t offset, start, count;
} stretch;

/* The next `count` columns as stretches; returns how many these are. */
static int find_stretches(stretch *to, place *at, const windows *w, int64_t count)
{
    const int64_t step = w->j_strides[AXES - 1], size = w->j_sizes[AXES - 1];
    int found = 0;
    for (int64_t start = 0; start < count;) {
        const int64_t left = size - at->digits[AXES - 1], n = left < count - start ? left : count - start;
        stretch *last = to + found - 1;
        if (found && at->offset == last->offset + last->count * step)
            last->count += n;
        else
            to[found++] = (stretch){at->offset, start, n};
        advance(at, n, w->j_sizes, w->j_strides);
        start += n;
    }
    return found;
}

/* Every other element of 2 * LANES from p on. */
INLINE vfloat vload_even(const float *p)
{
#if LANES == 16
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return (vfloat)_mm512_permutex2var_ps((__m512)vload(p), even, (__m512)vload(p + LANES));
#elif LANES == 8
    const __m256 mixed = _mm256_shuffle_ps((__m256)vload(p), (__m256)vload(p + LANES), 0x88);
    return (vfloat)_mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
#elif defined(__wasm_simd128__)
    return (vfloat)wasm_i32x4_shuffle((v128_t)vload(p), (v128_t)vload(p + LANES), 0, 2, 4, 6);
#elif defined(__SSE2__)
    return (vfloat)_mm_shuffle_ps((__m128)vload(p), (__m128)vload(p + LANES), 0x88);
#else
    return (vfloat)vuzp1q_f32((float32x4_t)vload(p), (float32x4_t)vload(p + LANES));
#endif
}

/* Copies whole vectors: what is written past the stretch is written again by what follows it. */
INLINE void copy_stretch(float *to, const float *from, int64_t count, int64_t step)
{
    if (step == 1)
        for (int64_t i = 0; i < count; i += LANES)
            vstore(to + i, vload(from + i));
    else if (step == 2)
        for (int64_t i = 0; i < count; i += LANES)
            vstore(to + i, vload_even(from + 2 * i));
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i * step];
}

static __attribute__((noinline)) void pack_stretches(float *to, const float *x, const int64_t *offsets, int64_t depth,
                                                     const stretch *s, int count, int64_t step)
{
    if (count == 1 && s->count == PANEL && step == 1) {
        x += s->offset;
        for (int64_t i = 0; i < depth; i++, to += PANEL)
            UNROLL for (int v = 0; v < GEMM_VECTORS; v++) vstore(to + v * LANES, vload(x + offsets[i] + v * LANES));
        return;
    }
    for (int64_t i = 0; i < depth; i++, to += PANEL)
        for (int q = 0; q < count; q++)
            copy_stretch(to + s[q].start, x + offsets[i] + s[q].offset, s[q].count, step);
}

INLINE void pack_windows(float *to, const product *p, const void *source, int64_t n, int64_t end, int64_t k,
                         int64_t depth, const int kind)
{
    const windows *w = source;
    int64_t offsets[GEMM_K];
    stretch stretches[PANEL];
    place row = place_of(k, w->k_sizes, w->k_strides), column = place_of(n, w->j_sizes, w->j_strides);
    for (int64_t i = 0; i < depth; i++) {
        offsets[i] = row.offset;
        advance(&row, 1, w->k_sizes, w->k_strides);
    }
    for (int64_t j = n; j < end; j += PANEL, to += PANEL_STEP) {
        const int64_t columns = end - j < PANEL ? end - j : PANEL;
        if (columns < PANEL)
            memset(to, 0, (size_t)(depth * PANEL) * sizeof *to);
        const int count = find_stretches(stretches, &column, w, columns);
        pack_stretches(to, w->x, offsets, depth, stretches, count, w->j_strides[AXES - 1]);
    }
}

/* ---- few rows: windows of a single channel. Nothing is packed, because the panels would not be shared. */

enum { FEW = 2, TAPS = 256, DIRECT_VECTORS = 4 };

/* The first n of LANES elements from x on, `step` apart. */
SMALL_CODE static vfloat vload_step_part(const float *x, int64_t step, int64_t n)
{
    float part[LANES] = {0};
    for (int i = 0; i < n; i++)
        part[i] = x[i * step];
    return vload(part);
}

/* LANES elements from x on, `step` apart; at least the first n of them. */
INLINE vfloat vload_step(const float *x, const int64_t step, int64_t n)
{
    if (step == 1)
        return vload(x);
    if (step == 2)
        return vload_even(x);
    if (n < LANES)
        return vload_step_part(x, step, n);
    float whole[LANES];
    for (int i = 0; i < LANES; i++)
        whole[i] = x[i * step];
    return vload(whole);
}

/* `vectors` (a constant) vectors of one row of outputs, of which `count` elements exist: c = start + sum of a[i] x. */
INLINE void add_taps(float *c, const float *a, const float *x, const int64_t *offsets, int64_t taps, int64_t count,
                     const float *start, const int vectors, const int64_t step)
{
    const int chains = vectors == 1 ? DIRECT_VECTORS : 1; /* a single sum would wait for its own result */
    vfloat sums[DIRECT_VECTORS] = {0};
    int64_t i = 0;
    UNROLL for (int v = 0; v < vectors; v++) sums[v] =
        start ? vsplat(*start) : vload_up_to(c + v * LANES, count - v * LANES);
    for (; i + chains <= taps; i += chains)
        UNROLL for (int j = 0; j < DIRECT_VECTORS; j++)
        {
            const int v = chains == 1 ? j : 0;
            const float *from = x + offsets[i + (chains == 1 ? 0 : j)] + v * LANES * step;
            sums[j] = vfma(vsplat(a[i + (chains == 1 ? 0 : j)]), vload_step(from, step, count - v * LANES), sums[j]);
        }
    for (; i < taps; i++)
        sums[0] = vfma(vsplat(a[i]), vload_step(x + offsets[i], step, count), sums[0]);
    if (chains > 1)
        sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    UNROLL for (int v = 0; v < vectors; v++) vstore_up_to(c + v * LANES, sums[v], count - v * LANES);
}

INLINE void convolve_row(float *c, const float *a, const float *x, const int64_t *offsets, int64_t taps, int64_t count,
                         const float *start, const int64_t step)
{
    int64_t i = 0;
    for (; i + DIRECT_VECTORS * LANES <= count; i += DIRECT_VECTORS * LANES)
        add_taps(c + i, a, x + i * step, offsets, taps, DIRECT_VECTORS * LANES, start, DIRECT_VECTORS, step);
    for (; i < count; i += LANES)
        add_taps(c + i, a, x + i * step, offsets, taps, count - i, start, 1, step);
}

/* Rows of outputs (along the last axis of j) first .. last - 1, numbered through all items. Taps are taken TAPS at a
 * time. */
static void convolve_direct(const launch *record, int64_t first, int64_t last)
{
    static const float zero;
    const int64_t *d = record->dims, groups = d[windows_f32_groups], m = d[windows_f32_m],
                  k = d[windows_f32_k0] * d[windows_f32_k1] * d[windows_f32_k2] * d[windows_f32_k3];
    const int64_t lines = d[windows_f32_j0] * d[windows_f32_j1] * d[windows_f32_j2], length = d[windows_f32_j3],
                  step = d[windows_f32_j_stride3];
    const float *bias = record->pointers[windows_f32_bias];
    int64_t offsets[TAPS];
    for (int64_t begin = 0; begin < k; begin += TAPS) {
        const int64_t taps = k - begin < TAPS ? k - begin : TAPS;
        place tap = place_of(begin, d + windows_f32_k0, d + windows_f32_k_stride0);
        for (int64_t i = 0; i < taps; i++) {
            offsets[i] = tap.offset;
            advance(&tap, 1, d + windows_f32_k0, d + windows_f32_k_stride0);
        }
        for (int64_t at = first; at < last; at++) {
            const int64_t item = at / lines, line = at % lines, group = item % groups;
            const float *x = (const float *)record->pointers[windows_f32_x] + item / groups * d[windows_f32_x_batch] +
                             group * d[windows_f32_x_group] +
                             place_of(line * length, d + windows_f32_j0, d + windows_f32_j_stride0).offset;
            for (int64_t row = group * m; row < (group + 1) * m; row++) {
                float *c =
                    (float *)record->pointers[windows_f32_c] + ((item * m + row - group * m) * lines + line) * length;
                const float *a = (const float *)record->pointers[windows_f32_a] + row * k + begin;
                const float *start = begin ? NULL : bias ? bias + row : &zero;
                if (step == 1)
                    convolve_row(c, a, x, offsets, taps, length, start, 1);
                else if (step == 2)
                    convolve_row(c, a, x, offsets, taps, length, start, 2);
                else
                    convolve_row(c, a, x, offsets, taps, length, start, step);
            }
        }
    }
}

/* sum of a[i] x[i * step] */
INLINE vfloat dot_steps(const float *a, const float *x, int64_t n, const int64_t step)
{
    vfloat sums[2] = {vzero(), vzero()};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int j = 0; j < 2; j++)
            sums[j] = vfma(vload(a + i + j * LANES), vload_step(x + (i + j * LANES) * step, step, LANES), sums[j]);
    for (; i < n; i += LANES) { /* memory past the end of x's row may contain NaN */
        const vfloat left = vload_up_to(a + i, n - i), right = vload_step(x + i * step, step, n - i);
        float part[LANES];
        vstore(part, right);
        sums[0] = vfma(left, vload_up_to(part, n - i), sums[0]);
    }
    return sums[0] + sums[1];
}

/* Outputs first .. last - 1, numbered through all items and rows, where k's last axis is the long one: the gradient of
 * weights. */
static void correlate_direct(const launch *record, int64_t first, int64_t last)
{
    const int64_t *d = record->dims, groups = d[windows_f32_groups], m = d[windows_f32_m],
                  lines = d[windows_f32_k0] * d[windows_f32_k1] * d[windows_f32_k2], length = d[windows_f32_k3],
                  step = d[windows_f32_k_stride3];
    const int64_t n = d[windows_f32_j0] * d[windows_f32_j1] * d[windows_f32_j2] * d[windows_f32_j3];
    const float *bias = record->pointers[windows_f32_bias];
    for (int64_t at = first; at < last; at++) {
        const int64_t item = at / n / m, group = item % groups, row = group * m + at / n % m;
        const float *a = (const float *)record->pointers[windows_f32_a] + row * lines * length;
        const float *x = (const float *)record->pointers[windows_f32_x] + item / groups * d[windows_f32_x_batch] +
                         group * d[windows_f32_x_group] +
                         place_of(at % n, d + windows_f32_j0, d + windows_f32_j_stride0).offset;
        vfloat sum = vzero();
        place line = place_of(0, d + windows_f32_k0, d + windows_f32_k_stride0);
        for (int64_t i = 0; i < lines; i++, a += length) {
            const float *from = x + line.offset;
            sum += step == 1   ? dot_steps(a, from, length, 1)
                   : step == 2 ? dot_steps(a, from, length, 2)
                               : dot_steps(a, from, length, step);
            advance(&line, length, d + windows_f32_k0, d + windows_f32_k_stride0);
        }
        ((float *)record->pointers[windows_f32_c])[at] = (bias ? bias[row] : 0.0f) + vsum(sum);
    }
}

/* The same for more rows, of few windows: where panels would be half empty, in the sets whose panels are wide. Tiles
 * of TILE_ROWS x TILE_WINDOWS outputs run along lines of k together. */
enum { NARROW = LANES >= 8 ? PANEL / 2 : 0, TILE_ROWS = LANES == 16 ? 8 : 4, TILE_WINDOWS = 3 };

/* Rows first .. last - 1, numbered through all items. */
static void correlate_narrow(const launch *record, int64_t first, int64_t last)
{
    const int64_t *d = record->dims, groups = d[windows_f32_groups], m = d[windows_f32_m],
                  lines = d[windows_f32_k0] * d[windows_f32_k1] * d[windows_f32_k2], length = d[windows_f32_k3];
    const int64_t n = d[windows_f32_j0] * d[windows_f32_j1] * d[windows_f32_j2] * d[windows_f32_j3];
    const float *bias = record->pointers[windows_f32_bias];
    for (int64_t at = first, tall; at < last; at += tall) {
        const int64_t item = at / m, group = item % groups, row = group * m + at % m;
        const float *x = (const float *)record->pointers[windows_f32_x] + item / groups * d[windows_f32_x_batch] +
                         group * d[windows_f32_x_group];
        const float *a[TILE_ROWS];
        tall = last - at < TILE_ROWS ? last - at : TILE_ROWS;
        tall = tall < m - at % m ? tall : m - at % m;
        for (int r = 0; r < TILE_ROWS; r++) /* rows that are missing repeat the last one */
            a[r] = (const float *)record->pointers[windows_f32_a] + (row + (r < tall ? r : tall - 1)) * lines * length;
        for (int64_t j = 0; j < n; j += TILE_WINDOWS) {
            vfloat sums[TILE_ROWS][TILE_WINDOWS] = {0};
            int64_t offsets[TILE_WINDOWS];
            for (int w = 0; w < TILE_WINDOWS; w++)
                offsets[w] = place_of(j + w < n ? j + w : j, d + windows_f32_j0, d + windows_f32_j_stride0).offset;
            place line = place_of(0, d + windows_f32_k0, d + windows_f32_k_stride0);
            for (int64_t i = 0; i < lines; i++) {
                for (int64_t p = 0; p < length; p += LANES) {
                    const int64_t left = length - p;
                    vfloat right[TILE_WINDOWS];
                    UNROLL for (int w = 0; w < TILE_WINDOWS; w++) right[w] =
                        vload_up_to(x + line.offset + offsets[w] + p, left);
                    UNROLL for (int r = 0; r < TILE_ROWS; r++)
                    {
                        const vfloat of_row = vload_up_to(a[r] + i * length + p, left);
                        UNROLL for (int w = 0; w < TILE_WINDOWS; w++) sums[r][w] = vfma(of_row, right[w], sums[r][w]);
                    }
                }
                advance(&line, length, d + windows_f32_k0, d + windows_f32_k_stride0);
            }
            for (int r = 0; r < tall; r++)
                for (int w = 0; w < TILE_WINDOWS && j + w < n; w++)
                    ((float *)record->pointers[windows_f32_c])[(at + r) * n + j + w] =
                        (bias ? bias[row + r] : 0.0f) + vsum(sums[r][w]);
        }
    }
}

KERNEL(windows_f32)
{
    const int64_t *d = record->dims, groups = d[windows_f32_groups], m = d[windows_f32_m],
                  items = d[windows_f32_batch] * groups;
    int64_t k = 1, n = 1, first, last;
    for (int i = 0; i < AXES; i++)
        k *= d[windows_f32_k0 + i], n *= d[windows_f32_j0 + i];
    if (items <= 0 || m <= 0 || n <= 0)
        return KERNEL_OK;
    if (k <= 0 || d[windows_f32_j_stride3] < 1)
        return KERNEL_BAD_ARGUMENT;
    if (m <= FEW && d[windows_f32_j3] < d[windows_f32_k3] && d[windows_f32_k_stride3] > 0) {
        worker_share(items * m * n, 1, worker, workers, &first, &last);
        correlate_direct(record, first, last);
        return KERNEL_OK;
    }
    if (m <= FEW) {
        worker_share(items * (n / d[windows_f32_j3]), 1, worker, workers, &first, &last);
        convolve_direct(record, first, last);
        return KERNEL_OK;
    }
    if (NARROW > 0 && n <= NARROW && d[windows_f32_k_stride3] == 1 && d[windows_f32_k3] >= LANES / 2) {
        worker_share(items * m, TILE_ROWS, worker, workers, &first, &last);
        correlate_narrow(record, first, last);
        return KERNEL_OK;
    }
    /* Units are panels; if there are few, panels of a part of the rows. */
    const int64_t panels = (n + PANEL - 1) / PANEL, tall = (m + GEMM_ROWS - 1) / GEMM_ROWS;
    const int64_t wanted = (2 * workers + items * panels - 1) / (items * panels);
    const int64_t parts = workers == 1 ? 1 : wanted < tall ? wanted : tall;
    worker_share(items * parts * panels, 1, worker, workers, &first, &last);
    while (first < last) {
        const int64_t panel = first % panels, part = first / panels % parts, item = first / panels / parts;
        const int64_t stop = panel + last - first < panels ? panel + last - first : panels, group = item % groups;
        const range columns = {panel * PANEL, stop * PANEL < n ? stop * PANEL : n};
        const range rows = {tall * part / parts * GEMM_ROWS,
                            part + 1 < parts ? tall * (part + 1) / parts * GEMM_ROWS : m};
        const float *x = (const float *)record->pointers[windows_f32_x] + item / groups * d[windows_f32_x_batch] +
                         group * d[windows_f32_x_group];
        const windows w = {x, d + windows_f32_k0, d + windows_f32_k_stride0, d + windows_f32_j0,
                           d + windows_f32_j_stride0};
        product p = {.k = k, .a_row = k, .a_column = 1, .c_row = n};
        p.c = (float *)record->pointers[windows_f32_c] + item * m * n;
        p.a = (const float *)record->pointers[windows_f32_a] + group * m * k;
        p.row_add =
            record->pointers[windows_f32_bias] ? (const float *)record->pointers[windows_f32_bias] + group * m : NULL;
        gemm(&p, rows, columns, pack_windows, &w, KIND_F32);
        first += stop - panel;
    }
    return KERNEL_OK;
}
