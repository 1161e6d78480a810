/* The kernels that the page's libraries have no room for: they are downloaded. Each does nothing with nothing, which its
 * first dim says, and refuses all else; Python computes it otherwise there. */
#include "simd.h"

#if defined(__wasm__)
#define QUOTED(name) #name
#define NAME_OF(name) QUOTED(name)
#define ABSENT(name) int SUFFIXED(name)(const launch *, int, int) __attribute__((alias(NAME_OF(SUFFIXED(absent)))));

int SUFFIXED(absent)(const launch *record, int worker, int workers)
{
    return record->dims[quantize_blocks_rows] ? KERNEL_BAD_ARGUMENT : KERNEL_OK; /* the first dim of each */
}
ABSENT(pack_convolution_f32)
ABSENT(convolution_channels_last_f32)
ABSENT(depthwise_channels_last_f32)
ABSENT(expanded_depthwise_channels_last_f32)
ABSENT(pool_channels_last_f32)
ABSENT(quantize_blocks)
ABSENT(selective_scan_f32)
ABSENT(indexer_scores)
ABSENT(indexer_places)
ABSENT(find_not_finite)
ABSENT(fourier_f32)
ABSENT(distances_f32)
ABSENT(distances_backward_f32)
ABSENT(grid_sample_f32)
ABSENT(grid_sample_backward_f32)
ABSENT(resample)
ABSENT(embedding_bag_f32)
ABSENT(nll_loss_f32)
ABSENT(cross_entropy_planes_f32)
ABSENT(lstm_cell_f64)
ABSENT(lstm_cell_backward_f64)
ABSENT(gru_cell_f64)
ABSENT(gru_cell_backward_f64)
ABSENT(cholesky)
ABSENT(lu_factor)
ABSENT(qr)
ABSENT(eigh)
ABSENT(svd)
ABSENT(solve_triangular)
#endif
