/* The kernels: every name and argument order, read by C (as an X-macro) and by Python (engine/native.py parses the
 * KERNEL lines). A record names one kernel and holds its arguments in three groups of fixed slots: pointers,
 * dims (int64) and floats (f32), in the order that the signature "pointers | dims | floats" gives.
 *
 * Rules: a kernel is a leaf (no allocation, no stdio, no globals); worker w of n computes its own share of the output
 * elements and every element is computed by one worker, so results do not depend on the number of workers; strides are
 * in elements; a pointer whose name ends in '?' may be NULL; zero sizes are legal and do nothing; inputs may be
 * unaligned to anything beyond their own element size. Where y and x have the same shape, y may be x itself.
 * A kernel returns 0, or one of the KERNEL_* codes below.
 *
 * Values that change between replays of a Graph (token ids, position) are read through int32 pointers.
 */
#ifndef PYAPP_KERNELS_H
#define PYAPP_KERNELS_H
#include <stdint.h>

#define LAUNCH_POINTERS 8
#define LAUNCH_DIMS 24
#define LAUNCH_FLOATS 4
#define ATTENTION_ROWS 48 /* what the workspace of attention_train is made of */
#define ATTENTION_KEY_UNIT 24
#define ATTENTION_Q8_KEYS 64  /* values that share scales */
#define ATTENTION_Q8_DIMS 256 /* at most */

typedef struct launch {
    int32_t kernel; /* index in KERNELS */
    int32_t work;   /* estimated multiply-adds or elements in thousands: few are not worth waking workers for */
    void *pointers[LAUNCH_POINTERS];
    int64_t dims[LAUNCH_DIMS];
    float floats[LAUNCH_FLOATS];
} launch;

typedef int kernel_function(const launch *record, int worker, int workers);

enum {
    KERNEL_OK = 0,
    KERNEL_INDEX_RANGE = 1,
    KERNEL_POSITION_RANGE = 2,
    KERNEL_BAD_ARGUMENT = 3,
    KERNEL_CANCELLED = 4
};

