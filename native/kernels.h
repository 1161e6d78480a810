/* The kernels: their names and arguments, for C and for Python, and what the library exports.
 *
 * build.py and pyapp/engine/native.py read the KERNEL lines. A line gives a kernel its index (its place in the list),
 * its name and its signature "pointers | dims | floats". A launch record holds the arguments in three groups of slots:
 * pointers, dims (int64) and floats (f32), in the signature's order. build.py names each slot for C: dims slot `rows`
 * of kernel `rope_f32` is record->dims[rope_f32_rows]. A comment over a line says what the kernel computes.
 *
 * Rules for every kernel:
 * - It is a leaf: it allocates nothing, prints nothing and writes no globals.
 * - Worker w of n computes its own share of the output. One worker computes each element, so the result does not depend
 *   on the number of workers.
 * - Strides are counted in elements. Inputs need the alignment of their own elements, no more.
 * - A pointer whose name ends in '?' may be NULL. Where y and x have the same shape, y may be x itself.
 * - A size of zero is legal, and nothing happens.
 * - It returns KERNEL_OK or one of the codes below.
 * - Values that change between replays of a Graph (token ids, positions) are read through int32 pointers. */
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
    KERNEL_DIVISION_BY_ZERO = 5,
    KERNEL_SINGULAR = 6,
    KERNEL_NOT_POSITIVE = 7 /* definite */
};

/* build.py makes slots.h from the lines of these four. A CUDA_KERNEL is a kernel that CUDA alone has, since each launch costs
 * time there: what the CPU computes in several, or after a conversion. */
#define ELEMENT(name, bytes)
#define OPCODE(kernel, name, types, result)
#define KERNEL(name, signature)
#define CUDA_KERNEL(name, signature)

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

/* Copies `bytes` bytes from `from` to `to`. The two areas must not overlap. */
KERNEL(copy_bytes, "to from | bytes |")
/* Copies the view `from` to the view `to`. Both have the same shape (rank <= 6) and any strides; an element has
 * element_bytes bytes. */
KERNEL(copy_strided,
       "to from | element_bytes rank shape0 shape1 shape2 shape3 shape4 shape5 to0 to1 to2 to3 to4 to5 from0 "
       "from1 from2 from3 from4 from5 |")
/* y[i] = value, float32. */
KERNEL(fill_f32, "y | count | value")

/* ---- Conversions */

/* Converts x to another type. y is dense, in the order of the dims; x has any strides.
 *
 * - To floats: the nearest value, ties to even. To 16-bit and 8-bit floats: by way of float32, as in torch. Numbers
 *   that are too large, and infinities, become 448 in float8_e4m3fn and infinite in the other floats.
 * - Floats to integers: towards zero. If int64 cannot hold the number (or it is NaN), the result is the smallest int64.
 *   If int32 cannot hold it, int32 gets the smallest int32. int16, int8, uint16 and uint8 get the low bits of the
 *   int32. uint32 and uint64 get the low bits of a number that 64 bits can hold, else 0.
 * - Integers to integers: the low bits. To bool: 1 if x is not 0. */
KERNEL(cast, "y x | y_type x_type rank shape0 shape1 shape2 shape3 shape4 shape5 x0 x1 x2 x3 x4 x5 |")
/* Conversions of `cast` with a short record, for linear layers and weights. y and x are dense. */
KERNEL(f16_to_f32, "y x | count |")
KERNEL(f32_to_f16, "y x | count |")
KERNEL(bf16_to_f32, "y x | count |")
KERNEL(f32_to_bf16, "y x | count |")

/* ---- Elementwise operations */

/* Operations on two operands of the same type. y is dense, in the order of the dims; a and b have any strides
 * (0 broadcasts). If an operand is NULL, its value is `number`: the bits of a float64 for float types, else the
 * integer.
 *
 * OPCODE lines are explained at `unary`. For bools, add is "or" and mul is "and". Integers wrap. floor_divide,
 * remainder and fmod of integers by 0 return KERNEL_DIVISION_BY_ZERO; y is then undefined. floor_divide rounds down,
 * and remainder has the sign of b, as in Python; fmod has the sign of a. An integer to a negative power is 1 or -1 for
 * 1 and -1, else 0. maximum and minimum are NaN if an operand is NaN; fmax and fmin only if both are. xlogy is 0 if a
 * is 0 and b is not NaN. Shifts by less than 0 or more than 63 give 0 to the left, and the sign to the right. The error
 * in float64 is at most 4 ulp (pow: 2 ulp). float32 functions are computed in float64 and rounded. */

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
/* See above: y = opcode(a, b) of two views. */
KERNEL(binary, "y a? b? | opcode type rank shape0 shape1 shape2 shape3 shape4 shape5 a0 a1 a2 a3 a4 a5 b0 b1 b2 b3 "
               "b4 b5 number |")
/* The most frequent operations of `binary` on float32, with a short record. y[i] (i < count) is computed from element
 * p[i / repeat % period] of each operand. So a period of `count` is a dense operand, 1 a scalar, `columns` a row; a
 * period of `rows` with a repeat of `columns` is a column. A repeat of 0 means 1. If an operand is NULL, its value is
 * `number` and its period must be 1. */
