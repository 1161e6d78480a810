/* New values: constants, ranges, triangles, and one-hot rows. */
#include "vectors.h"

KERNEL(fill, VECTOR_BLOCKS(count), 256, 0)
{
    const int64_t *d = record.dims, number = d[fill_number], count = d[fill_count];
    void *y = record.pointers[fill_y];
    uint64_t one = 0; /* the bits of an element */
    if (!is_type(d[fill_type])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)d[fill_type], bytes = (int)type_bytes(type), width = VECTOR / bytes;
    if (type_in(type, TYPES_FLOAT | TYPES_FLOAT8))
        store_double(&one, 0, type, real_of(number));
    else
        store_integer(&one, 0, type, number);
    const uint4 all = bytes == 8   ? spread<8>(&one, 0)
                      : bytes == 4 ? spread<4>(&one, 0)
                      : bytes == 2 ? spread<2>(&one, 0)
                                   : spread<1>(&one, 0);
    const int64_t vectors = is_aligned(y) ? count / width : 0;
    for_vectors(vectors, [](int, int64_t) {}, [&](int, int64_t i) { ((uint4 *)y)[i] = all; });
    FOR_EACH(i, count - vectors * width) copy_element(y, vectors * width + i, &one, 0, bytes);
}

KERNEL(arange, PARTS(count, 256), 256, 0)
{
    const int64_t *d = record.dims;
    if (!type_in(d[arange_type], TYPES_FLOAT | TYPES_INTEGER)) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    const int type = (int)d[arange_type];
    const bool real = type_in(type, TYPES_FLOAT);
    const double start = real_of(d[arange_start]), step = real_of(d[arange_step]);
    FOR_EACH(i, d[arange_count])
    if (real)
        store_double(record.pointers[arange_y], i, type, start + (double)i * step);
    else
        store_integer(record.pointers[arange_y], i, type,
                      (int64_t)((uint64_t)d[arange_start] + (uint64_t)i * (uint64_t)d[arange_step]));
}

KERNEL(triangular, PARTS(batch *rows *columns, 256), 256, 0)
{
    const int64_t *d = record.dims, bytes = d[triangular_element_bytes], rows = d[triangular_rows],
                  columns = d[triangular_columns];
    const int64_t zero = 0;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[triangular_batch] * rows * columns)
    {
        const int64_t column = i % columns, row = i / columns % rows, matrix = i / columns / rows;
        const int64_t above = column - row - d[triangular_diagonal];
        const bool keeps = d[triangular_upper] ? above >= 0 : above <= 0;
        const int64_t at = matrix * d[triangular_x_batch] + row * d[triangular_x_row] + column * d[triangular_x_column];
        copy_element(record.pointers[triangular_y], i, keeps ? record.pointers[triangular_x] : &zero, keeps ? at : 0,
                     bytes);
    }
}

KERNEL(one_hot, PARTS(count *MAX(classes, 1), 256), 256, 0)
{
    const int64_t *d = record.dims, classes = d[one_hot_classes];
    if (!is_type(d[one_hot_type]) || !type_in(d[one_hot_index_type], BIT(TYPE_int64) | BIT(TYPE_int32))) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[one_hot_count] * classes)
    {
        const int64_t row = i / classes;
        const int64_t place = load_integer(record.pointers[one_hot_index], row, (int)d[one_hot_index_type]);
        if (place < 0 || place >= classes)
            report(KERNEL_INDEX_RANGE);
        store_double(record.pointers[one_hot_y], i, (int)d[one_hot_type], i - row * classes == place);
    }
}