/* Packed int8 weights, formats q8_0 (one f16 scale per row and block) and q8_group (one f32 scale): rows padded to 8,
 * columns padded to 32; for each band of 8 rows, for each block of 32 columns: 8 scales, then 256 bytes: for each step
 * of 4 columns (8 of them), row 0 columns 0..3, row 1 columns 0..3, ... row 7 columns 0..3. Padding is zero.
 * Quantised activations (quantize_rows): for each row, for each block of 32 columns: 32 int8, f32 scale, int32 sum of
 * the 32 int8: 40 bytes. Columns are padded with zeros to a multiple of 32. Rounding: nearest, ties away from zero
 * (roundf), scale = absmax / 127, as in llama.cpp and llama2.c.
 *
 * linear_*: y[m, n] = sum_k x[m, k] * w[n, k] (+ residual[m, n]); w is row-major (outputs, inputs), contiguous.
 * matmul_f32: c[b, m, n] = sum_k a[b, m, k] * b[b, k, n], any strides.
 * rope: table is (positions, head_dim / 2, 2) of cos and sin; row t of x (token_stride apart) stands at position
 *   position[0] + t; interleaved 1: pairs (2i, 2i + 1), 0: pairs (i, i + head_dim / 2).
 * cache_write: cache (heads, capacity, head_dim) receives x (tokens, heads, head_dim) at positions position[0] + t.
 * attention: y, q (tokens, heads, head_dim); k, v (kv_heads, capacity, head_dim), query head h reads kv head
 *   h / (heads / kv_heads); row t sees cached positions 0 .. position[0] + t when causal is 1, else all
 *   0 .. position[0] + tokens - 1. Scores are multiplied by scale.
 * attention_train: y, q (batch, tokens, heads, head_dim); k, v (batch, keys, kv_heads, head_dim); batch entries and tokens
 *   of q, k, v any strides apart, y and all gradients dense. causal: row t sees keys 0 .. keys - tokens + t, with
 *   keys >= tokens. A hidden key weighs 0. workspace: for each of at most `workspaces` workers (the others stay idle)
 *   4 * (S + 48) * D + 96 * S floats, with S = keys up to a multiple of 24 and D = head_dim up to a multiple of 16.
 * attention_q8: as attention where every row sees all `keys`, k and v packed from x (tokens, heads, head_dim), tokens
 *   x_stride apart, head after head, head_dim <= 256. pack_keys_q8: for each 8 keys: 8 f32 scales; for each 4 columns, 4
 *   bytes of key 0, of key 1, ... key 7; what the keys are less, and what is added to the bytes, is the machine's own.
 *   pack_values_q8: for each 64 keys: a f32 scale for each column; for each 4 keys, 4 int8 of column 0, of column 1, ....
 *   Columns are padded to 4 for keys, to 8 for values; keys to 8 and 64.
 * silu_mul: row of x is [gate | up], each `columns` wide: y = silu(gate) * up.
 * embedding_*: y[t] = w[ids[t]]; id outside 0 .. vocabulary - 1: KERNEL_INDEX_RANGE.
 * embedding_backward: grad_w[id] = sum of the rows of grad_y whose id it is, in their order; no row: 0.
 * Elementwise: y[i] = a[i / a_repeat % a_period] op b[i / b_repeat % b_period], i < count (period = count: plain; 1: a
 *   scalar; columns: a row; rows with repeat = columns: a column). A repeat of 0 is 1. An operand that is NULL is `number`.
 * sample: temperature, top-k, top-p, min-p over logits after the repetition penalty of the ids in history[0..count-1]
 *   (history may be NULL). candidates is scratch of 2 * vocabulary 32-bit words. uniform[0] in [0, 1) is the draw.
 *   temperature <= 0: argmax. top_k 0, top_p >= 1 (or <= 0), min_p 0, penalty 1: off. NaN logits: KERNEL_BAD_ARGUMENT.
 * adamw: settings are seven f32: rate, beta1, beta2, epsilon, weight_decay, 1 - beta1^t, 1 - beta2^t; decoupled decay as
 *   in torch.optim.AdamW. linear's residual_stride 0 adds one row (a bias) to every row.
 * ctc: loss (count) and grad of log_probs (steps, count, classes) for int32 labels (count, most); int32 (count) times and
 *   lengths say how much of each sample counts, at most steps and most. scratch: for each of at most `workspaces` workers
 *   `room` floats, a multiple of 16, at least (steps + 7) (W + 32) with W = 2 most + 1 up to a multiple of 16.
 * layer_norm_backward writes of each row its mean and 1 / sqrt(variance + epsilon) to statistics (rows, 2), which
 *   layer_norm_weights_backward reads. grad_x may be grad_y or x where the weights' gradients are not wanted after it.
 * fold: the gradient of taking windows. windows (batch, window_rows, size, channels), y (batch, length, channels):
 *   y[b, i] = sum over j of windows[b, (i + padding - j) / stride, j], where that row exists.
 * windows: c[b, g] (m, j0 j1 j2 j3) = a[g] (m, k0 k1 k2 k3) times what lies in x, batch entries and groups x_batch and
 *   x_group apart, at the sums of digits of k and of j times their strides (not negative, of j3 not 0); plus bias[g] (m)
 *   by rows. Past the last element of x, 128 floats more must be readable.
 * power_spectrum: y (size / 2 + 1, frames), rows y_stride apart: |transform|^2 of samples[t * hop .. t * hop + size - 1]
 *   times the periodic Hann window. roots (size, 2): cos and sin of 2 pi i / size. size is twice a product of 2s and 5s,
 *   at most 512.
 * log_mel: y (mels, frames): log10 of the sum of filters (mels, size / 2 + 1) times power, at least `smallest` (a normal
 *   positive number); int32 ranges (mels, 2): first and one past the last bin of each filter.
 * *_blocks: weights in GGML's block types, `type` by GGML's code (blocks.h), row after row as files have them; but q4_0,
 *   q4_K and q6_K packed for linear_blocks: for each band of 8 rows, for each of GGML's blocks: the 8 rows' f16 scales
 *   (q4_K: and 8 f16 minimums); for each 32 columns: 8 scales and 8 minimums of six bits as bytes (q4_K), or 8 int8
 *   scales of the first 16 and 8 of the last 16 columns (q6_K), nothing (q4_0); then 128 bytes of nibbles: for each 4 of
 *   the first 16 columns (low nibbles; high ones: 16 columns on), row 0's 4, row 1's 4, ...; then (q6_K) 64 bytes of two
 *   bits: in vector u, from the lowest, those of columns 8u .., 16 + 8u .., 8u + 4 .., 20 + 8u ... Rows padded to 8.
 * random_uniform / random_normal: Philox4x32-10 with key = seed and counter = offset + i / 4; element i takes word i % 4;
 *   uniform = (word >> 8) * 2^-24; normal = Box-Muller on word pairs (2j, 2j+1). Same bits on every platform for uniform.
 */
