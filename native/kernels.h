/* The kernels: their names and arguments, for C and for Python, and what the library exports.
 *
 * build.py and pyapp/engine/native.py read the KERNEL lines. A line gives a kernel its index (its place in the list),
 * its name and its signature "pointers | dims | floats". A launch record holds the arguments in three groups of slots:
 * pointers, dims (int64) and floats (f32), in the signature's order. build.py names each slot for C: dims slot `rows` of
 * kernel `rope_f32` is record->dims[rope_f32_rows]. A comment over a line says what the kernel computes.
 *
 * Rules for every kernel:
 * - It is a leaf: it allocates nothing, prints nothing and writes no globals.
 * - Worker w of n computes its own share of the output. One worker computes each element, so the result does not depend
 *   on the number of workers.
 * - Strides are counted in elements. Inputs need the alignment of their own elements, no more.
 * - A pointer whose name ends in '?' may be NULL. Where y and x have the same shape, y may be x itself.
 * - A size of zero is legal, and nothing happens.
 * - It returns KERNEL_OK or one of the codes below.
 * - Values that change between replays of a Graph (token ids, positions) are read through int32 pointers.
 */
#ifndef PYAPP_KERNELS_H
#define PYAPP_KERNELS_H
#include <stdint.h>

#define LAUNCH_POINTERS 8
#define LAUNCH_DIMS 24
#define LAUNCH_FLOATS 4
#define BANDED(FORMAT) /* formats packed in bands, and the bytes of eight rows' blocks */                              \
    FORMAT(q8_0, 272)                                                                                                  \
    FORMAT(q8_group, 288)                                                                                              \
    FORMAT(q4_0, 144)                                                                                                  \
    FORMAT(q4_1, 160)                                                                                                  \
    FORMAT(q5_0, 176)                                                                                                  \
    FORMAT(q5_1, 192) FORMAT(q2_K, 672) FORMAT(q3_K, 912) FORMAT(q4_K, 1184) FORMAT(q5_K, 1440) FORMAT(q6_K, 1680)
#define ATTENTION_ROWS 48 /* the workspace of attention_train is measured in these two */
#define ATTENTION_KEY_UNIT 24
#define ATTENTION_Q8_KEYS 64  /* values that share scales */
#define ATTENTION_Q8_DIMS 256 /* at most */

typedef struct launch {
    int32_t kernel; /* index of its KERNEL line */
    int32_t work;   /* estimated multiply-adds or elements in thousands: small work does not wake the workers */
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
    KERNEL_CANCELLED = 4,
    KERNEL_DIVISION_BY_ZERO = 5
};

/* build.py makes slots.h from the lines of these three. */
#define ELEMENT(name, bytes)
#define OPCODE(kernel, name, types, result)
#define KERNEL(name, signature)

/* ---- Element types. A type's code, which slots named `type` hold, is its place in this list: TYPE_bool in C. */

ELEMENT(bool, 1)
ELEMENT(uint8, 1)
ELEMENT(int8, 1)
ELEMENT(uint16, 2)
ELEMENT(int16, 2)
ELEMENT(uint32, 4)
ELEMENT(int32, 4)
ELEMENT(uint64, 8)
ELEMENT(int64, 8)
ELEMENT(float8_e4m3fn, 1)
ELEMENT(float8_e5m2, 1)
ELEMENT(float16, 2)
ELEMENT(bfloat16, 2)
ELEMENT(float32, 4)
ELEMENT(float64, 8)

/* ---- Copies and fills */

/* Copies `bytes` bytes. The two areas do not overlap. */
KERNEL(copy_bytes, "to from | bytes |")
/* Copies a view of any strides to a view of the same shape, rank <= 6, elements of element_bytes bytes. */
KERNEL(copy_strided,
       "to from | element_bytes rank shape0 shape1 shape2 shape3 shape4 shape5 to0 to1 to2 to3 to4 to5 from0 "
       "from1 from2 from3 from4 from5 |")
KERNEL(fill_f32, "y | count | value")

/* ---- Conversions */

/* y = x in another type. y is dense, in the order of the dims; x has any strides. To floats: nearest, ties to even; to
 * halves and 8-bit floats by way of float32, as in torch. Too large for float8_e4m3fn becomes 448, for the others
 * infinite; an infinity, too. Floats to integers are cut to whole numbers. What the type cannot hold, NaN included:
 * to int64 the smallest int64; to int32 and narrower types the low bits of the smallest int32 (and of what int32 can
 * hold, the low bits); to uint32 and uint64 the low bits where 64 bits hold the number, else 0. Integers to integers: the
 * low bits. To bool: whether it is not 0. */
KERNEL(cast, "y x | y_type x_type rank shape0 shape1 shape2 shape3 shape4 shape5 x0 x1 x2 x3 x4 x5 |")
/* The pairs that linear layers and weights need, dense. */
KERNEL(f16_to_f32, "y x | count |")
KERNEL(f32_to_f16, "y x | count |")
KERNEL(bf16_to_f32, "y x | count |")
KERNEL(f32_to_bf16, "y x | count |")

/* ---- Elementwise operations */

