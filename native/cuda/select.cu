/* Moving elements by condition and by index. Elements are copied as bytes; only operations that add, multiply or compare
 * use their values. */
#include "vectors.h"

DEVICE bool is_size(int64_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }
DEVICE bool is_index(int64_t type) { return type == TYPE_int64 || type == TYPE_int32; }

/* Vectors of elements of BYTES bytes; returns how many elements they have. */
template <int BYTES>
DEVICE int64_t where_vectors(const views<3> &of, void *y, const uint8_t *condition, const void *a, const void *b)
{
    constexpr int width = VECTOR / BYTES;
    const void *both[3] = {condition, a, b};
    int64_t vectors = is_aligned(y) ? vectors_in(of, both, width) : 0;
    uint4 x[UNDER_WAY], z[UNDER_WAY];
    bool first[UNDER_WAY][width];
    for_vectors(
        vectors,
        [&](int u, int64_t i) {
            int64_t at[3];
            find(at, i * width, of);
            x[u] = vector_at<BYTES>(a, at[1], of.strides[1][0]);
            z[u] = vector_at<BYTES>(b, at[2], of.strides[2][0]);
            const uint8_t *c = condition + at[0];
            if (of.strides[0][0] == 0)
                for (int k = 0; k < width; k++)
                    first[u][k] = *c;
            else if (width == 2) {
                const uint16_t two = *(const uint16_t *)c;
                for (int k = 0; k < width; k++)
                    first[u][k] = two >> 8 * k & 0xff;
            } else
                for (int word = 0; word < width / 4; word++) {
                    const uint32_t four = ((const uint32_t *)c)[word];
                    for (int k = 0; k < 4; k++)
                        first[u][4 * word + k] = four >> 8 * k & 0xff;
                }
        },
        [&](int u, int64_t i) {
            const uint32_t left[4] = {x[u].x, x[u].y, x[u].z, x[u].w}, right[4] = {z[u].x, z[u].y, z[u].z, z[u].w};
            uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
            for (int byte = 0; byte < VECTOR; byte += MIN(BYTES, 4)) {
                const uint32_t mask = BYTES >= 4 ? ~0u : ((1u << 8 * MIN(BYTES, 2)) - 1) << byte % 4 * 8;
                words[byte / 4] |= (first[u][byte / BYTES] ? left[byte / 4] : right[byte / 4]) & mask;
            }
            uint4 result;
            result.x = words[0], result.y = words[1], result.z = words[2], result.w = words[3];
            ((uint4 *)y)[i] = result;
        });
    return vectors * width;
}

KERNEL(where, VECTOR_BLOCKS(PRODUCT(rank, shape0)), 256, 0)
{
    __shared__ views<3> of;
    const int64_t *d = record.dims, *shape = d + where_shape0, bytes = d[where_element_bytes], rank = d[where_rank];
    const void *a = record.pointers[where_a], *b = record.pointers[where_b];
    const uint8_t *condition = (const uint8_t *)record.pointers[where_condition];
    void *y = record.pointers[where_y];
    const int64_t *strides[3] = {d + where_c0, a ? d + where_a0 : nullptr, b ? d + where_b0 : nullptr};
    if (!is_size(bytes) || view_count(rank, 5, shape) < 0) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    a = a ? a : d + where_a_bits;
    b = b ? b : d + where_b_bits;
    gather_dims(of, rank, shape, strides);
    int64_t done = 0;
    if (bytes == 2)
        done = where_vectors<2>(of, y, condition, a, b);
    else if (bytes == 4)
        done = where_vectors<4>(of, y, condition, a, b);
    else if (bytes == 8)
        done = where_vectors<8>(of, y, condition, a, b);
    FOR_EACH(rest, of.count - done)
    {
        int64_t at[3];
        find(at, done + rest, of);
        copy_element(y, done + rest, condition[at[0]] ? a : b, condition[at[0]] ? at[1] : at[2], bytes);
    }
}