#define KERNELS(KERNEL)                                                                                                \
    KERNEL(copy_bytes, "to from | bytes |")                                                                            \
    KERNEL(copy_strided,                                                                                               \
           "to from | element_bytes rank shape0 shape1 shape2 shape3 shape4 shape5 to0 to1 to2 to3 to4 to5 "           \
           "from0 from1 from2 from3 from4 from5 |")                                                                    \
    KERNEL(fill_f32, "y | count | value")                                                                              \
    KERNEL(f16_to_f32, "y x | count |")                                                                                \
    KERNEL(f32_to_f16, "y x | count |")                                                                                \
    KERNEL(bf16_to_f32, "y x | count |")                                                                               \
    KERNEL(f32_to_bf16, "y x | count |")                                                                               \
    KERNEL(linear_f32, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")                    \
    KERNEL(linear_f16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")                    \
    KERNEL(linear_bf16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")                   \
    KERNEL(linear_q8_0, "y xq w residual? | rows outputs inputs y_stride residual_stride |")                           \
    KERNEL(linear_q8_group, "y xq w residual? | rows outputs inputs y_stride residual_stride |")                       \
    KERNEL(matmul_f32, "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row |")            \
    KERNEL(quantize_rows, "xq x | rows columns x_stride |")                                                            \
    KERNEL(pack_q8_0, "packed blocks | rows columns |")                                                                \
    KERNEL(pack_q8_group, "packed quants scales | rows columns group |")                                               \
    KERNEL(quantize_q8_0, "packed x | rows columns x_stride |")                                                        \
    KERNEL(unpack_q8_0, "y packed | rows columns |")                                                                   \
    KERNEL(unpack_q8_group, "y packed | rows columns |")                                                               \
    KERNEL(rms_norm_f32, "y x weight | rows columns y_stride x_stride | epsilon")                                      \
    KERNEL(rms_norm_backward_f32, "grad_x grad_weight x weight grad_y | rows columns | epsilon")                       \
    KERNEL(softmax_f32, "y x | rows columns y_stride x_stride |")                                                      \
    KERNEL(softmax_backward_f32, "grad_x y grad_y | rows columns |")                                                   \
    KERNEL(log_softmax_f32, "y x | rows columns y_stride x_stride |")                                                  \
    KERNEL(rope_f32, "y x table position? | tokens heads head_dim y_stride x_stride positions interleaved |")          \
    KERNEL(cache_write_f32, "cache x position | tokens heads head_dim capacity x_stride |")                            \
    KERNEL(attention_f32,                                                                                              \
           "y q k v position | tokens heads kv_heads head_dim capacity y_stride q_stride causal | scale")              \
    KERNEL(attention_train_f32,                                                                                        \
           "y q k v workspace | batch tokens keys heads kv_heads head_dim q_batch q_token k_batch k_token "            \
           "v_batch v_token causal workspaces | scale")                                                                \
    KERNEL(attention_train_backward_f32,                                                                               \
           "grad_q grad_k grad_v q k v grad_y workspace | batch tokens keys heads kv_heads head_dim q_batch q_token "  \
           "k_batch k_token v_batch v_token causal workspaces | scale")                                                \
    KERNEL(silu_mul_f32, "y x | rows columns y_stride x_stride |")                                                     \
    KERNEL(silu_mul_backward_f32, "grad_x x grad_y | rows columns |")                                                  \
    KERNEL(embedding_f32, "y w ids | tokens columns vocabulary y_stride |")                                            \
    KERNEL(embedding_f16, "y w ids | tokens columns vocabulary y_stride |")                                            \
    KERNEL(embedding_bf16, "y w ids | tokens columns vocabulary y_stride |")                                           \
    KERNEL(embedding_q8_0, "y w ids | tokens columns vocabulary y_stride |")                                           \
    KERNEL(embedding_q8_group, "y w ids | tokens columns vocabulary y_stride |")                                       \
    KERNEL(embedding_backward_f32, "grad_w grad_y ids | tokens columns vocabulary |")                                  \
    KERNEL(add_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")                                    \
    KERNEL(sub_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")                                    \
    KERNEL(mul_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")                                    \
    KERNEL(div_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")                                    \
    KERNEL(exp_f32, "y x | count |")                                                                                   \
    KERNEL(silu_f32, "y x | count |")                                                                                  \
    KERNEL(sum_rows_f32, "y x | rows columns x_stride |")                                                              \
    KERNEL(argmax_f32, "index x | rows columns x_stride |")                                                            \
    KERNEL(sample_f32, "token logits history? uniform candidates | vocabulary history_count top_k | "                  \
                       "temperature top_p min_p penalty")                                                              \
    KERNEL(random_uniform, "y | count seed offset |")                                                                  \
    KERNEL(random_normal, "y | count seed offset |")                                                                   \
    KERNEL(cross_entropy_f32, "loss grad_logits? logits targets | rows columns ignore_index | grad_scale")             \
    KERNEL(adamw_f32, "parameter m v grad settings | count |")                                                         \
    KERNEL(layer_norm_f32, "y x weight bias | rows columns y_stride x_stride | epsilon")                               \
    KERNEL(layer_norm_backward_f32, "grad_x statistics x weight grad_y | rows columns | epsilon")                      \
    KERNEL(layer_norm_weights_backward_f32, "grad_weight grad_bias x statistics grad_y | rows columns |")              \
    KERNEL(gelu_f32, "y x | count |")                                                                                  \
    KERNEL(gelu_backward_f32, "grad_x x grad_y | count |")                                                             \
    KERNEL(sum_columns_f32, "y x | rows columns x_stride |")                                                           \
    KERNEL(fold_f32, "y windows | batch length channels size stride padding window_rows |")                            \
    KERNEL(power_spectrum_f32, "y samples roots | frames hop size y_stride |")                                         \
    KERNEL(log_mel_f32, "y samples roots filters ranges | frames hop size mels y_stride | smallest")                   \
    KERNEL(pack_blocks, "packed blocks | rows columns type |")                                                         \
    KERNEL(unpack_blocks, "y blocks | rows columns type packed |")                                                     \
    KERNEL(embedding_blocks, "y w ids | tokens columns vocabulary y_stride type packed |")                             \
    KERNEL(linear_blocks, "y xq w residual? | rows outputs inputs y_stride residual_stride type |")                    \
    KERNEL(windows_f32,                                                                                                \
           "c a x bias? | batch groups m k0 k1 k2 k3 k_stride0 k_stride1 k_stride2 k_stride3 j0 j1 j2 j3 "             \
           "j_stride0 j_stride1 j_stride2 j_stride3 x_batch x_group |")                                                \
    KERNEL(maximum_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")                                \
    KERNEL(minimum_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")                                \
    KERNEL(sigmoid_f32, "y x | count |")                                                                               \
    KERNEL(tanh_f32, "y x | count |")                                                                                  \
    KERNEL(log_f32, "y x | count |")                                                                                   \
    KERNEL(sqrt_f32, "y x | count |")                                                                                  \
    KERNEL(abs_f32, "y x | count |")                                                                                   \
    KERNEL(pack_keys_q8, "packed x | tokens heads head_dim x_stride |")                                                \
    KERNEL(pack_values_q8, "packed x | tokens heads head_dim x_stride |")                                              \
    KERNEL(attention_q8, "y q k v | tokens heads kv_heads head_dim keys y_stride q_stride | scale")                    \
    KERNEL(ctc_f32,                                                                                                    \
           "loss grad? log_probs labels times lengths scratch | steps count classes most blank room workspaces |")

/* What the library exports (see run.c). int32 and addresses only: in wasm an int64 argument would pass through BigInt.
 * pyapp_run: runs `count` records in order; returns 0, or (index of the record that failed << 8) | KERNEL_* code.
 *   May be called from several host threads at once.
 * pyapp_signature: hexadecimal FNV-1a 64 of this header's bytes, given by build.py, so that Python never drives another ABI.
 * pyapp_allocate: 64-byte aligned, NULL when memory is short; pyapp_free(NULL) is fine. */
int32_t pyapp_run(const launch *records, int32_t count);
const char *pyapp_signature(void);
const char *pyapp_instruction_set(void); /* "avx512", "avx2", "baseline", "neon", "simd128", "relaxed" */
void *pyapp_allocate(intptr_t bytes);
void pyapp_free(void *memory);
void pyapp_set_threads(int32_t threads); /* 1 .. 64; in wasm always 1 */
int32_t pyapp_threads(void);
void pyapp_cancel(int32_t on); /* 1: the running and later pyapp_run calls return KERNEL_CANCELLED at the next record */
#endif