KERNEL(add_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
KERNEL(sub_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
KERNEL(mul_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
KERNEL(div_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
/* The same for the larger and the smaller operand. NaN if either operand is NaN. */
KERNEL(maximum_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")
KERNEL(minimum_f32, "y a? b? | count a_period b_period a_repeat b_repeat | number")

/* Functions of one element.
 *
 * An OPCODE line gives an operation of a kernel its code, which is the line's place among the lines of that kernel
 * (UNARY_exp in C); the types that x may have; and the type of y: "same" as x, or "bool". "floats" are float16,
 * bfloat16, float32 and float64; "integers" are uint8, int8, int16, int32 and int64. An operation and a type that are
 * not listed together return KERNEL_BAD_ARGUMENT. 16-bit floats are computed in float32 or float64 and rounded once.
 * The error is at most 3 ulp in float32 (gelu: 1e-5 relative) and 4 ulp in float64 (lgamma, digamma, trigamma and i0:
 * 1e-14). NaN gives NaN unless stated otherwise. Integers wrap.
 *
 * sign: 0 for NaN. round: ties to even. clamp: to `first` .. `second`. leaky_relu: x * first for x < 0. elu: first *
 * (exp(x) - 1) for x < 0. softplus: log(1 + exp(first * x)) / first, but x if first * x > second. sinc: sin(pi x) /
 * (pi x). gelu_tanh: the approximation by tanh. */

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
/* y = opcode(x), both `count` dense elements. `first` and `second` are the bits of float64 numbers. */
KERNEL(unary, "y x | opcode type count first second |")
/* As `unary`, for a view x of any strides. y is dense, in the order of x's dims. */
KERNEL(unary_strided,
       "y x | opcode type rank shape0 shape1 shape2 shape3 shape4 shape5 x0 x1 x2 x3 x4 x5 first second |")
/* What NumPy computes on the host: y = opcode(a, b), `count` dense elements, in float64 or integers of 64 bits; OPCODE lines
 * are explained at `unary`. NaN, infinities and numbers outside give what the host gives. polygamma: the derivative of digamma
 * of the order `order`, 1 to 101; table (order + 2), float64, is the derivative of the cotangent of that order as a polynomial
 * in it. igamma, igammac: table (3, 24), float64, are the coefficients of Temme's expansion. mantissa and exponent: of
 * frexp. */
OPCODE(special, ndtri, "floats", "same")
OPCODE(special, igamma, "floats", "same")
OPCODE(special, igammac, "floats", "same")
OPCODE(special, polygamma, "floats", "same")
OPCODE(special, zeta, "floats", "same")
OPCODE(special, mantissa, "floats", "same")
OPCODE(special, exponent, "floats", "int32")
OPCODE(special, gcd, "integers", "same")
OPCODE(special, lcm, "integers", "same")
CUDA_KERNEL(special, "y a b? table? | opcode type count order |")
/* The most frequent operations of `unary` on dense float32, with a short record. */
KERNEL(exp_f32, "y x | count |")
KERNEL(log_f32, "y x | count |")
KERNEL(sqrt_f32, "y x | count |")
KERNEL(abs_f32, "y x | count |")
KERNEL(sigmoid_f32, "y x | count |")
KERNEL(tanh_f32, "y x | count |")
KERNEL(silu_f32, "y x | count |")
KERNEL(gelu_f32, "y x | count |")
/* grad_x = grad_y * the derivative of an activation at x: OPCODE lines are explained at `unary`. All are dense. 16-bit
 * floats are computed in float32 and rounded once. */
OPCODE(activation_backward, gelu, "float16 bfloat16 float32", "same")
OPCODE(activation_backward, gelu_tanh, "float16 bfloat16 float32", "same")
OPCODE(activation_backward, silu, "float16 bfloat16 float32", "same")
KERNEL(activation_backward, "grad_x x grad_y | opcode type count |")
/* y = silu(gate) * up. A row of x is [gate | up], each of `columns` elements. */
KERNEL(silu_mul_f32, "y x | rows columns y_stride x_stride |")
/* The gradient of silu_mul_f32. All tensors are dense; rows of x and grad_x are 2 * columns wide. */
KERNEL(silu_mul_backward_f32, "grad_x x grad_y | rows columns |")

/* ---- Reductions */

/* Reduces the middle one of three dims: x (outer, reduced, inner), of any strides, to y (outer, inner), dense.
 *
 * OPCODE lines are explained at `unary`. The type "number" is x's or another float type for floats, and int64 for
 * integers and bool. sum, sum_squares and prod of 16-bit and 32-bit floats are rounded once, at the end; float32 sums
 * are added in float32 for 4096 elements at a time. float64 sums are compensated (Neumaier). Integers wrap. var is the
 * sum of the squared distances from the mean, divided by reduced - correction; only var reads `correction`. max and min
 * are NaN if an element is NaN. argmax and argmin give the index of the first NaN, else the first of equal elements.
 * max, min, argmax and argmin of no elements return KERNEL_BAD_ARGUMENT. */

OPCODE(reduce, sum, "floats integers bool", "number")
OPCODE(reduce, sum_squares, "floats", "number")
OPCODE(reduce, var, "float16 bfloat16 float32", "number")
OPCODE(reduce, prod, "floats integers bool", "number")
OPCODE(reduce, any, "floats integers bool", "bool")
OPCODE(reduce, all, "floats integers bool", "bool")
OPCODE(reduce, max, "floats integers bool", "same")
OPCODE(reduce, min, "floats integers bool", "same")
OPCODE(reduce, argmax, "floats integers", "int64")
OPCODE(reduce, argmin, "floats integers", "int64")
KERNEL(reduce, "y x | opcode y_type x_type outer reduced inner x_outer x_reduced x_inner | correction")
/* The sum of each row of float32: y (rows), with a short record. */
KERNEL(sum_rows_f32, "y x | rows columns x_stride |")
/* The sum of each column of float32: y (columns), with a short record. */
KERNEL(sum_columns_f32, "y x | rows columns x_stride |")
/* The int32 index of the first largest element of each row. NaN counts as the largest. */
KERNEL(argmax_f32, "index x | rows columns x_stride |")

/* ---- Scans */

/* Scans along the middle dim. y (outer, length, inner) is dense; x has any strides.
 *
 * OPCODE lines are explained at `unary`. The type "number" is x's for floats, and int64 for integers and bool. Floats
 * are summed and multiplied in float64, and each result is rounded. cummax and cummin also write the indices (int64) of
 * the extremes: the last of equal elements. From the first NaN on, the result is NaN. */

OPCODE(scan, cumsum, "floats integers bool", "number")
OPCODE(scan, cumprod, "floats integers bool", "number")
OPCODE(scan, cummax, "floats integers bool", "same")
OPCODE(scan, cummin, "floats integers bool", "same")
OPCODE(scan, logcumsumexp, "floats", "same")
KERNEL(scan, "y indices? x | opcode type outer length inner x_outer x_dim x_inner |")
/* A step of an LSTM. A row of `gates` is [input | forget | cell | output], each of `columns` elements, before their
 * functions: c = sigmoid(forget) * c_before + sigmoid(input) * tanh(cell), h = sigmoid(output) * tanh(c). Everything is dense;
 * gates receive the functions' results. */
KERNEL(lstm_cell_f32, "h c gates c_before | rows columns |")
KERNEL(lstm_cell_f64, "h c gates c_before | rows columns |")
/* Its gradients, from those of h and of c, in two parts each of which may be missing but for grad_c, which receives that of
 * c_before. `gates` receive theirs. */
KERNEL(lstm_cell_backward_f32, "gates grad_c c c_before grad_h? later_h? later_c? | rows columns |")
KERNEL(lstm_cell_backward_f64, "gates grad_c c c_before grad_h? later_h? later_c? | rows columns |")
/* A step of a GRU. Rows of x and hidden are [reset | update | new]: r = sigmoid(x + hidden), z = sigmoid(x + hidden), n = tanh(x
 * + r * hidden), h = n + z * (h_before - n). Everything is dense. */
KERNEL(gru_cell_f32, "h x hidden h_before | rows columns |")
KERNEL(gru_cell_f64, "h x hidden h_before | rows columns |")
/* Its gradients, from grad_h and grad_before, which receives z times their sum: what reaches h_before without the product that
 * made `hidden`. hidden receives its own. */
KERNEL(gru_cell_backward_f32, "grad_x hidden grad_before x h_before grad_h? | rows columns |")
KERNEL(gru_cell_backward_f64, "grad_x hidden grad_before x h_before grad_h? | rows columns |")
/* The linear recurrence y[t] = a[t] * y[t - 1] + b[t] along the middle dim, from `start` (outer, inner) or 0; with
 * `reversed` from the last element to the first: y[t] = a[t] * y[t + 1] + b[t]. All others are dense (outer, length, inner). */
KERNEL(linear_scan_f32, "y a b start? | outer length inner reversed |")
/* Mamba's recurrence, for each channel c with `size` states, in place, and its outputs y (texts, tokens, channels):
 * state[c] = exp(steps[t, c] * decay[c]) * state[c] + steps[t, c] * x[t, c] * inward[t]; y[t, c] = state[c] . outward[t].
 * state (texts, channels, size), x and steps as y, inward and outward (texts, tokens, size), decay (channels, size); all
 * are dense. */
KERNEL(selective_scan_f32, "y state x steps inward outward decay | texts tokens channels size |")

/* ---- Selecting and placing elements
 *
 * Elements have 1, 2, 4 or 8 bytes; indices are int64 or int32. An index out of range returns KERNEL_INDEX_RANGE. Then
 * scatter and index_put have not changed y; after the other kernels y is undefined. */

/* y = condition ? a : b, rank <= 5. y is dense; condition is bool or uint8. If an operand is NULL, its value is the
 * element in the low bytes of a_bits or b_bits. */
KERNEL(where, "y condition a? b? | element_bytes rank shape0 shape1 shape2 shape3 shape4 c0 c1 c2 c3 c4 a0 a1 a2 a3 "
              "a4 b0 b1 b2 b3 b4 a_bits b_bits |")
/* torch.gather: y[.., i, ..] = x[.., index[.., i, ..], ..] along `dim`. y is dense and has the shape of index; x has
 * `size` elements along `dim`, and the strides x0 ... . Indices are from 0 to size - 1. */
KERNEL(gather, "y x index | element_bytes index_type rank dim size shape0 shape1 shape2 shape3 shape4 shape5 x0 x1 "
               "x2 x3 x4 x5 index0 index1 index2 index3 index4 index5 |")
/* torch.scatter, scatter_add and scatter_reduce: combines y[.., index[.., i, ..], ..] with source[.., i, ..] along
 * `dim`, in the order of i. The shape is that of index, rank <= 4; y has `size` elements along `dim`. If source is
 * NULL, its value is `number`: the bits of a float64 for float types, else the integer. Each addition and
 * multiplication rounds to y's type. maximum and minimum are NaN if an operand is NaN. */
OPCODE(scatter, set, "every", "same")
OPCODE(scatter, add, "floats integers", "same")
OPCODE(scatter, multiply, "floats integers", "same")
OPCODE(scatter, maximum, "floats integers", "same")
OPCODE(scatter, minimum, "floats integers", "same")
KERNEL(scatter, "y index source? | opcode type index_type rank dim size shape0 shape1 shape2 shape3 y0 y1 y2 y3 "
                "index0 index1 index2 index3 source0 source1 source2 source3 number |")
/* index_select, rows of a table, and indexing by several tensors: y[o, n] = the block of `inner` elements at x + o *
 * x_outer + sum over k of index_k[n] * stride_k. y (outer, count, inner) is dense, and so is a block. The indices are
 * int64, dense. With `negative`, indices below 0 count from the end of size_k. */
KERNEL(index_get, "y x index0 index1? index2? index3? | element_bytes outer count inner x_outer negative size0 size1 "
                  "size2 size3 stride0 stride1 stride2 stride3 |")
/* Combines the block at y + o * y_outer + sum over k of index_k[n] * stride_k with source[o, n] (strides source_outer,
 * source_count and source_inner), in the order of n. The opcodes are those of `scatter`. Indices below 0 count from the
 * end. */
KERNEL(index_put, "y source index0 index1? index2? index3? | opcode type outer count inner y_outer source_outer "
                  "source_count source_inner size0 size1 size2 size3 stride0 stride1 stride2 stride3 |")

/* ---- Sorting */

/* Sorts along the middle dim and gives the first `count` elements: a sort if count = length, else a top-k. Equal
 * elements keep their order; NaN counts as the largest. x (outer, length, inner) has any strides; y (x's type) and
 * indices (int64) are (outer, count, inner), dense. scratch has 32 * min(length, 2 * count + 128) bytes for each of at
 * most `workspaces` workers; further workers do nothing. */
KERNEL(sort, "y? indices? x scratch | type outer length inner count descending x_outer x_dim x_inner workspaces |")

/* ---- New values */

/* y[i] = number, which is the bits of a float64 for float types, else the integer. */
KERNEL(fill, "y | type count number |")
/* y[i] = start + i * step, computed in float64 or int64. start and step are given as `number` of `fill`. Not for
 * bool. */
KERNEL(arange, "y | type count start step |")
/* Copies each matrix (rows, columns) of x, with zeros where column - row < diagonal (upper 1: triu) or column - row >
 * diagonal (upper 0: tril). y is dense. */
KERNEL(triangular, "y x | element_bytes batch rows columns diagonal upper x_batch x_row x_column |")
/* y (count, classes): row i has a 1 at index[i] and zeros elsewhere. */
KERNEL(one_hot, "y index | type index_type count classes |")

/* ---- Products with weight matrices
 *
 * y[m, n] = sum over k of x[m, k] * w[n, k], plus residual[m, n] if it is given. w is (outputs, inputs), row-major and
 * contiguous. With a residual_stride of 0 the same row (a bias) is added to every row. */

/* float32 x, y and residual; weights in float32, float16 or bfloat16. */
KERNEL(linear_f32, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
KERNEL(linear_f16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
KERNEL(linear_bf16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
/* x, y and residual have the type of the weights. Sums are computed in float32 and rounded once. */
KERNEL(linear_f16_f16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
KERNEL(linear_bf16_bf16, "y x w residual? | rows outputs inputs y_stride x_stride residual_stride |")
/* w is packed in bands of 8 rows (bands.h), padded with zeros to a multiple of 8 rows and 32 columns. Each row of a
 * block of 32 columns has one scale: f16 in q8_0, f32 in q8_group. xq is the output of quantize_rows. */
KERNEL(linear_q8_0, "y xq w residual? | rows outputs inputs y_stride residual_stride |")
KERNEL(linear_q8_group, "y xq w residual? | rows outputs inputs y_stride residual_stride |")
/* w is packed by pack_blocks, or in GGML's blocks if bands.h does not have its type. `type` is GGML's code of the type
 * (block_types.h). */
KERNEL(linear_blocks, "y xq w residual? | rows outputs inputs y_stride residual_stride type |")
/* Quantises activations. Each block of 32 columns of a row becomes 40 bytes: 32 int8, their f32 scale and their int32
 * sum. Columns are padded with zeros to a multiple of 32. scale = absmax / 127. Numbers are rounded to nearest, ties
 * away from zero (roundf), as in llama.cpp and llama2.c. x is float32, float16 or bfloat16. */
KERNEL(quantize_rows, "xq x | rows columns x_stride |")
KERNEL(quantize_rows_f16, "xq x | rows columns x_stride |")
KERNEL(quantize_rows_bf16, "xq x | rows columns x_stride |")
/* y = x + residual, rounded once. x is float32; y (rows, columns), dense, and residual are float16 or bfloat16. With a
 * residual_stride of 0 the same row is added to every row. y may be residual. */
KERNEL(add_rows_f16, "y x residual? | rows columns residual_stride |")
KERNEL(add_rows_bf16, "y x residual? | rows columns residual_stride |")
/* Packs GGML's q8_0 blocks for linear_q8_0. */
KERNEL(pack_q8_0, "packed blocks | rows columns |")
/* Packs row-major int8 quants and f32 scales, one for each `group` columns, for linear_q8_group. */
KERNEL(pack_q8_group, "packed quants scales | rows columns group |")
/* Quantises float32 x (rows, columns) to q8_0, packed for linear_q8_0. */
KERNEL(quantize_q8_0, "packed x | rows columns x_stride |")
/* Quantises float32 x (rows, columns), dense and finite, to blocks of GGML's types as files store them, row by row, bit
 * for bit as the modules of pyapp/engine/blocks do in NumPy. importance (columns) weights the errors of the columns. The
 * page does not have it. */
KERNEL(quantize_blocks, "blocks x importance? | rows columns type |")
/* found[i] = 1 if a NaN or an infinity is among the `part` elements of x from i * part on, else 0. x has `count`
 * elements, dense, of the float `type`; found (parts) is uint8. The page does not have it. */
KERNEL(find_not_finite, "found x | count part type |")
/* Dequantises packed weights to float32 y (rows, columns), dense. */
KERNEL(unpack_q8_0, "y packed | rows columns |")
KERNEL(unpack_q8_group, "y packed | rows columns |")
/* Packs blocks of GGML's types in bands of 8 rows (bands.h) for linear_blocks. Rows of types that bands.h does not have
 * are copied one after the other, as files store them. */
KERNEL(pack_blocks, "packed blocks | rows columns type |")
/* The inverse of pack_blocks and pack_q8_0, bit for bit. */
KERNEL(unpack_bands, "blocks packed | rows columns type |")
/* Dequantises weights of linear_blocks to float32 y (rows, columns), dense. */
KERNEL(unpack_blocks, "y blocks | rows columns type |")
/* c[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]. a and b have any strides; rows of c are dense. */
KERNEL(matmul_f32, "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row |")
/* The same for other floats. Sums of 16-bit floats are computed in float32 and rounded once. */
KERNEL(matmul_f16, "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row |")
KERNEL(matmul_bf16, "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row |")
KERNEL(matmul_f64, "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row |")
/* The same for integers of 1, 2, 4 or 8 bytes, signed or not. They wrap. */
KERNEL(matmul_integer,
       "c a b | batch m n k a_batch a_row a_column b_batch b_row b_column c_batch c_row element_bytes |")

/* ---- Normalization and softmax, row by row */

/* y = x / sqrt(mean(x^2) + epsilon) * weight, for each row. */
KERNEL(rms_norm_f32, "y x weight | rows columns y_stride x_stride | epsilon")
/* The same with a weight of `type`, float32, float16 or bfloat16, to whose elements `offset` is added. */
CUDA_KERNEL(rms_norm_typed, "y x weight | rows columns y_stride x_stride type | epsilon offset")
/* The same, and sum = y + residual, both dense: for CUDA's Graphs, as kernels below. */
CUDA_KERNEL(rms_norm_add, "y x weight residual sum | rows columns y_stride x_stride type | epsilon offset")
/* [queries, keys, values] x (rows, heads + 2 kv_heads, head_dim), rows x_stride apart, to y, dense: each query and key by
 * rms_norm with its weight of `type` plus `offset`; values as they are. */
CUDA_KERNEL(normalize_heads,
            "y x query_weight key_weight | rows heads kv_heads head_dim x_stride type | epsilon offset")
/* CUDA's Graphs join launches (pyapp/engine/gpu/fusion.py): the kernels from here to quantize_linear_blocks write the results
 * of several. rms_norm_typed and quantize_rows of y. */
CUDA_KERNEL(rms_norm_quantize_rows, "y x weight xq | rows columns y_stride x_stride type | epsilon offset")
/* silu_mul_f32, and quantize_rows of y. */
CUDA_KERNEL(silu_mul_quantize_rows, "y x xq | rows columns y_stride x_stride |")
/* rms_norm of one row, y = normed w^T with weights w of `type`, and if `gated` activated = silu_mul of y. Rows begin where
 * 16 bytes do; there are 513 to 8192 inputs, a multiple of 8. */
CUDA_KERNEL(rms_norm_linear, "y x weight w normed activated? | outputs inputs weight_type type gated | epsilon")
/* The same of queries, keys and values, and rotate_and_write of one token, to a cache of floats that is not in blocks. The
 * values' cache begins `values_after` bytes behind that of the keys. */
CUDA_KERNEL(rms_norm_linear_rotate,
            "y x weight w normed table? position keys | outputs inputs weight_type type heads kv_heads head_dim "
            "capacity rotated positions interleaved cache_type values_after | epsilon")
/* quantize_rows and linear_q8_0 or linear_blocks of one row. Before that rms_norm with `weight` (before: 1) or silu_mul
 * (before: 2), whose result `made` keeps. */
CUDA_KERNEL(quantize_linear_q8_0, "y x w residual? weight? made? xq | outputs inputs before weight_type | epsilon")
CUDA_KERNEL(quantize_linear_blocks,
            "y x w residual? weight? made? xq | outputs inputs before weight_type type | epsilon")
/* The gradients of rms_norm_f32. grad_weight (columns) is the sum over the rows. */
KERNEL(rms_norm_backward_f32, "grad_x grad_weight x weight grad_y | rows columns | epsilon")
/* y = (x - mean) / sqrt(variance + epsilon) * weight + bias, for each row. */
KERNEL(layer_norm_f32, "y x weight bias | rows columns y_stride x_stride | epsilon")
/* The gradient of layer_norm_f32 with respect to x. It also writes the mean and 1 / sqrt(variance + epsilon) of each
 * row to statistics (rows, 2), for layer_norm_weights_backward_f32. grad_x may be grad_y or x if that kernel does not
 * run later. */
KERNEL(layer_norm_backward_f32, "grad_x statistics x weight grad_y | rows columns | epsilon")
/* The gradients of layer_norm_f32 with respect to weight and bias (columns), summed over the rows. */
KERNEL(layer_norm_weights_backward_f32, "grad_weight grad_bias x statistics grad_y | rows columns |")
/* y = exp(x) / sum of exp(x), for each row. */
KERNEL(softmax_f32, "y x | rows columns y_stride x_stride |")
/* grad_x = y * (grad_y - sum of y * grad_y over the row), where y is the output of softmax_f32. */
KERNEL(softmax_backward_f32, "grad_x y grad_y | rows columns |")
/* y = log(softmax(x)), for each row. */
KERNEL(log_softmax_f32, "y x | rows columns y_stride x_stride |")
/* Softmax (log 0) or log-softmax (log 1) over the middle dim of x (outer, count, inner), dense, for every float type.
 * 16-bit floats are summed in float32. */
KERNEL(softmax, "y x | outer count inner log type |")
/* The gradient of `softmax`, from its output y. */
KERNEL(softmax_backward, "grad_x y grad_y | outer count inner log type |")
/* Layer, RMS, group, instance and batch norm for every float type: y = (x - mean) / sqrt(variance + epsilon) * weight +
 * bias, for each row. With centred 0 (RMS norm) the mean counts as 0, and the variance is the mean square.
 *
 * Row r consists of `segments` segments of `length` elements: element i of segment s is at r * row_stride + s *
 * segment_stride + i, in x and y. Its weight and bias are at r % weight_period * weight_row + s * weight_segment + i *
 * weight_element, where weight_element is 0 or 1; their type is weight_type. statistics (rows, 3) are the mean, the
 * variance and 1 / sqrt(variance + epsilon), in float64 for type float64, else in float32. 16-bit floats are summed in
 * float32. The epsilon in double precision is epsilon + epsilon_rest. */
KERNEL(normalize, "y statistics? x weight? bias? | rows segments length row_stride segment_stride weight_period "
                  "weight_row weight_segment "
                  "weight_element centred type weight_type | epsilon epsilon_rest")
/* The gradient of `normalize` with respect to x, from the statistics that `normalize` has written. */
KERNEL(normalize_backward, "grad_x x statistics weight? grad_y | rows segments length row_stride segment_stride "
                           "weight_period weight_row weight_segment "
                           "weight_element centred type weight_type | epsilon epsilon_rest")
/* The gradients of `normalize` with respect to weight and bias: sums over all elements that share a weight. They have
 * `weights` elements, in float64 for type float64, else in float32. */
KERNEL(normalize_weights_backward,
       "grad_weight grad_bias? x statistics grad_y | rows segments length row_stride segment_stride weight_period "
       "weight_row weight_segment weight_element type weights |")

/* ---- Attention */

/* Of the three kernels below: `texts` texts of `tokens` tokens each follow one another; row t of text b has the position
 * position[b] + t. A cache is (texts, kv_heads, capacity, head_dim) of the type float32, float16 or, on CUDA, bfloat16; or
 * uint8: then a row is q8_0, head_dim int8 numbers and an f16 scale for each 32 of them. With a table (texts, parts) int32 it
 * is (blocks, kv_heads, capacity, head_dim), and part i of text b, the positions i * capacity ..., lies in block table[b, i]
 * (paged attention, Kwon et al. 2023, arXiv 2309.06180); without one, parts is 0 or 1 and blocks is 0. */

/* Rotary embedding of the first `rotated` columns of each head; the others are copied. table is (positions, rotated / 2, 2)
 * of cos and sin. x is (texts * tokens, heads, head_dim), tokens x_stride apart. interleaved 1 turns the pairs (2i, 2i + 1),
 * 0 the pairs (i, i + rotated / 2). Without position, one text begins at 0. */
KERNEL(rope_f32, "y x table position? | texts tokens heads head_dim rotated y_stride x_stride positions interleaved |")
/* Writes x (texts * tokens, heads, head_dim), f32, to the cache. */
KERNEL(cache_write, "cache x position table? | texts tokens heads head_dim capacity x_stride type parts blocks |")
/* rope_f32 and cache_write in one. qkv is (texts * tokens, heads + 2 * kv_heads, head_dim), f32, tokens
 * `stride` apart: queries, which are rotated in place, keys, which are written rotated, and values. Without a table nothing is
 * rotated. */
CUDA_KERNEL(rotate_and_write,
            "qkv table? position keys values block_table? | texts tokens heads kv_heads head_dim capacity stride "
            "rotated positions interleaved type parts blocks |")
/* y, q (texts * tokens, heads, head_dim), f32; k, v caches. Query head h reads kv head h / (heads / kv_heads). With causal 1,
 * row t sees the cached positions 0 .. position[b] + t; else all rows see 0 .. position[b] + tokens - 1; of these, with a
 * window, at most the last `window`. A score is softcap * tanh(q . k * scale / softcap), without softcap (0) q . k * scale,
 * plus slopes[h] * (key - last visible key). exp(sinks[h]) is added to the sum that a row's weights are divided by. */
KERNEL(cached_attention,
       "y q k v position slopes? sinks? table? | texts tokens heads kv_heads head_dim capacity y_stride q_stride "
       "causal window type parts blocks | scale softcap")
/* Attention of whole sequences, with or without a mask, for float32, float16 and bfloat16: `type` is that of all but the
 * mask and the workspace; sums are f32. q (batch, tokens, heads, head_dim), k (batch, keys, kv_heads, head_dim), v (batch,
 * keys, kv_heads, value_dim), y (batch, tokens, heads, value_dim). Batch entries and tokens of q, k and v have any strides;
 * y and all gradients are dense. Row t sees the keys t - before .. t + after (causal: after = 0 or keys - tokens). The mask
 * of row t of query head h of batch entry b for key s is mask[b * mask_batch + h * mask_head + t * mask_token +
 * s * mask_key]: a float is added to the score, a bool is true where the row sees the key. Before that, with a softcap (not
 * 0), a score is softcap * tanh(score / softcap), which WebAssembly does not compute. A row that sees nothing gives 0, and
 * gradients of 0. workspace: for each of at most `workspaces` workers (further workers stay idle) 4 * (S + 48) * D + 96 * S
 * floats, with a softcap 144 * S, where S is keys rounded up to a multiple of 24 and D the larger of head_dim and value_dim,
 * rounded up to a multiple of 16. grad_kv is grad_k (batch, keys, kv_heads, head_dim), then grad_v (batch, keys, kv_heads, value_dim).
 * plain: 1 says that there is no mask, the softcap is 0 and the scale more than 0, which CUDA compiles kernels for. */
KERNEL(masked_attention,
       "y q k v mask? workspace | batch tokens keys heads kv_heads head_dim value_dim q_batch "
       "q_token k_batch k_token v_batch v_token before after type mask_type mask_batch mask_head mask_token mask_key "
       "workspaces plain | scale softcap")
KERNEL(masked_attention_backward,
       "grad_q grad_kv q k v grad_y mask? workspace | batch tokens keys heads kv_heads head_dim value_dim q_batch "
       "q_token k_batch k_token v_batch v_token before after type mask_type mask_batch mask_head mask_token mask_key "
       "workspaces plain | scale softcap")
/* The same for 16 bits, heads and values of 128, without a mask or softcap; batch entries and tokens of q, k and v begin
 * where 16 bytes do. For cards of compute capability 9.0. */
CUDA_KERNEL(masked_attention_pairs,
            "y q k v mask? workspace | batch tokens keys heads kv_heads head_dim value_dim q_batch "
            "q_token k_batch k_token v_batch v_token before after type mask_type mask_batch mask_head mask_token "
            "mask_key workspaces plain | scale softcap")
/* Sparse attention's indexer (DeepSeek V3.2): y (tokens, parts * capacity) f32, of which row t gets the scores of the keys
 * 0 .. p = position[0] + first + t, unless they are count or fewer: the sum over the heads of weights[t, h] *
 * max(q[t, h] . key, 0). q (tokens, heads, head_dim) and weights (tokens, heads) are f32, keys (capacity, head_dim) float32 or
 * float16, or with a table (1, parts) int32 (blocks, capacity, head_dim); without one, parts is 1. head_dim <= 512. */
KERNEL(indexer_scores,
       "y q weights keys position table? | tokens heads head_dim capacity type parts blocks first count |")
/* places (tokens, count) int32: those of the count largest of scores[t, 0 .. p], in rising order; 0 .. count - 1 where there
 * are count or fewer. scores is (tokens, length). */
KERNEL(indexer_places, "places scores position | tokens length first count |")
/* As attention_f32, but every row sees all `keys`. k and v are packed by the two kernels below; head_dim <= 256. */
KERNEL(attention_q8, "y q k v | tokens heads kv_heads head_dim keys y_stride q_stride | scale")
/* x is (tokens, heads, head_dim), tokens x_stride apart; the packed heads follow one another. For each 8 keys: 8 f32
 * scales; then for each 4 columns, 4 bytes of key 0, of key 1, ... of key 7. What is subtracted from the keys and added to
 * the bytes depends on the machine. Keys are padded to a multiple of 8, columns to a multiple of 4. */
KERNEL(pack_keys_q8, "packed x | tokens heads head_dim x_stride |")
/* For each 64 keys: an f32 scale for each column; then for each 4 keys, 4 int8 of column 0, of column 1, ... . Keys are
 * padded to a multiple of 64, columns to a multiple of 8. */
KERNEL(pack_values_q8, "packed x | tokens heads head_dim x_stride |")

/* ---- Embedding
 *
 * y[t] = w[ids[t]]. An id outside 0 .. vocabulary - 1 returns KERNEL_INDEX_RANGE. */

/* Copies rows of any type. element_bytes is the size of an element of w and y; id_bytes is that of an id, 4 or 8. */
KERNEL(embedding_copy, "y w ids | tokens columns vocabulary y_stride element_bytes id_bytes |")
/* Sums of rows: y (bags, columns) = the sum of w[ids[t]] of each bag, or their mean. Bag b begins at starts[b] and ends
 * where the next one does, the last with the ids; without starts, all have tokens / bags ids. starts are int64, from 0 to
 * tokens and ascending; others return KERNEL_INDEX_RANGE. An empty bag is 0. */
KERNEL(embedding_bag_f32, "y w ids starts? | bags tokens columns vocabulary id_bytes mean |")
/* Converts rows of w to float32. ids are int32. */
KERNEL(embedding_f16, "y w ids | tokens columns vocabulary y_stride |")
KERNEL(embedding_bf16, "y w ids | tokens columns vocabulary y_stride |")
KERNEL(embedding_q8_0, "y w ids | tokens columns vocabulary y_stride |")
KERNEL(embedding_q8_group, "y w ids | tokens columns vocabulary y_stride |")
KERNEL(embedding_blocks, "y w ids | tokens columns vocabulary y_stride type |")
/* grad_w[id] = the sum of the rows of grad_y with that id, in their order, or 0. ids are int32 or int64, as id_bytes
 * says. */
KERNEL(embedding_backward_f32, "grad_w grad_y ids | tokens columns vocabulary id_bytes |")

/* ---- Convolution */

/* Convolution as a matrix product: c[b, g] (m, j0 j1 j2 j3) = a[g] (m, k0 k1 k2 k3) times a matrix of elements of x,
 * plus bias[g] (m). k stands for the indices (k0, k1, k2, k3), j for (j0, j1, j2, j3). Element (k, j) of the matrix is
 * x[b * x_batch + g * x_group + the sum of these eight indices times their strides]. Strides are not negative, and
 * j_stride3 is not 0. 128 floats after the last element of x must be readable. */
KERNEL(windows_f32,
       "c a x bias? | batch groups m k0 k1 k2 k3 k_stride0 k_stride1 k_stride2 k_stride3 j0 j1 j2 j3 j_stride0 "
       "j_stride1 j_stride2 j_stride3 x_batch x_group |")
/* Depthwise convolution, in which each channel has its own kernels: y[.., i, j] = bias + sum over (p, q) of
 * weight[.., p, q] * x[.., i * stride_y + p * dilation_y - top, j * stride_x + q * dilation_x - left]. x is
 * (batch, channels, height, width), and zero outside; weight is (channels, multiplier, kernel_height, kernel_width), y
 * (batch, channels, multiplier, out_height, out_width). All are dense. A convolution over one dim has a height of 1. */
KERNEL(depthwise_f32, "y x weight bias? | batch channels multiplier height width kernel_height kernel_width "
                      "stride_y stride_x top left dilation_y dilation_x out_height out_width |")
/* The gradient of depthwise_f32 with respect to x. */
KERNEL(depthwise_input_backward_f32,
       "grad_x grad_y weight | batch channels multiplier height width kernel_height kernel_width "
       "stride_y stride_x top left dilation_y dilation_x out_height out_width |")
/* The gradient of depthwise_f32 with respect to weight, summed over the batch. */
KERNEL(depthwise_weight_backward_f32,
       "grad_weight x grad_y | batch channels multiplier height width kernel_height kernel_width "
       "stride_y stride_x top left dilation_y dilation_x out_height out_width |")

/* Convolutions and pools of pictures whose channels lie together: x is (batch, height, width, groups * inner), y (batch,
 * out_height, out_width, groups * outputs), dense. `weights` is what pack_convolution_f32 made of the weight (groups *
 * outputs, inner, taps): (outputs + 63) * inner * taps floats for each group, whose order depends on the instruction
 * set. y = the convolution + bias + residual (of y's shape), held between low and high. Without padding `inner` may have
 * any size, else 2048 at most; there are at most 512 taps. The page has none of these five. */
KERNEL(pack_convolution_f32, "to weight | groups outputs inner taps |")
KERNEL(convolution_channels_last_f32,
       "y x weights bias? residual? | batch groups inner outputs height width kernel_height kernel_width stride_y "
       "stride_x top left dilation_y dilation_x out_height out_width | low high")
/* The same where each channel has a kernel of its own; weight is (kernel_height, kernel_width, channels). */
KERNEL(depthwise_channels_last_f32,
       "y x weight bias? | batch channels height width kernel_height kernel_width stride_y stride_x top left "
       "dilation_y dilation_x out_height out_width | low high")
/* Both in turn: the convolution without groups and dilation, held between low and high, is the picture of the depthwise
 * one, (batch, middle_height, middle_width, channels), of which no more than depth_height lines are kept: scratch has
 * depth_height * middle_width * channels floats for each of `workspaces` workers. */
KERNEL(expanded_depthwise_channels_last_f32,
       "y x weights bias? depth_weight depth_bias? scratch | batch inner channels height width kernel_height "
       "kernel_width stride_y stride_x top left middle_height middle_width depth_height depth_width depth_stride_y "
       "depth_stride_x depth_top depth_left out_height out_width workspaces | low high depth_low depth_high")
/* The largest element of each window (NaN if one is) or, if `mean`, the mean. Elements outside of the picture are no
 * part of a window, but count for the mean if `whole`. */
KERNEL(pool_channels_last_f32,
       "y x | batch channels mean whole height width kernel_height kernel_width stride_y stride_x top left out_height "
       "out_width |")
/* Transposed convolution, which is also the gradient of a convolution with respect to its input: y[.., r, c] = bias +
 * the sum of weight[.., p, q] * x[.., i, j] over all inputs and all (i, j, p, q) with i * stride_y + p * dilation_y -
 * top = r and j * stride_x + q * dilation_x - left = c. x is (batch, groups, inputs, height, width), weight (groups,
 * inputs, outputs, kernel_height, kernel_width), y (batch, groups, outputs, out_height, out_width). All are dense. A
 * convolution over one dim has a height of 1. */
KERNEL(conv_transpose_f32,
       "y x weight bias? | batch groups inputs outputs height width kernel_height kernel_width stride_y stride_x top "
       "left dilation_y dilation_x out_height out_width |")

/* ---- Pooling
 *
 * x is (planes, size0, size1, size2), y (planes, out0, out1, out2); both are dense, of the float `type`. Along a dim,
 * window o has the elements o * stride + k * dilation - pad (k < kernel) that exist. With a kernel of 0 the windows are
 * `out` parts: the elements floor(o * size / out) .. ceil((o + 1) * size / out) - 1. The gradients are sums over the
 * windows. 16-bit floats are computed in float64, and each result is rounded. */

/* The largest element of each window, and where it is in its plane (int64): the first of equal ones, but the last NaN.
 * A window without elements gives -infinity and -1. On processors also of int64, in windows of a given size. */
KERNEL(max_pool, "y? indices? x | type planes size0 size1 size2 out0 out1 out2 kernel0 kernel1 kernel2 stride0 stride1 "
                 "stride2 pad0 pad1 pad2 dilation0 dilation1 dilation2 |")
KERNEL(max_pool_backward,
       "grad_x x grad_y | type planes size0 size1 size2 out0 out1 out2 kernel0 kernel1 kernel2 stride0 stride1 "
       "stride2 pad0 pad1 pad2 dilation0 dilation1 dilation2 |")
/* The sum of each window divided by `divisor`, or where it is 0 by the number of elements; with `counted` 1, those of
 * the padding count. The dilation is 1. */
KERNEL(avg_pool, "y x | type planes size0 size1 size2 out0 out1 out2 kernel0 kernel1 kernel2 stride0 stride1 "
                 "stride2 pad0 pad1 pad2 dilation0 dilation1 dilation2 counted divisor |")
KERNEL(avg_pool_backward,
       "grad_x grad_y | type planes size0 size1 size2 out0 out1 out2 kernel0 kernel1 kernel2 stride0 stride1 "
       "stride2 pad0 pad1 pad2 dilation0 dilation1 dilation2 counted divisor |")

/* ---- Distances */

/* y (batch, rows, others): the distance of each row of a (batch, rows, columns) from each of b (batch, others, columns), all
 * dense float32. norm 0: the root of the sum of squares, 1: the sum of sizes, 2: the largest size, NaN if one is NaN. */
KERNEL(distances_f32, "y a b | batch rows others columns norm |")
/* The gradient in a, for norms 0 and 1; 0 where a distance, or a difference, is 0. */
KERNEL(distances_backward_f32, "grad_a a b y grad_y | batch rows others columns norm |")

/* ---- Sampling at places */

/* y (batch, channels, points): x (batch, channels, height, width) at the places grid (batch, points, 2) of (x, y) in
 * -1 .. 1, which are the centres of the corner elements (`corners`) or their outer edges; bilinear, or the `nearest`
 * element. Outside of x: padding 0 gives zeros, 1 the nearest element, 2 a mirrored place. All are dense float32. */
KERNEL(grid_sample_f32, "y x grid | batch channels height width points nearest padding corners |")
/* Its gradients. */
KERNEL(grid_sample_backward_f32,
       "grad_x? grad_grid? x grid grad_y | batch channels height width points nearest padding corners |")
/* Samples along the middle dim: y[.., o, ..] is the sum of x[.., places[k], ..] times weights[k] for starts[o] <= k <
 * starts[o + 1]. x (outer, size, inner) and y (outer, out, inner) are dense, of type float32 or uint8; starts (out + 1)
 * and places (entries) are int32, weights (entries) float32. Of uint8 the weights are int32, in units of 2^-precision
 * (1 to 30): a sum is rounded, halves up, and limited to 0 .. 255, and must not overflow 32 bits. A place that is not
 * from 0 to size - 1 gives KERNEL_INDEX_RANGE. */
KERNEL(resample, "y x starts places weights | outer size out inner entries type precision |")

/* ---- Fourier transforms */

/* Discrete Fourier transforms of float32 along the middle dim of (outer, size, inner); strides are counted in elements of x
 * and y, which are complex numbers (re, im) or real ones. kind 0: complex to complex, with exp(+...) if `inverse`. 1: real
 * to the first size / 2 + 1 frequencies. 2: real to all frequencies; `inverse` conjugates those of 1 and 2. 3: the first
 * size / 2 + 1 frequencies of a real signal to that signal; the imaginary parts of the first and last count as 0. Results
 * are multiplied by `scale`, and in 1 and 3 all frequencies but the first and last by `middle`. The size has prime factors
 * up to 13; for kinds 1 to 3 it is even. CUDA takes up to 2^20 complex numbers, or twice as many real ones. roots (size, 2)
 * are cos and sin of 2 pi i / size. The workspace has 64 * (4 * size + 4) bytes, aligned to 64, for each of at most
 * `workspaces` workers; further workers do nothing. */
KERNEL(fourier_f32, "y x roots workspace | outer inner size kind inverse x_outer x_inner x_step y_outer y_inner y_step "
                    "workspaces | scale middle")
/* y (outer, y_size, inner) = x (outer, x_size, inner) * factors * scale, dense complex numbers. Of x those beyond y_size are
 * left out; of y those beyond x_size are 0. factors (the smaller of both) are complex. */
CUDA_KERNEL(multiply_complex_f32, "y x factors | outer x_size y_size inner | scale")

/* ---- Sound */

/* Power spectra: y (size / 2 + 1, frames), with rows y_stride apart. Frame t is |DFT|^2 of samples[t * hop .. t * hop +
 * size - 1] times the periodic Hann window. roots (size, 2) are cos and sin of 2 pi i / size. size is twice a product
 * of 2s and 5s, at most 512. */
KERNEL(power_spectrum_f32, "y samples roots | frames hop size y_stride |")
/* Log-mel spectrogram: y (mels, frames) = log10(max(filters times power spectrum, smallest)). filters is
 * (mels, size / 2 + 1); ranges (mels, 2), int32, are the first bin of each filter and the one after its last.
 * `smallest` is a normal positive number. */
KERNEL(log_mel_f32, "y samples roots filters ranges | frames hop size mels y_stride | smallest")

/* ---- Random numbers and sampling */

/* Uniform float32 numbers in [0, 1) by Philox4x32-10, with key = seed and counter = offset + i / 4. Element i is
 * (word >> 8) * 2^-24 of word i % 4. The bits are the same on every platform. Where `state` is given, the seed is
 * state[0], and state[1] is added to the offset (int64). */
KERNEL(random_uniform, "y state? | count seed offset |")
/* Normal float32 numbers: Box-Muller on the words 2j and 2j + 1 of the same generator. */
KERNEL(random_normal, "y state? | count seed offset |")
/* Samples a token: the repetition penalty for the ids in history[0 .. history_count - 1], then temperature, top-k,
 * top-p, min-p and typical sampling. uniform[0], in [0, 1), is the random number. With a temperature <= 0 the token is
 * the argmax. typical is a share in units of 2^-24. top_k 0, top_p >= 1 (or <= 0), min_p 0, typical 0 (or >= 2^24) and
 * penalty 1 have no effect. candidates is scratch of 2 * vocabulary 32-bit words. NaN logits return
 * KERNEL_BAD_ARGUMENT. */
KERNEL(sample_f32,
       "token logits history? uniform candidates | vocabulary history_count top_k typical | temperature top_p min_p "
       "penalty")
/* mask[i] = 1 where an automaton over bytes may read token i, else 0. From `state`, table (states, columns) int32 gives the
 * next state for the column of each byte, columns_of (256) uint8; a number outside 0 .. states - 1 refuses the byte. The last
 * state must have a distance (states) int32 from 0 to `budget`. Token i is bytes[offsets[i] .. offsets[i + 1] - 1]; a
 * token without bytes gets 0. Offsets outside 0 .. size give KERNEL_INDEX_RANGE. */
KERNEL(token_mask, "mask table columns_of distance bytes offsets | tokens states columns size state budget |")

/* ---- Training */

/* Cross entropy of float32 logits (rows, columns) and targets (rows), int32 or int64 as target_bytes says, with its
 * gradient. count receives n, the number of targets that are not ignore_index, as a float. grad_logits = (softmax -
 * one-hot) * scale[0] / max(n, 1). The loss and gradient of other rows are 0. */
KERNEL(cross_entropy_f32, "loss? grad_logits? count? logits targets scale? | rows columns ignore_index target_bytes |")
/* The same for logits (batch, classes, places) and targets (batch, places). */
KERNEL(cross_entropy_planes_f32,
       "loss? grad_logits? count? logits targets scale? | batch classes places ignore_index target_bytes |")
/* The same as cross_entropy_f32 for log-probabilities: the loss of a row is -scores[target]. */
KERNEL(nll_loss_f32, "loss? grad_scores? count? scores targets scale? | rows columns ignore_index target_bytes |")
/* Cross entropy of logits (rows, columns) of every float type and int32 or int64 targets (rows), in nats. With class
 * weights w and label smoothing e: loss = (1 - e) * w[target] * -log p[target] + e / columns * sum over c of w[c] *
 * -log p[c]. weights receives w[target]; the mean loss is the sum of the losses divided by their sum. Both are 0 if the
 * target is ignore_index. Other targets outside 0 .. columns - 1 return KERNEL_INDEX_RANGE. loss, weights and
 * class_weights are float64 for type float64, else float32. */
KERNEL(cross_entropy,
       "loss weights? logits targets class_weights? | rows columns ignore_index type target_type | smoothing")
/* The gradient of cross_entropy with respect to the logits, from grad_loss (rows), which has the type of loss. */
KERNEL(cross_entropy_backward,
       "grad_logits grad_loss logits targets class_weights? | rows columns ignore_index type target_type | smoothing")
/* Runs a program for each element of up to six float32 tensors of `count` elements, in place. If bit k of `single` is
 * set, tensor k has one element, which the program reads for every element of the others. If `half` is the type float16
 * or bfloat16 and not 0, all tensors are of that type; a program computes in float32 and rounds once, at its end (not in
 * WebAssembly and CUDA).
 *
 * The program has `steps` instructions of five bytes: an opcode, the register of the result, and the registers of three
 * operands. Registers 0 .. 5 are the tensors, 6 .. 13 intermediate values, 14 .. 29 the numbers: the first `held` are
 * read from `numbers` (float64), the others are the bits of float64 numbers. greater is 1 or 0. where gives its second
 * operand if the first is not 0, else the third. The sign of NaN is 0. */
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
       "x0 x1? x2? x3? x4? x5? program numbers? | count steps single held number0 number1 number2 number3 number4 "
       "number5 number6 number7 number8 number9 number10 number11 number12 number13 number14 number15 half |")
/* A step of AdamW, in place. The seven numbers are float64 (or their bits, where `numbers` is NULL): rate, beta1,
 * beta2, epsilon, weight_decay, 1 - beta1^t, 1 - beta2^t. Weight decay is decoupled, as in torch.optim.AdamW. */
KERNEL(adamw_f32, "parameter m v grad numbers? | count number0 number1 number2 number3 number4 number5 number6 |")
/* The CTC loss (count), and its gradient, of log_probs (steps, count, classes) for int32 labels (count, most). times
 * and lengths (count), int32, are the number of steps and labels of each sample, at most `steps` and `most`. scratch
 * has `room` floats for each of at most `workspaces` workers. room is a multiple of 16 and at least (steps + 7) *
 * (W + 32), where W is 2 * most + 1 rounded up to a multiple of 16. */
KERNEL(ctc_f32, "loss grad? log_probs labels times lengths scratch | steps count classes most blank room workspaces |")
/* ---- Linear algebra: matrices of float32 or float64 (`type`), row by row, one behind the other. */

/* The lower triangle L of x = L L^T, with zeros above it, for `batch` matrices (n, n), of which the lower triangle is read. A
 * matrix that is not positive-definite is KERNEL_NOT_POSITIVE. */
KERNEL(cholesky, "y x | type batch n |")
/* Of LU with exchanges of rows, of `batch` matrices (rows, columns): the columns begin .. end - 1 of y, where those before
 * are done; and what these make of the columns behind them. x: y begins as a copy of it. With begin 0 and end `columns` all
 * is done, else a launch takes 64 columns at most. At the end y is L below the diagonal, which is 1, and U on and above it.
 * exchanges and order are int32: k is exchanged with exchanges[k] (batch, the smaller of rows and columns), and row i of L U
 * is row order[i] (batch, rows) of the matrix. NULL, both of them: rows stay where they are. Columns whose pivot is 0 are
 * not divided. */
KERNEL(lu_factor, "y x? exchanges? order? | type batch rows columns begin end |")
/* Q (rows, columns) over R (columns, columns), as LAPACK's geqrf and orgqr have them, of `batch` matrices (rows, columns) with
 * rows >= columns; taus (batch, columns) are the factors of the reflectors. */
KERNEL(qr, "y x taus | type batch rows columns |")
/* The eigenvalues (n), ascending, over the eigenvectors (n, n), as columns, of `batch` symmetric matrices (n, n), of which the
 * lower triangle is read; NaN for a matrix with an element anywhere that is not finite. `vectors`, as large as x, is where the
 * kernel computes them. */
KERNEL(eigh, "y x vectors | type batch n |")
/* U (n, n) over the singular values (n), descending, over V (n, n), both as columns; without `vectors` the values alone: of
 * `batch` matrices (n, n). NaN for a matrix with an element that is not finite. `rotated`, as large as x, is where the kernel
 * computes. */
KERNEL(svd, "y x rotated | type batch n vectors |")
/* y (batch, n, columns) with a y = b, for triangular a (n, n) with the strides given, and rows of b in an order (batch, n) of
 * int32. y may be b without an order. unit: 1 where the diagonal of a counts as 1; a zero on it is KERNEL_SINGULAR where unit is
 * 0, and a divisor like others where it is 2. A launch solves the rows begin .. end - 1 and takes what they make from those that
 * are left: from the first rows on, where `upper` from the last ones. */
KERNEL(solve_triangular, "y a b order? | type batch n columns upper unit a_batch a_row a_column begin end |")

#undef ELEMENT
#undef OPCODE
#undef KERNEL

/* What the library exports (see run.c). Arguments are int32 and addresses only, because JavaScript would convert int64
 * arguments of WebAssembly to BigInt.
 *
 * pyapp_run runs `count` records in order. It returns 0, or (index of the failed record << 8) | KERNEL_* code. Several
 * host threads may call it at the same time.
 *
 * pyapp_signature is the hexadecimal CRC-32 of this header's bytes, given by build.py. Python refuses a library with
 * another one.
 *
 * pyapp_allocate returns memory aligned to 64 bytes, or NULL if there is none. pyapp_free(NULL) does nothing. */
int32_t pyapp_run(const launch *records, int32_t count);
int32_t pyapp_run_short(const launch *record); /* one record of little work, on the calling thread; as pyapp_run */
const char *pyapp_signature(void);
const char *pyapp_instruction_set(void); /* "avx512", "avx2", "baseline", "neon", "dotprod", "simd128", "relaxed" */
void *pyapp_allocate(intptr_t bytes);
void pyapp_free(void *memory);
void pyapp_set_threads(int32_t threads); /* 1 .. 64; in wasm always 1 */
int32_t pyapp_threads(void);
void pyapp_cancel(int32_t on); /* 1: the running and later pyapp_run calls return KERNEL_CANCELLED at the next record */
#endif