KERNEL(gather, PARTS(PRODUCT(rank, shape0), 256), 256, 0)
{
    __shared__ views<2> of;
    const int64_t *d = record.dims, *shape = d + gather_shape0, bytes = d[gather_element_bytes];
    const int64_t rank = d[gather_rank], dim = d[gather_dim];
    if (!is_size(bytes) || view_count(rank, 6, shape) < 0 || dim < 0 || dim >= rank ||
        !is_index(d[gather_index_type])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    int64_t others[6];
    for (int k = 0; k < 6; k++)
        others[k] = k == dim ? 0 : d[gather_x0 + k];
    const int64_t *strides[2] = {d + gather_index0, others};
    gather_dims(of, rank, shape, strides);
    FOR_EACH(i, of.count)
    {
        int64_t at[2];
        find(at, i, of);
        const int64_t place = load_integer(record.pointers[gather_index], at[0], (int)d[gather_index_type]);
        if (place < 0 || place >= d[gather_size])
            report(KERNEL_INDEX_RANGE);
        else
            copy_element(record.pointers[gather_y], i, record.pointers[gather_x], at[1] + place * d[gather_x0 + dim],
                         bytes);
    }
}

/* ---- Combining a written value with the old one: in float32 for floats of 32 and 16 bits, rounded each time */

DEVICE void combine(void *y, int64_t at, const void *source, int64_t from, int64_t opcode, int type)
{
    if (opcode == SCATTER_set)
        copy_element(y, at, source, from, type_bytes(type));
    else if (type_in(type, TYPES_FLOAT)) {
        const double old = load_double(y, at, type), value = load_double(source, from, type);
        store_double(y, at, type,
                     opcode == SCATTER_add        ? old + value
                     : opcode == SCATTER_multiply ? old * value
                     : opcode == SCATTER_maximum  ? (value > old || value != value ? value : old)
                                                  : (value < old || value != value ? value : old));
    } else {
        const int64_t old = load_integer(y, at, type), value = load_integer(source, from, type);
        store_integer(y, at, type,
                      opcode == SCATTER_add        ? (int64_t)((uint64_t)old + (uint64_t)value)
                      : opcode == SCATTER_multiply ? (int64_t)((uint64_t)old * (uint64_t)value)
                      : opcode == SCATTER_maximum  ? (value > old ? value : old)
                                                   : (value < old ? value : old));
    }
}

CONSTANT uint32_t scatter_types[] = SCATTER_TYPES;

/* ---- scatter: lines along the dim are independent. A thread writes a whole line where there are many lines; else the
 * thread of the first element for a place writes that place, with all later elements for it. */

enum { MANY_LINES = 1024, LONG_LINE = 16384 };

STEP(scatter, 0, PARTS(PRODUCT(rank, shape0), 256), 256, 0)
{
    const int64_t *d = record.dims, *shape = d + scatter_shape0, opcode = d[scatter_opcode], rank = d[scatter_rank];
    const int64_t count = view_count(rank, 4, shape);
    if (count < 0 || rank < 1 || opcode < 0 || opcode >= SCATTER_COUNT ||
        !type_in(d[scatter_type], scatter_types[opcode]) || d[scatter_dim] < 0 || d[scatter_dim] >= rank ||
        !is_index(d[scatter_index_type])) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, count)
    {
        const int64_t at = offset_of(i, rank, shape, d + scatter_index0);
        const int64_t place = load_integer(record.pointers[scatter_index], at, (int)d[scatter_index_type]);
        if (place < 0 || place >= d[scatter_size])
            report(KERNEL_INDEX_RANGE);
    }
}

