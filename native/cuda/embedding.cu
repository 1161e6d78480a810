/* Rows of a table by id, as they are or (of 16-bit tables) widened to float32. Ids are checked before anything is
 * written. */
#include "gpu.h"

DEVICE void check_ids(const launch &record, int32_t *status, int64_t tokens, int64_t vocabulary, int type)
{
    FOR_EACH(i, tokens)
    {
        const int64_t id = load_integer(record.pointers[embedding_copy_ids], i, type);
        if (id < 0 || id >= vocabulary)
            report(KERNEL_INDEX_RANGE);
    }
}

STEP(embedding_copy, 0, PARTS(tokens, 256), 256, 0)
{
    const int64_t *d = record.dims, id_bytes = d[embedding_copy_id_bytes];
    if (d[embedding_copy_element_bytes] < 1 || (id_bytes != 4 && id_bytes != 8))
        report(KERNEL_BAD_ARGUMENT);
    else
        check_ids(record, status, d[embedding_copy_tokens], d[embedding_copy_vocabulary],
                  id_bytes == 8 ? TYPE_int64 : TYPE_int32);
}

KERNEL(embedding_copy, PARTS(tokens *columns, 256), 256, 0)
{
    const int64_t *d = record.dims, columns = d[embedding_copy_columns];
    const int type = d[embedding_copy_id_bytes] == 8 ? TYPE_int64 : TYPE_int32;
    if (failed)
        return;
    FOR_EACH(i, d[embedding_copy_tokens] * columns)
    {
        const int64_t id = load_integer(record.pointers[embedding_copy_ids], i / columns, type);
        copy_element(record.pointers[embedding_copy_y], i / columns * d[embedding_copy_y_stride] + i % columns,
                     record.pointers[embedding_copy_w], id * columns + i % columns, d[embedding_copy_element_bytes]);
    }
}

DEVICE void widen_rows(const launch &record, int type)
{
    const int64_t *d = record.dims, columns = d[embedding_f16_columns];
    FOR_EACH(i, d[embedding_f16_tokens] * columns)
    {
        const int64_t id = ((const int32_t *)record.pointers[embedding_f16_ids])[i / columns];
        ((float *)record.pointers[embedding_f16_y])[i / columns * d[embedding_f16_y_stride] + i % columns] =
            load_float(record.pointers[embedding_f16_w], id * columns + i % columns, type);
    }
}

STEP(embedding_f16, 0, PARTS(tokens, 256), 256, 0)
{
    check_ids(record, status, record.dims[embedding_f16_tokens], record.dims[embedding_f16_vocabulary], TYPE_int32);
}

KERNEL(embedding_f16, PARTS(tokens *columns, 256), 256, 0)
{
    if (!failed)
        widen_rows(record, TYPE_float16);
}

STEP(embedding_bf16, 0, PARTS(tokens, 256), 256, 0)
{
    check_ids(record, status, record.dims[embedding_bf16_tokens], record.dims[embedding_bf16_vocabulary], TYPE_int32);
}

KERNEL(embedding_bf16, PARTS(tokens *columns, 256), 256, 0)
{
    if (!failed)
        widen_rows(record, TYPE_bfloat16);
}

STEP(embedding_backward_f32, 0, PARTS(tokens, 256), 256, 0)
{
    check_ids(record, status, record.dims[embedding_backward_f32_tokens],
              record.dims[embedding_backward_f32_vocabulary], TYPE_int32);
}

STEP(embedding_backward_f32, 2, PARTS(vocabulary *columns, 256), 256, 0)
{
    if (failed)
        return;
    FOR_EACH(i, record.dims[embedding_backward_f32_vocabulary] * record.dims[embedding_backward_f32_columns])
    ((float *)record.pointers[embedding_backward_f32_grad_w])[i] = 0;
}

/* A block for each token: that of the first with an id adds the rows of all with this id, in their order. */
KERNEL(embedding_backward_f32, tokens, 128, 0)
{
    const int64_t *d = record.dims, tokens = d[embedding_backward_f32_tokens],
                  columns = d[embedding_backward_f32_columns];
    const int32_t *ids = (const int32_t *)record.pointers[embedding_backward_f32_ids];
    const float *grad_y = (const float *)record.pointers[embedding_backward_f32_grad_y];
    if (failed)
        return;
    FOR_EACH_BLOCK(token, tokens)
    {
        float *to = (float *)record.pointers[embedding_backward_f32_grad_w] + ids[token] * columns;
        int earlier = 0;
        FOR_THREADS(i, token) earlier |= ids[i] == ids[token];
        if (block_sum(earlier))
            continue;
        for (int64_t other = token; other < tokens; other++)
            if (ids[other] == ids[token])
                FOR_THREADS(i, columns) to[i] += grad_y[other * columns + i];
    }
}