/* Operations of two operands of one type. y is dense, in the order of the dims; a and b have any strides (0 broadcasts).
 * An operand that is NULL is `number`: the bits of a float64 for float types, else the integer.
 *
 * OPCODE lines as for `unary`. add and mul of bools are or and and. Integers wrap; floor_divide, remainder and fmod of
 * integers by 0 give KERNEL_DIVISION_BY_ZERO, and y is then undefined. floor_divide rounds down and remainder has the
 * sign of b, as in Python; fmod has the sign of a. pow of an integer to a negative power is 1 or -1 for 1 and -1, else 0.
 * maximum and minimum are NaN where an operand is; fmax and fmin only where both are. xlogy is 0 where a is 0 and b is a
 * number. Shifts by less than 0 or more than 63: 0 to the left, the sign to the right. float64 is within 4 ulp, pow
 * within 2; float32 functions are computed in float64 and rounded. */

OPCODE(binary, add, "floats integers bool", "same")
OPCODE(binary, sub, "floats integers", "same")
OPCODE(binary, mul, "floats integers bool", "same")
OPCODE(binary, div, "floats", "same")
OPCODE(binary, floor_divide, "floats integers", "same")
OPCODE(binary, remainder, "floats integers", "same")
OPCODE(binary, fmod, "floats integers", "same")
OPCODE(binary, pow, "floats integers", "same")
OPCODE(binary, maximum, "floats integers bool", "same")
OPCODE(binary, minimum, "floats integers bool", "same")
OPCODE(binary, fmax, "floats integers bool", "same")
OPCODE(binary, fmin, "floats integers bool", "same")
OPCODE(binary, atan2, "floats", "same")
OPCODE(binary, hypot, "floats", "same")
OPCODE(binary, copysign, "floats", "same")
OPCODE(binary, logaddexp, "floats", "same")
OPCODE(binary, xlogy, "floats", "same")
OPCODE(binary, ldexp, "floats", "same")
OPCODE(binary, nextafter, "float32 float64", "same")
OPCODE(binary, eq, "floats integers bool", "bool")
OPCODE(binary, ne, "floats integers bool", "bool")
OPCODE(binary, lt, "floats integers bool", "bool")
OPCODE(binary, le, "floats integers bool", "bool")
OPCODE(binary, gt, "floats integers bool", "bool")
OPCODE(binary, ge, "floats integers bool", "bool")
OPCODE(binary, logical_and, "floats integers bool", "bool")
OPCODE(binary, logical_or, "floats integers bool", "bool")
OPCODE(binary, logical_xor, "floats integers bool", "bool")
OPCODE(binary, bitwise_and, "integers bool", "same")
OPCODE(binary, bitwise_or, "integers bool", "same")
OPCODE(binary, bitwise_xor, "integers bool", "same")
OPCODE(binary, bitwise_left_shift, "integers", "same")
OPCODE(binary, bitwise_right_shift, "integers", "same")
KERNEL(binary, "y a? b? | opcode type rank shape0 shape1 shape2 shape3 shape4 shape5 a0 a1 a2 a3 a4 a5 b0 b1 b2 b3 "
               "b4 b5 number |")
/* Operations of `binary` on float32, with a short record: these are called most. Element p[i / repeat % period] of an
 * operand meets y[i], i < count. Period = count is a plain operand, period 1 a scalar, period = columns a row; period =
 * rows with repeat = columns is a column. A repeat of 0 means 1. An operand that is NULL is `number`, and its period is 1. */
