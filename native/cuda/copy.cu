/* copy_strided: any view to any view of the same shape. */
#include "gpu.h"

KERNEL(copy_strided, PARTS(PRODUCT(rank, shape0), 256), 256, 0)
{
    const int64_t *d = record.dims, rank = d[copy_strided_rank], *shape = d + copy_strided_shape0;
    const int64_t bytes = d[copy_strided_element_bytes], count = view_count(rank, 6, shape);
    const int64_t *strides[2] = {d + copy_strided_to0, d + copy_strided_from0};
    if (bytes < 1 || count < 0) {
        report(KERNEL_BAD_ARGUMENT);
        return;
    }
    FOR_EACH(i, count)
    {
        int64_t at[2];
        offsets_of<2>(at, i, rank, shape, strides);
        copy_element(record.pointers[copy_strided_to], at[0], record.pointers[copy_strided_from], at[1], bytes);
    }
}
