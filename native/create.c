/* New values: constants, ranges, triangles, and one-hot rows. */
#include "elements.h"

static int same_bytes(void *y, int64_t first, int64_t last, const void *element, int64_t bytes)
{
#define FILL(type)                                                                                                     \
    {                                                                                                                  \
        type value;                                                                                                    \
        memcpy(&value, element, sizeof value);                                                                         \
        for (int64_t i = first; i < last; i++)                                                                         \
            ((type *)y)[i] = value;                                                                                    \
    }
    if (bytes == 4)
        FILL(any32)
    else if (bytes == 8)
        FILL(any64)
    else if (bytes == 2)
        FILL(any16)
    else
        FILL(uint8_t)
    return KERNEL_OK;
}

KERNEL(fill)
{
    const int64_t *d = record->dims, count = d[fill_count];
    int64_t first, last;
    if (count < 0 || !is_type(d[fill_type]))
        return KERNEL_BAD_ARGUMENT;
    const int type = (int)d[fill_type];
    uint64_t element;
    if (type_in(type, TYPES_FLOAT | TYPES_FLOAT8)) {
        double real;
        memcpy(&real, d + fill_number, sizeof real);
        write_doubles(&element, type, 0, &real, 1);
    } else
        write_integers(&element, type, 0, d + fill_number, 1);
    worker_share(count, ELEMENT_SHARE, worker, workers, &first, &last);
    return same_bytes(record->pointers[fill_y], first, last, &element, type_bytes(type));
}

KERNEL(arange)
{
    const int64_t *d = record->dims, count = d[arange_count];
    int64_t first, last;
    if (count <= 0)
        return count ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (!type_in(d[arange_type], TYPES_FLOAT | TYPES_INTEGER))
        return KERNEL_BAD_ARGUMENT;
    const int type = (int)d[arange_type], is_real = type_in(type, TYPES_FLOAT);
    double start, step;
    memcpy(&start, d + arange_start, sizeof start);
    memcpy(&step, d + arange_step, sizeof step);
    worker_share(count, ELEMENT_SHARE, worker, workers, &first, &last);
    for (int64_t at = first; at < last; at += PART) {
        const int64_t n = last - at < PART ? last - at : PART;
        union {
            double real[PART];
            int64_t whole[PART];
        } part;
        for (int64_t i = 0; i < n; i++)
            if (is_real)
                part.real[i] = start + (double)(at + i) * step;
            else
                part.whole[i] = (int64_t)((uint64_t)d[arange_start] + (uint64_t)(at + i) * (uint64_t)d[arange_step]);
        if (is_real)
            write_doubles(record->pointers[arange_y], type, at, part.real, n);
        else
            write_integers(record->pointers[arange_y], type, at, part.whole, n);
    }
    return KERNEL_OK;
}

KERNEL(triangular)
{
    const int64_t *d = record->dims, bytes = d[triangular_element_bytes], rows = d[triangular_rows],
                  columns = d[triangular_columns], batch = d[triangular_batch];
    int64_t first, last;
    if (batch <= 0 || rows <= 0 || columns <= 0)
        return batch < 0 || rows < 0 || columns < 0 ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return KERNEL_BAD_ARGUMENT;
    const int type = bytes == 8 ? TYPE_int64 : bytes == 4 ? TYPE_int32 : bytes == 2 ? TYPE_int16 : TYPE_uint8;
    worker_share(batch * rows, 1, worker, workers, &first, &last);
    for (int64_t at = first; at < last; at++) {
        const int64_t row = at % rows;
        const char *from = (const char *)record->pointers[triangular_x] +
                           (at / rows * d[triangular_x_batch] + row * d[triangular_x_row]) * bytes;
        char *to = (char *)record->pointers[triangular_y] + at * columns * bytes;
        int64_t edge =
            row + d[triangular_diagonal] + (d[triangular_upper] ? 0 : 1); /* columns before it are the lower part */
        edge = edge < 0 ? 0 : edge < columns ? edge : columns;
        const int64_t begin = d[triangular_upper] ? edge : 0, end = d[triangular_upper] ? columns : edge;
        const view line = {from, type, 1, {columns}, {d[triangular_x_column]}};
        memset(to, 0, (size_t)(begin * bytes));
        memset(to + end * bytes, 0, (size_t)((columns - end) * bytes));
        for (int64_t i = begin; i < end; i += PART) {
            const int64_t n = end - i < PART ? end - i : PART;
            uint64_t part[PART];
            const void *run = read_bits(part, &line, i, n, bytes);
            if (run != to + i * bytes)
                memcpy(to + i * bytes, run, (size_t)(n * bytes));
        }
    }
    return KERNEL_OK;
}

KERNEL(one_hot)
{
    const int64_t *d = record->dims, count = d[one_hot_count], classes = d[one_hot_classes];
    int64_t first, last;
    if (count <= 0)
        return count ? KERNEL_BAD_ARGUMENT : KERNEL_OK;
    if (classes < 0 || !is_type(d[one_hot_type]) ||
        (d[one_hot_index_type] != TYPE_int64 && d[one_hot_index_type] != TYPE_int32))
        return KERNEL_BAD_ARGUMENT;
    const int type = (int)d[one_hot_type];
    const int64_t bytes = type_bytes(type), one = 1;
    const double real = 1;
    const view index = {record->pointers[one_hot_index], (int)d[one_hot_index_type], 1, {count}, {1}};
    char *y = record->pointers[one_hot_y];
    worker_share(count, 1, worker, workers, &first, &last);
    for (int64_t at = first; at < last; at++) {
        int64_t place;
        read_integers(&place, &index, at, 1);
        if (place < 0 || place >= classes)
            return KERNEL_INDEX_RANGE;
        memset(y + at * classes * bytes, 0, (size_t)(classes * bytes));
        if (type_in(type, TYPES_FLOAT | TYPES_FLOAT8))
            write_doubles(y, type, at * classes + place, &real, 1);
        else
            write_integers(y, type, at * classes + place, &one, 1);
    }
    return KERNEL_OK;
}