KERNEL(add_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
KERNEL(sub_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
KERNEL(mul_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
KERNEL(div_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
/* NaN if either operand is NaN. */
KERNEL(maximum_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
KERNEL(minimum_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
/* Functions of one element.
 *
 * An OPCODE line gives an operation of kernel `unary` (UNARY_exp in C) its code, which is its place among the kernel's
 * lines; the types that x may have; and the type of y: "same" as x, or "bool". "floats" are float16, bfloat16, float32
 * and float64; "integers" are uint8, int8, int16, int32 and int64. A pair that is not listed gives KERNEL_BAD_ARGUMENT.
 * Halves are computed in float32 or float64 and rounded once. float32 is within 3 ulp, gelu within 1e-5 of itself;
 * float64 within 4 ulp, lgamma, digamma, trigamma and i0 within 1e-14. NaN stays NaN unless said otherwise.
 *
 * sign: of NaN 0. round: halves to even. clamp: to `first` .. `second`. leaky_relu: x * first below 0. elu: first *
 * (exp(x) - 1) below 0. softplus: log(1 + exp(first * x)) / first, but x where first * x > second. sinc: sin(pi x) /
 * (pi x). gelu_tanh: the approximation by tanh. Integers wrap. */

OPCODE(unary, neg, "floats integers", "same")
OPCODE(unary, abs, "floats integers", "same")
OPCODE(unary, sign, "floats integers bool", "same")
OPCODE(unary, square, "floats integers", "same")
OPCODE(unary, relu, "floats integers", "same")
OPCODE(unary, bitwise_not, "integers bool", "same")
OPCODE(unary, sqrt, "floats", "same")
OPCODE(unary, rsqrt, "floats", "same")
OPCODE(unary, reciprocal, "floats", "same")
OPCODE(unary, exp, "floats", "same")
OPCODE(unary, exp2, "floats", "same")
OPCODE(unary, expm1, "floats", "same")
OPCODE(unary, log, "floats", "same")
OPCODE(unary, log2, "floats", "same")
OPCODE(unary, log10, "floats", "same")
OPCODE(unary, log1p, "floats", "same")
OPCODE(unary, sin, "floats", "same")
OPCODE(unary, cos, "floats", "same")
OPCODE(unary, tan, "floats", "same")
OPCODE(unary, asin, "floats", "same")
OPCODE(unary, acos, "floats", "same")
OPCODE(unary, atan, "floats", "same")
OPCODE(unary, sinh, "floats", "same")
OPCODE(unary, cosh, "floats", "same")
OPCODE(unary, tanh, "floats", "same")
OPCODE(unary, asinh, "floats", "same")
OPCODE(unary, acosh, "floats", "same")
OPCODE(unary, atanh, "floats", "same")
OPCODE(unary, sinc, "floats", "same")
OPCODE(unary, sigmoid, "floats", "same")
OPCODE(unary, logsigmoid, "floats", "same")
OPCODE(unary, silu, "floats", "same")
OPCODE(unary, gelu, "floats", "same")
OPCODE(unary, gelu_tanh, "floats", "same")
OPCODE(unary, leaky_relu, "floats", "same")
OPCODE(unary, elu, "floats", "same")
OPCODE(unary, softplus, "floats", "same")
OPCODE(unary, mish, "floats", "same")
OPCODE(unary, clamp, "floats", "same")
OPCODE(unary, hardsigmoid, "floats", "same")
OPCODE(unary, hardswish, "floats", "same")
OPCODE(unary, erf, "floats", "same")
OPCODE(unary, erfc, "floats", "same")
OPCODE(unary, erfinv, "floats", "same")
OPCODE(unary, lgamma, "floats", "same")
OPCODE(unary, digamma, "floats", "same")
OPCODE(unary, trigamma, "floats", "same")
OPCODE(unary, i0, "floats", "same")
OPCODE(unary, floor, "floats", "same")
OPCODE(unary, ceil, "floats", "same")
OPCODE(unary, round, "floats", "same")
OPCODE(unary, trunc, "floats", "same")
OPCODE(unary, frac, "floats", "same")
OPCODE(unary, isnan, "floats", "bool")
OPCODE(unary, isinf, "floats", "bool")
OPCODE(unary, isfinite, "floats", "bool")
OPCODE(unary, isposinf, "floats", "bool")
OPCODE(unary, isneginf, "floats", "bool")
OPCODE(unary, signbit, "floats integers bool", "bool")
OPCODE(unary, logical_not, "floats integers bool", "bool")
/* y, x: `count` elements, dense. `first` and `second` hold the bits of a float64. */
KERNEL(unary, "y x | opcode type count first second |")
/* The same for a view x of any strides; y is dense in the order of x's dims. */
KERNEL(unary_strided,
       "y x | opcode type rank shape0 shape1 shape2 shape3 shape4 shape5 x0 x1 x2 x3 x4 x5 first second |")
/* Operations of `unary` on dense float32, with a short record: these are called most. */
KERNEL(exp_f32, "y x | count |")
KERNEL(log_f32, "y x | count |")
KERNEL(sqrt_f32, "y x | count |")
KERNEL(abs_f32, "y x | count |")
KERNEL(sigmoid_f32, "y x | count |")
KERNEL(tanh_f32, "y x | count |")
KERNEL(silu_f32, "y x | count |")
KERNEL(gelu_f32, "y x | count |")
KERNEL(gelu_backward_f32, "grad_x x grad_y | count |")
/* A row of x is [gate | up], each `columns` wide: y = silu(gate) * up. */
KERNEL(silu_mul_f32, "y x | rows columns y_stride x_stride |")
KERNEL(silu_mul_backward_f32, "grad_x x grad_y | rows columns |")

/* ---- Reductions */

/* Over the middle one of three dims: y (outer, inner) is dense; x (outer, reduced, inner) has any strides.
 *
 * OPCODE lines as for `unary`; "number" is the type of x or another float type for floats, int64 for integers and bool.
 * sum, sum_squares and prod of 16- and 32-bit floats round once at the end; float32 sums are added in float32 4096 at a
 * time. float64 sums carry what their additions lose. Integers wrap. max and min are NaN where an element is; argmax and
 * argmin give the first of equals, and the first NaN. max, min, argmax and argmin of nothing: KERNEL_BAD_ARGUMENT. */

OPCODE(reduce, sum, "floats integers bool", "number")
OPCODE(reduce, sum_squares, "floats", "number")
OPCODE(reduce, prod, "floats integers bool", "number")
OPCODE(reduce, any, "floats integers bool", "bool")
OPCODE(reduce, all, "floats integers bool", "bool")
OPCODE(reduce, max, "floats integers bool", "same")
OPCODE(reduce, min, "floats integers bool", "same")
OPCODE(reduce, argmax, "floats integers", "int64")
OPCODE(reduce, argmin, "floats integers", "int64")
KERNEL(reduce, "y x | opcode y_type x_type outer reduced inner x_outer x_reduced x_inner |")
/* Sums along rows and of columns of float32, with a short record. */
KERNEL(sum_rows_f32, "y x | rows columns x_stride |")
KERNEL(sum_columns_f32, "y x | rows columns x_stride |")
/* The int32 index of the first largest element of each row. NaN counts as the largest. */
KERNEL(argmax_f32, "index x | rows columns x_stride |")

/* ---- Scans. y (outer, length, inner) is dense; x has any strides.
 *
 * OPCODE lines as for `unary`; "number" is the type of x for floats, int64 for integers and bool. Floats are added up and
 * multiplied in float64, and each result is rounded. cummax and cummin also write where the extreme is (int64): of equals
 * the last; once there is a NaN, the result is NaN. */

OPCODE(scan, cumsum, "floats integers bool", "number")
OPCODE(scan, cumprod, "floats integers bool", "number")
OPCODE(scan, cummax, "floats integers bool", "same")
OPCODE(scan, cummin, "floats integers bool", "same")
OPCODE(scan, logcumsumexp, "floats", "same")
KERNEL(scan, "y indices? x | opcode type outer length inner x_outer x_dim x_inner |")

/* ---- Selecting and placing elements. Sizes of elements are 1, 2, 4 or 8 bytes; index types int64 and int32. An index out
 * of range gives KERNEL_INDEX_RANGE; y is then undefined, but for scatter and index_put unchanged. */

/* y = condition ? a : b, rank <= 5, y dense. condition is bool or uint8. An operand that is NULL is the element in the low
 * bytes of a_bits or b_bits. */
KERNEL(where, "y condition a? b? | element_bytes rank shape0 shape1 shape2 shape3 shape4 c0 c1 c2 c3 c4 a0 a1 a2 a3 "
              "a4 b0 b1 b2 b3 b4 a_bits b_bits |")
/* y[.., i, ..] = x[.., index[.., i, ..], ..] along `dim`: torch.gather. y is dense and has the shape of index; x has `size`
 * elements along the dim, strides x0 ... . Indices are 0 .. size - 1. */
KERNEL(gather, "y x index | element_bytes index_type rank dim size shape0 shape1 shape2 shape3 shape4 shape5 x0 x1 "
               "x2 x3 x4 x5 index0 index1 index2 index3 index4 index5 |")
/* y[.., index[.., i, ..], ..] = its old value combined with source[.., i, ..] along `dim`: torch.scatter, scatter_add and
 * scatter_reduce, in the order of i. The shape is that of index, rank <= 4; y has `size` elements along the dim. A source
 * that is NULL is `number`: the bits of a float64 for float types, else the integer. Adding and multiplying round to y's
 * type each time; maximum and minimum of a NaN are NaN. */
OPCODE(scatter, set, "every", "same")
OPCODE(scatter, add, "floats integers", "same")
OPCODE(scatter, multiply, "floats integers", "same")
OPCODE(scatter, maximum, "floats integers", "same")
OPCODE(scatter, minimum, "floats integers", "same")
KERNEL(scatter, "y index source? | opcode type index_type rank dim size shape0 shape1 shape2 shape3 y0 y1 y2 y3 "
                "index0 index1 index2 index3 source0 source1 source2 source3 number |")
/* y[o, n] = the block of `inner` elements at x + o * x_outer + sum over k of index_k[n] * stride_k: index_select, rows of a
 * table, indexing by several tensors. y (outer, count, inner) is dense, and so is a block. The indices are int64, dense;
 * with `negative` those below 0 count from the end of size_k. */
KERNEL(index_get, "y x index0 index1? index2? index3? | element_bytes outer count inner x_outer negative size0 size1 "
                  "size2 size3 stride0 stride1 stride2 stride3 |")
/* The block at y + o * y_outer + sum over k of index_k[n] * stride_k is combined with source[o, n] (strides source_outer,
 * source_count and source_inner), in the order of n. Opcodes are those of `scatter`. Indices below 0 count from the end. */
KERNEL(index_put, "y source index0 index1? index2? index3? | opcode type outer count inner y_outer source_outer "
                  "source_count source_inner size0 size1 size2 size3 stride0 stride1 stride2 stride3 |")

/* ---- Sorting */

/* The first `count` of the elements along the middle dim, in order; equals keep theirs. x (outer, length, inner) has any
 * strides; y (as x) and indices (int64) are (outer, count, inner), dense. NaN counts as the largest. With count = length
 * this is sort, with less it is topk. scratch: for each of at most `workspaces` workers (further workers stay idle) 32
 * bytes for each element of length. */
KERNEL(sort, "y? indices? x scratch | type outer length inner count descending x_outer x_dim x_inner workspaces |")

/* ---- New values */

/* number: the bits of a float64 for float types, else the integer. */
KERNEL(fill, "y | type count number |")
/* y[i] = start + i * step, computed in float64 or with 64 bits; start and step as `number` above. Not for bool. */
KERNEL(arange, "y | type count start step |")
/* Each (rows, columns) of x with zeros where column - row < diagonal (upper 1: triu) or > diagonal (upper 0: tril). y is
 * dense. */
KERNEL(triangular, "y x | element_bytes batch rows columns diagonal upper x_batch x_row x_column |")
/* y (count, classes): 1 at index[i] in row i, else 0. */
KERNEL(one_hot, "y index | type index_type count classes |")

/* ---- Products with weight matrices
 *
 * y[m, n] = sum over k of x[m, k] * w[n, k], plus residual[m, n] where it is given. w is (outputs, inputs), row-major and
 * contiguous. With residual_stride 0 one row (a bias) is added to every row. */

KERNEL(linear_f32, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
KERNEL(linear_f16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
KERNEL(linear_bf16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
/* x, y and residual are of the weights' type as well. Sums are made in f32 and rounded once. */
KERNEL(linear_f16_f16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
KERNEL(linear_bf16_bf16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
/* w is packed in bands of 8 rows (bands.h), rows padded to 8 and columns to 32, with zeros. q8_0 has one f16 scale for
 * each row and block of 32 columns, q8_group one f32 scale. xq comes from quantize_rows. */
KERNEL(linear_q8_0, "y xq w residual? | rows outputs inputs y_stride residual_stride |")
KERNEL(linear_q8_group, "y xq w residual? | rows outputs inputs y_stride residual_stride |")
/* w is packed by pack_blocks, or for other types in GGML's blocks. `type` is GGML's code (block_types.h). */
KERNEL(linear_blocks, "y xq w residual? | rows outputs inputs y_stride residual_stride type |")
/* Quantised activations: for each row, for each block of 32 columns, 32 int8, their f32 scale and the int32 sum of the 32
 * int8: 40 bytes. Columns are padded with zeros to a multiple of 32. scale = absmax / 127; rounding is to nearest, ties
 * away from zero (roundf), as in llama.cpp and llama2.c. */
KERNEL(quantize_rows, "xq x | rows columns x_stride |")
KERNEL(quantize_rows_f16, "xq x | rows columns x_stride |")
KERNEL(quantize_rows_bf16, "xq x | rows columns x_stride |")
/* y (rows, columns), dense, of 16 bits = x, of f32, plus residual (of y's type), rounded once. With residual_stride 0 one
 * row is added to every row. y may be residual. */
KERNEL(add_rows_f16, "y x residual? | rows columns residual_stride |")
KERNEL(add_rows_bf16, "y x residual? | rows columns residual_stride |")
/* From GGML's q8_0 blocks to the packed layout of linear_q8_0. */
KERNEL(pack_q8_0, "packed blocks | rows columns |")
/* From row-major int8 quants and f32 scales, one for each `group` columns. */
KERNEL(pack_q8_group, "packed quants scales | rows columns group |")
KERNEL(quantize_q8_0, "packed x | rows columns x_stride |")
KERNEL(unpack_q8_0, "y packed | rows columns |")
KERNEL(unpack_q8_group, "y packed | rows columns |")
/* Packs blocks of GGML's types in bands of 8 rows (bands.h) for linear_blocks. Rows of types that bands.h does not have
 * stay as files have them, one after the other. */
KERNEL(pack_blocks, "packed blocks | rows columns type |")
/* The way back from pack_blocks and pack_q8_0, bit for bit. */
KERNEL(unpack_bands, "blocks packed | rows columns type |")
/* To f32; blocks as linear_blocks takes them. */
KERNEL(unpack_blocks, "y blocks | rows columns type |")
/* c[b, m, n] = sum over k of a[b, m, k] * b[b, k, n], any strides; rows of c are dense. */
KERNEL(matmul_f32, "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row |")
/* Sums are made in f32 and rounded once. */
KERNEL(matmul_f16, "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row |")
KERNEL(matmul_bf16, "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row |")
KERNEL(matmul_f64, "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row |")
/* Integers of element_bytes 1, 2, 4 or 8, signed or not: they wrap. */
KERNEL(matmul_integer,
       "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row element_bytes |")

/* ---- Normalization and softmax, row by row */

KERNEL(rms_norm_f32, "y x weight | rows columns y_stride x_stride | epsilon")
KERNEL(rms_norm_backward_f32, "grad_x grad_weight x weight grad_y | rows columns | epsilon")
KERNEL(layer_norm_f32, "y x weight bias | rows columns y_stride x_stride | epsilon")
/* Writes the mean and 1 / sqrt(variance + epsilon) of each row to statistics (rows, 2), which
 * layer_norm_weights_backward_f32 reads. grad_x may be grad_y or x where the weights' gradients are not needed after it. */
KERNEL(layer_norm_backward_f32, "grad_x statistics x weight grad_y | rows columns | epsilon")
KERNEL(layer_norm_weights_backward_f32, "grad_weight grad_bias x statistics grad_y | rows columns |")
KERNEL(softmax_f32, "y x | rows columns y_stride x_stride |")
/* grad_x = y * (grad_y - sum of y * grad_y over the row), y from softmax_f32. */
KERNEL(softmax_backward_f32, "grad_x y grad_y | rows columns |")
KERNEL(log_softmax_f32, "y x | rows columns y_stride x_stride |")
/* The same for every float type, over the middle dim of x (outer, count, inner), dense. log 1: log_softmax. Halves are
 * summed in f32. */
KERNEL(softmax, "y x | outer count inner log type |")
/* grad_x from y, which softmax wrote. */
KERNEL(softmax_backward, "grad_x y grad_y | outer count inner log type |")
/* Layer, RMS, group, instance and batch norm for every float type. Row r is `segments` pieces of `length` elements: element
 * i of piece s lies at r * row_stride + s * segment_stride + i, in x and y. y = (x - mean) / sqrt(variance + epsilon) *
 * weight + bias, with mean = 0 and variance = the mean square where centred is 0 (RMS norm). The weight and bias of an element
 * lie at r % weight_period * weight_row + s * weight_segment + i * weight_element, which is 0 or 1; their type is weight_type.
 * statistics (rows, 3): mean, variance, 1 / sqrt(variance + epsilon). They are float64 for type float64, else float32; halves
 * are summed in f32. epsilon + epsilon_rest is the number in double precision. */
KERNEL(normalize, "y statistics? x weight? bias? | rows segments length row_stride segment_stride weight_period "
                  "weight_row weight_segment "
                  "weight_element centred type weight_type | epsilon epsilon_rest")
/* grad_x from the statistics that normalize wrote. */
KERNEL(normalize_backward, "grad_x x statistics weight? grad_y | rows segments length row_stride segment_stride "
                           "weight_period weight_row weight_segment "
                           "weight_element centred type weight_type | epsilon epsilon_rest")
/* Sums over all elements that share a weight. grad_weight and grad_bias are float64 for type float64, else float32, and have
 * `weights` elements. */
KERNEL(normalize_weights_backward,
       "grad_weight grad_bias? x statistics grad_y | rows segments length row_stride segment_stride weight_period "
       "weight_row weight_segment weight_element type weights |")

/* ---- Attention */

/* Of the three kernels below: `texts` texts of `tokens` tokens each follow one another; row t of text b has the position
 * position[b] + t. A cache is (texts, kv_heads, capacity, head_dim) of the type float32 or float16, or uint8: then a row is
 * q8_0, head_dim int8 numbers and an f16 scale for each 32 of them. */

/* Rotary embedding of the first `rotated` columns of each head; the others are copied. table is (positions, rotated / 2, 2)
 * of cos and sin. x is (texts * tokens, heads, head_dim), tokens x_stride apart. interleaved 1 turns the pairs (2i, 2i + 1),
 * 0 the pairs (i, i + rotated / 2). Without position, one text begins at 0. */
KERNEL(rope_f32, "y x table position? | texts tokens heads head_dim rotated y_stride x_stride positions interleaved |")
/* Writes x (texts * tokens, heads, head_dim), f32, to the cache. */
KERNEL(cache_write, "cache x position | texts tokens heads head_dim capacity x_stride type |")
/* y, q (texts * tokens, heads, head_dim), f32; k, v caches. Query head h reads kv head h / (heads / kv_heads). With causal 1,
 * row t sees the cached positions 0 .. position[b] + t; else all rows see 0 .. position[b] + tokens - 1; of these, with a
 * window, at most the last `window`. A score is softcap * tanh(q . k * scale / softcap), without softcap (0) q . k * scale,
 * plus slopes[h] * (key - last visible key). */
KERNEL(cached_attention,
       "y q k v position slopes? | texts tokens heads kv_heads head_dim capacity y_stride q_stride causal window type | "
       "scale softcap")
/* Attention of whole sequences, with or without a mask, for float32, float16 and bfloat16: `type` is that of all but the
 * mask and the workspace; sums are f32. q (batch, tokens, heads, head_dim), k (batch, keys, kv_heads, head_dim), v (batch,
 * keys, kv_heads, value_dim), y (batch, tokens, heads, value_dim). Batch entries and tokens of q, k and v have any strides;
 * y and all gradients are dense. Row t sees the keys t - before .. t + after (causal: after = 0 or keys - tokens). The mask
 * of row t of query head h of batch entry b for key s is mask[b * mask_batch + h * mask_head + t * mask_token +
 * s * mask_key]: a float is added to the score, a bool is true where the row sees the key. A row that sees nothing gives 0,
 * and gradients of 0. workspace: for each of at most `workspaces` workers (further workers stay idle) 4 * (S + 48) * D + 96 *
 * S floats, where S is keys rounded up to a multiple of 24 and D the larger of head_dim and value_dim, rounded up to a
 * multiple of 16. grad_kv is grad_k (batch, keys, kv_heads, head_dim), then grad_v (batch, keys, kv_heads, value_dim). */
KERNEL(masked_attention,
       "y q k v mask? workspace | batch tokens keys heads kv_heads head_dim value_dim q_batch "
       "q_token k_batch k_token v_batch v_token before after type mask_type mask_batch mask_head mask_token mask_key "
       "workspaces | scale")
KERNEL(masked_attention_backward,
       "grad_q grad_kv q k v grad_y mask? workspace | batch tokens keys heads kv_heads head_dim value_dim q_batch "
       "q_token k_batch k_token v_batch v_token before after type mask_type mask_batch mask_head mask_token mask_key "
       "workspaces | scale")
/* As attention_f32, but every row sees all `keys`. k and v are packed by the two kernels below; head_dim <= 256. */
KERNEL(attention_q8, "y q k v | tokens heads kv_heads head_dim keys y_stride q_stride | scale")
/* x is (tokens, heads, head_dim), tokens x_stride apart; the packed heads follow one another. For each 8 keys: 8 f32
 * scales; then for each 4 columns, 4 bytes of key 0, of key 1, ... of key 7. What is subtracted from the keys and added to
 * the bytes depends on the machine. Keys are padded to a multiple of 8, columns to a multiple of 4. */
KERNEL(pack_keys_q8, "packed x | tokens heads head_dim x_stride |")
/* For each 64 keys: an f32 scale for each column; then for each 4 keys, 4 int8 of column 0, of column 1, ... . Keys are
 * padded to a multiple of 64, columns to a multiple of 8. */
KERNEL(pack_values_q8, "packed x | tokens heads head_dim x_stride |")

/* ---- Embedding. y[t] = w[ids[t]]. An id outside 0 .. vocabulary - 1 gives KERNEL_INDEX_RANGE. */

/* Any dtype: rows are copied. element_bytes is the size of an element of w and y, id_bytes that of an id: 4 or 8. */
KERNEL(embedding_copy, "y w ids | tokens columns vocabulary y_stride element_bytes id_bytes |")
/* To f32. */
KERNEL(embedding_f16, "y w ids | tokens columns vocabulary y_stride |")
KERNEL(embedding_bf16, "y w ids | tokens columns vocabulary y_stride |")
KERNEL(embedding_q8_0, "y w ids | tokens columns vocabulary y_stride |")
KERNEL(embedding_q8_group, "y w ids | tokens columns vocabulary y_stride |")
KERNEL(embedding_blocks, "y w ids | tokens columns vocabulary y_stride type |")
/* grad_w[id] is the sum of the rows of grad_y with that id, in their order; 0 where there are none. */
KERNEL(embedding_backward_f32, "grad_w grad_y ids | tokens columns vocabulary |")

/* ---- Convolution */

/* The gradient of taking windows. windows (batch, window_rows, size, channels), y (batch, length, channels):
 * y[b, i] = sum over j of windows[b, (i + padding - j) / stride, j], over the rows that exist. */
KERNEL(fold_f32, "y windows | batch length channels size stride padding window_rows |")
/* c[b, g] (m, j0 j1 j2 j3) = a[g] (m, k0 k1 k2 k3) times a matrix of elements of x, plus bias[g] (m) on each row. Element
 * (k, j) of that matrix is x[b * x_batch + g * x_group + sum of the digits of k and of j times their strides]. Strides are
 * not negative, and j_stride3 is not 0. 128 floats past the last element of x must be readable. */
KERNEL(windows_f32,
       "c a x bias? | batch groups m k0 k1 k2 k3 k_stride0 k_stride1 k_stride2 k_stride3 j0 j1 j2 j3 j_stride0 "
       "j_stride1 j_stride2 j_stride3 x_batch x_group |")
/* Convolution of each channel by itself. x (batch, channels, height, width), weight (channels, multiplier, kernel_height,
 * kernel_width), y (batch, channels, multiplier, out_height, out_width), all dense: y[.., i, j] = bias + the sum over taps of
 * weight[.., p, q] * x[.., i * stride_y + p * dilation_y - top, j * stride_x + q * dilation_x - left]. x is zero outside.
 * One dim is a height of 1. */
KERNEL(depthwise_f32, "y x weight bias? | batch channels multiplier height width kernel_height kernel_width "
                      "stride_y stride_x top left dilation_y dilation_x out_height out_width |")
KERNEL(depthwise_input_backward_f32,
       "grad_x grad_y weight | batch channels multiplier height width kernel_height kernel_width "
       "stride_y stride_x top left dilation_y dilation_x out_height out_width |")
/* grad_weight is summed over the batch. */
KERNEL(depthwise_weight_backward_f32,
       "grad_weight x grad_y | batch channels multiplier height width kernel_height kernel_width "
       "stride_y stride_x top left dilation_y dilation_x out_height out_width |")

/* Transposed convolution, and so the gradient of a convolution in its input. x (batch, groups, inputs, height, width), weight
 * (groups, inputs, outputs, kernel_height, kernel_width), y (batch, groups, outputs, out_height, out_width), all dense:
 * y[.., i * stride_y + p * dilation_y - top, j * stride_x + q * dilation_x - left] is bias + the sum of weight[.., p, q] *
 * x[.., i, j] over all that meet there. One dim is a height of 1. */
KERNEL(conv_transpose_f32,
       "y x weight bias? | batch groups inputs outputs height width kernel_height kernel_width stride_y stride_x top "
       "left dilation_y dilation_x out_height out_width |")

/* ---- Sound */

/* y (size / 2 + 1, frames), rows y_stride apart: |transform|^2 of samples[t * hop .. t * hop + size - 1] times the
 * periodic Hann window. roots (size, 2): cos and sin of 2 pi i / size. size is twice a product of 2s and 5s, at most 512. */
KERNEL(power_spectrum_f32, "y samples roots | frames hop size y_stride |")
/* y (mels, frames): log10 of the sum of filters (mels, size / 2 + 1) times power, at least `smallest` (a normal positive
 * number). int32 ranges (mels, 2): the first and one past the last bin of each filter. */
KERNEL(log_mel_f32, "y samples roots filters ranges | frames hop size mels y_stride | smallest")

/* ---- Random numbers and sampling */

/* Philox4x32-10 with key = seed and counter = offset + i / 4; element i takes word i % 4. uniform = (word >> 8) * 2^-24,
 * with the same bits on every platform. */
KERNEL(random_uniform, "y | count seed offset |")
/* Box-Muller on the word pairs (2j, 2j + 1). */
KERNEL(random_normal, "y | count seed offset |")
/* Temperature, top-k, top-p, min-p and typical sampling over logits, after the repetition penalty of the ids in
 * history[0 .. count - 1]. candidates is scratch of 2 * vocabulary 32-bit words. uniform[0] in [0, 1) is the draw.
 * typical is a share in units of 2^-24. temperature <= 0: argmax.
 * top_k 0, top_p >= 1 (or <= 0), min_p 0, typical 0 (or >= 2^24), penalty 1: off. NaN logits: KERNEL_BAD_ARGUMENT. */
KERNEL(sample_f32,
       "token logits history? uniform candidates | vocabulary history_count top_k typical | temperature top_p min_p "
       "penalty")
/* mask[i] = 1 where an automaton over bytes may read token i, else 0. From `state`, table (states, columns) int32 gives the
 * next state for the column of each byte, columns_of (256) uint8; a number outside 0 .. states - 1 refuses the byte. The last
 * state must have a distance (states) int32 from 0 to `budget`. Token i is bytes[offsets[i] .. offsets[i + 1] - 1]; a
 * token without bytes gets 0. Offsets outside 0 .. size give KERNEL_INDEX_RANGE. */
KERNEL(token_mask, "mask table columns_of distance bytes offsets | tokens states columns size state budget |")

/* ---- Training */

/* Of rows of f32 and int32 targets. loss (rows), grad_logits = (softmax - one-hot) * *scale / max(the number of targets that
 * count, 1), and that number as a float. Rows whose target is ignore_index give 0. */
KERNEL(cross_entropy_f32, "loss? grad_logits? count? logits targets scale? | rows columns ignore_index |")
/* For every float type of logits (rows, columns), in nats, and int32 or int64 targets (rows). With class weights w and label
 * smoothing e: loss = (1 - e) * w[target] * -log p[target] + e / columns * sum over c of w[c] * -log p[c]. weights receives
 * w[target], by whose sum the mean is divided; both are 0 where the target is ignore_index. Another target outside
 * 0 .. columns - 1 gives KERNEL_INDEX_RANGE. loss, weights and class_weights are float64 for type float64, else float32. */
KERNEL(cross_entropy,
       "loss weights? logits targets class_weights? | rows columns ignore_index type target_type | smoothing")
/* grad_logits for the gradient of each row's loss, grad_loss (rows), which has the type of loss. */
KERNEL(cross_entropy_backward,
       "grad_logits grad_loss logits targets class_weights? | rows columns ignore_index type target_type | smoothing")
/* A program for each element of up to six f32 tensors of `count` elements, in place; bit k of `single` says that tensor k is
 * one element, which all meet. Each of the `steps` instructions is five bytes: an opcode, the place of the result, the places
 * of its operands. Places 0 .. 5 are the tensors, 6 .. 13 values in between, 14 .. 29 the numbers, which are the bits of
 * float64s. greater is 1 or 0; where takes its second operand where the first is not 0, else the third; sign of NaN is 0. */
OPCODE(compute_f32, add, "float32", "same")
OPCODE(compute_f32, sub, "float32", "same")
OPCODE(compute_f32, mul, "float32", "same")
OPCODE(compute_f32, div, "float32", "same")
OPCODE(compute_f32, maximum, "float32", "same")
OPCODE(compute_f32, minimum, "float32", "same")
OPCODE(compute_f32, greater, "float32", "same")
OPCODE(compute_f32, where, "float32", "same")
OPCODE(compute_f32, multiply_add, "float32", "same")
OPCODE(compute_f32, sqrt, "float32", "same")
OPCODE(compute_f32, abs, "float32", "same")
OPCODE(compute_f32, sign, "float32", "same")
KERNEL(compute_f32,
       "x0 x1? x2? x3? x4? x5? program | count steps single number0 number1 number2 number3 number4 number5 "
       "number6 number7 number8 number9 number10 number11 number12 number13 number14 number15 |")
/* settings are seven f32: rate, beta1, beta2, epsilon, weight_decay, 1 - beta1^t, 1 - beta2^t. Weight decay is decoupled, as
 * in torch.optim.AdamW. */
KERNEL(adamw_f32, "parameter m v grad settings | count |")
/* loss (count) and grad of log_probs (steps, count, classes) for int32 labels (count, most). int32 times and lengths
 * (count) say how much of each sample counts, at most `steps` and `most`. scratch: for each of at most `workspaces`
 * workers `room` floats; room is a multiple of 16 and at least (steps + 7) (W + 32), where W is 2 most + 1 rounded up to
 * a multiple of 16. */
KERNEL(ctc_f32, "loss grad? log_probs labels times lengths scratch | steps count classes most blank room workspaces |")

#undef ELEMENT
#undef OPCODE
#undef KERNEL

/* What the library exports (see run.c). int32 and addresses only: in wasm an int64 argument would pass through BigInt.
 * pyapp_run: runs `count` records in order; returns 0, or (index of the record that failed << 8) | KERNEL_* code.
 *   May be called from several host threads at once.
 * pyapp_signature: hexadecimal FNV-1a 64 of this header's bytes, given by build.py, so that Python never drives another ABI.
 * pyapp_allocate: 64-byte aligned, NULL when memory is short; pyapp_free(NULL) is fine. */
int32_t pyapp_run(const launch *records, int32_t count);
int32_t pyapp_run_short(const launch *record); /* one record of little work, on the calling thread; as pyapp_run */
const char *pyapp_signature(void);
const char *pyapp_instruction_set(void); /* "avx512", "avx2", "baseline", "neon", "simd128", "relaxed" */
void *pyapp_allocate(intptr_t bytes);
void pyapp_free(void *memory);
void pyapp_set_threads(int32_t threads); /* 1 .. 64; in wasm always 1 */
int32_t pyapp_threads(void);
void pyapp_cancel(int32_t on); /* 1: the running and later pyapp_run calls return KERNEL_CANCELLED at the next record */
#endif