KERNEL(scatter, CHOOSE(rank <= 4, PARTS(PRODUCT(rank, shape0), 256), -1), 256, 0)
{
    const int64_t *d = record.dims, opcode = d[scatter_opcode], rank = d[scatter_rank], dim = d[scatter_dim];
    const void *source = record.pointers[scatter_source], *index = record.pointers[scatter_index];
    void *y = record.pointers[scatter_y];
    const int type = (int)d[scatter_type], index_type = (int)d[scatter_index_type];
    int64_t shape[4], number;
    if (failed)
        return;
    for (int k = 0; k < 4; k++)
        shape[k] = d[scatter_shape0 + k];
    const int64_t length = shape[dim], index_step = d[scatter_index0 + dim];
    const int64_t source_step = source ? d[scatter_source0 + dim] : 0, y_step = d[scatter_y0 + dim];
    shape[dim] = 1; /* what is left has one element for each line */
    const int64_t lines = view_count(rank, 4, shape);
    const int64_t *strides[3] = {d + scatter_y0, d + scatter_index0, source ? d + scatter_source0 : nullptr};
    if (type_in(type, TYPES_FLOAT))
        store_double(&number, 0, type, real_of(d[scatter_number]));
    else
        store_integer(&number, 0, type, d[scatter_number]);
    source = source ? source : &number;
    const bool by_line = lines >= MANY_LINES || length > LONG_LINE;
    FOR_EACH(i, by_line ? lines : lines * length)
    {
        int64_t at[3];
        offsets_of<3>(at, by_line ? i : i / length, rank, shape, strides);
        if (by_line) {
            for (int64_t k = 0; k < length; k++) {
                const int64_t place = load_integer(index, at[1] + k * index_step, index_type);
                combine(y, at[0] + place * y_step, source, at[2] + k * source_step, opcode, type);
            }
            continue;
        }
        const int64_t own = i % length, place = load_integer(index, at[1] + own * index_step, index_type);
        bool first = true;
        for (int64_t k = 0; k < own && first; k++)
            first = load_integer(index, at[1] + k * index_step, index_type) != place;
        for (int64_t k = own; k < length && first; k++)
            if (load_integer(index, at[1] + k * index_step, index_type) == place)
                combine(y, at[0] + place * y_step, source, at[2] + k * source_step, opcode, type);
    }
}

/* ---- Several index tensors at once */

enum { INDICES = 4 };

/* Offset of the block that entry n selects; -1 where an index is out of range. */
DEVICE int64_t selected(void *const *indices, const int64_t *size, const int64_t *stride, bool negative, int64_t n)
{
    int64_t offset = 0;
    for (int k = 0; k < INDICES; k++) {
        if (!indices[k])
            continue;
        int64_t place = ((const int64_t *)indices[k])[n];
        if (place < 0 && negative)
            place += size[k];
        if (place < 0 || place >= size[k])
            return -1;
        offset += place * stride[k];
    }
    return offset;
}

KERNEL(index_get, PARTS(outer *count *inner, 256), 256, 0)
{
    const int64_t *d = record.dims, bytes = d[index_get_element_bytes], count = d[index_get_count],
                  inner = d[index_get_inner];
    if (!is_size(bytes) || inner < 0) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, d[index_get_outer] * count * inner)
    {
        const int64_t at = i / inner;
        const int64_t offset = selected(record.pointers + index_get_index0, d + index_get_size0, d + index_get_stride0,
                                        d[index_get_negative], at % count);
        if (offset < 0)
            report(KERNEL_INDEX_RANGE);
        else
            copy_element(record.pointers[index_get_y], i, record.pointers[index_get_x],
                         at / count * d[index_get_x_outer] + offset + i % inner, bytes);
    }
}

STEP(index_put, 0, PARTS(count, 256), 256, 0)
{
    const int64_t *d = record.dims, opcode = d[index_put_opcode];
    if (opcode < 0 || opcode >= SCATTER_COUNT || !type_in(d[index_put_type], scatter_types[opcode]) ||
        !record.pointers[index_put_index0]) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(n, d[index_put_count])
    if (selected(record.pointers + index_put_index0, d + index_put_size0, d + index_put_stride0, true, n) < 0)
        report(KERNEL_INDEX_RANGE);
}

/* A block for each entry: the first entry for a place writes that place, with all later entries for it, in their order. */
KERNEL(index_put, outer *count, 128, 0)
{
    const int64_t *d = record.dims, count = d[index_put_count], inner = d[index_put_inner];
    void *const *indices = record.pointers + index_put_index0;
    const int64_t *size = d + index_put_size0, *stride = d + index_put_stride0;
    if (failed)
        return;
    FOR_EACH_BLOCK(i, d[index_put_outer] * count)
    {
        const int64_t o = i / count, own = i % count, to = selected(indices, size, stride, true, own);
        int earlier = 0;
        FOR_THREADS(n, own)
        earlier |= selected(indices, size, stride, true, n) == to;
        if (block_sum(earlier))
            continue;
        for (int64_t n = own; n < count; n++)
            if (selected(indices, size, stride, true, n) == to)
                FOR_THREADS(k, inner)
        combine(record.pointers[index_put_y], o * d[index_put_y_outer] + to + k, record.pointers[index_put_source],
                o * d[index_put_source_outer] + n * d[index_put_source_count] + k * d[index_put_source_inner],
                d[index_put_opcode], (int)d[index_put_type]);
    }
}
