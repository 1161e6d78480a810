/* What every CUDA source uses: launch records, elements of any type, views, and sums over warps and blocks.
 *
 * A source native/cuda/<name>.cu has the kernels of one subject, with the slots of kernels.h; those of most have the
 * names of native/<name>.c. NVRTC compiles it for the card at hand (pyapp/engine/devices/cuda.py); the tests compile the
 * same text as C++ with emulator.h, which runs the threads of a block as fibers of one processor.
 *
 * KERNEL(name, blocks, threads, shared) { ... } defines a kernel. Python reads the line: `blocks` and `shared` (bytes of
 * dynamic shared memory) are expressions of the record's dims, in what C and Python share, with PARTS(a, b) for a / b
 * rounded up, MAX, MIN, CHOOSE(condition, a, b), PRODUCT(rank, shape0) for the elements of a shape, the codes TYPE_float32
 * and so on, and what the source and its headers #define. A kernel gets the blocks that it asks for or a limit, so each one
 * loops: FOR_EACH_BLOCK. STEP(name, number, blocks, threads, shared) defines a kernel that runs before it, in the order of
 * the numbers; number 0 is a check, which is left out where no other step asks for blocks. SCRATCH(name, bytes) asks for
 * scratch memory, which all steps of one record share. COUNTERS(name, count) asks for so many counters before the scratch
 * memory, which are zero whenever a kernel begins or ends: see is_last. OPERANDS(name, slot, blocks, threads) defines what makes an operand for
 * NVIDIA's library of products (operands.cu).
 *
 * A kernel that finds a bad argument calls report(code); later steps of the record then do nothing (`failed`). The host
 * reads the code when it next waits for the device. */
#ifndef PYAPP_GPU_H
#define PYAPP_GPU_H
#define PYAPP_SIMD_H /* bands.h and block_types.h need none of these two */
#define PYAPP_INT8_H

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define DYNAMIC_SHARED(type, name)                                                                                     \
    extern __shared__ __align__(16) unsigned char dynamic_shared[];                                                    \
    type *const name = (type *)dynamic_shared
#define GRID_CONSTANT const __grid_constant__
#define _Static_assert static_assert
#define CONSTANT static __device__ const
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define NAN __longlong_as_double(0x7ff8000000000000LL)
#else
#include "emulator.h"
#define DEVICE static inline
#define DEVICE_MEMBER inline
#define GRID_CONSTANT const
#define _Static_assert static_assert
#define CONSTANT static const
#endif
#define INLINE DEVICE

#include "kernels.h"
#include "slots.h"

#include "activations.h"
#include "types.h"

#define PARTS(a, b) (((a) + (b) - 1) / (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define CHOOSE(condition, a, b) ((condition) ? (a) : (b))

/* ---- Kernels that overlap. A card of sm_90 or later may start a kernel of a Graph before the one in front of it has ended
 * (pyapp/engine/devices/cuda.py decides which). So every kernel begins with wait_for_kernels: it touches no memory that
 * another kernel writes before all kernels in front of it are done and what they wrote is there. That holds for the whole
 * chain, since the kernel in front has itself waited, on every path. Loads of the read-only kind (ld.global.nc, __ldg)
 * could be moved before the wait, so there are none here. */
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
#define CAN_OVERLAP 1
#else
#define CAN_OVERLAP 0
#endif

/* Lets the kernel behind this one start as soon as there is room, and waits for those in front. */
DEVICE void wait_for_kernels()
{
#if CAN_OVERLAP
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Asks for bytes that this block reads next, as far as the card's second cache, which holds them once for all: whoever writes
 * them meanwhile writes them there, so this is right whatever is in memory. Only whole pieces of 16 bytes. */
DEVICE void fetch_ahead(const void *p, int64_t bytes)
{
    const uint64_t first = ((uint64_t)p + 15) & ~(uint64_t)15, end = ((uint64_t)p + (uint64_t)bytes) & ~(uint64_t)15;
    if (bytes <= 0 || end <= first)
        return;
#if CAN_OVERLAP
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(first), "r"((uint32_t)(end - first)) : "memory");
#elif !defined(__CUDACC__)
    emulator_touch((const char *)first, (const char *)end);
#endif
}

enum { AHEAD_BYTES = 32768 }; /* of a block: what a card's memory gives all blocks in two or three microseconds */

/* The same of rows first .. first + each - 1 of the `rows` of a matrix that begin `pitch` bytes apart: of each its beginning,
 * AHEAD_BYTES together. */
DEVICE void fetch_rows_ahead(const void *p, int64_t pitch, int64_t first, int each, int64_t rows)
{
    const int64_t row = first + threadIdx.x;
    if ((int)threadIdx.x < each && row < rows)
        fetch_ahead((const char *)p + row * pitch, MIN(pitch, AHEAD_BYTES / each));
}

/* AHEAD(name) { ... } defines what the kernel `name` does before it waits, where the launch overlaps: fetch_ahead, of what
 * lies at the record's pointers. It stands before the kernel. */
template <class Kernel> DEVICE void run_ahead(const launch &) {}
#define AHEAD(name)                                                                                                    \
    struct name##_kernel;                                                                                              \
    template <> DEVICE_MEMBER void run_ahead<name##_kernel>(const launch &record)
#define is_overlapped(record) ((record).work < 0) /* `work` is nothing else on a card */

/* Two blocks of a kernel run on a multiprocessor: so many registers has a thread at most. */
#define DEFINE_KERNEL(function, threads)                                                                               \
    struct function##_kernel;                                                                                          \
    DEVICE void function##_body(const launch &record, int32_t *status, unsigned char *scratch);                        \
    extern "C" __global__ void __launch_bounds__(threads, 2)                                                           \
        function(GRID_CONSTANT launch record, int32_t *status, unsigned char *scratch)                                 \
    {                                                                                                                  \
        if (is_overlapped(record))                                                                                     \
            run_ahead<function##_kernel>(record);                                                                      \
        wait_for_kernels();                                                                                            \
        function##_body(record, status, scratch);                                                                      \
    }                                                                                                                  \
    DEVICE void function##_body(const launch &record, int32_t *status, unsigned char *scratch)
#define KERNEL(name, blocks, threads, shared) DEFINE_KERNEL(name, threads)
#define STEP(name, number, blocks, threads, shared) DEFINE_KERNEL(name##_step##number, threads)
#define OPERANDS(name, slot, blocks, threads) DEFINE_KERNEL(name##_operand_##slot, threads)
#define SCRATCH(name, bytes)
#define COUNTERS(name, count)
/* VARIANT(kernel, number): the kernel is compiled for each number (of the record's dims) by itself when it is first used,
 * which takes a fraction of the time. COMPILED(condition) is 0 where `condition` is not met by the VARIED number. */
#define VARIANT(kernel, number)
#ifdef VARIED
#define COMPILED(condition) (condition)
#else
#define COMPILED(condition) 1
#define VARIED 0
#endif
#define FOR_EACH_BLOCK(i, count) for (int64_t i = blockIdx.x; i < (int64_t)(count); i += gridDim.x)
/* For a block's threads side by side: element i of `count`. */
#define FOR_EACH(i, count)                                                                                             \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (int64_t)(count);                             \
         i += (int64_t)gridDim.x * blockDim.x)
#define FOR_THREADS(i, count) for (int64_t i = threadIdx.x; i < (int64_t)(count); i += blockDim.x)
#define EVERY_LANE 0xffffffffu
#define LANE ((int)(threadIdx.x & 31))
#define WARP ((int)(threadIdx.x >> 5))
#define WARPS ((int)(blockDim.x >> 5))
#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fffffff)
#define report(code) report_to(status, record.kernel, code)
#define failed (*(volatile int32_t *)status != 0)

/* Keeps the first code since the host looked: 1 + the kernel's index in the upper bits. Behind the status lies the address
 * of a word that the host reads without asking the card. */
DEVICE void report_to(int32_t *status, int32_t kernel, int32_t code)
{
    const int32_t found = (kernel + 1) << 8 | code;
    if (atomicCAS(status, 0, found) == 0)
        **(int32_t *volatile *)(status + 2) = found;
}

/* ---- 16-bit and 8-bit floats */

DEVICE float f16_to_float(uint16_t half)
{
#ifdef __CUDACC__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
#else
    return emulator_from_half(half);
#endif
}

DEVICE uint16_t float_to_f16(float x)
{
#ifdef __CUDACC__
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
#else
    return emulator_to_half(x);
#endif
}

DEVICE float bf16_to_float(uint16_t half) { return __int_as_float((int)half << 16); }

DEVICE uint16_t float_to_bf16(float x)
{
    const uint32_t bits = (uint32_t)__float_as_int(x);
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* (Micikevicius et al. 2022, arXiv 2209.05433) */
DEVICE float e4m3_to_float(uint8_t code)
{
    float size = code & 0x78 ? __int_as_float((code & 0x7f) * (1 << 20) + (120 << 23)) : (float)(code & 7) * 0x1p-9f;
    if ((code & 0x7f) == 0x7f)
        size = NOT_A_NUMBER;
    return code & 0x80 ? -size : size;
}
DEVICE float e5m2_to_float(uint8_t code)
{
    const float size = f16_to_float((uint16_t)((code & 0x7f) << 8)); /* a conversion takes the sign off a NaN */
    return __int_as_float(__float_as_int(size) | (code & 0x80) << 24);
}

/* To nearest, ties to even; past `largest` comes `beyond`. */
DEVICE uint8_t float_to_8_bits(float x, int fraction, int bias, uint32_t largest, uint32_t beyond)
{
    const uint32_t bits = (uint32_t)__float_as_int(x), size = bits & 0x7fffffff, sign = bits >> 24 & 0x80;
    const int shift = 23 - fraction;
    uint32_t code;
    if (size > 0x7f800000)
        return (uint8_t)(sign | 0x7f);
    if (size < (uint32_t)(128 - bias) << 23) { /* adding a power of two leaves the rounded multiple in the low bits */
        const uint32_t magic = (uint32_t)(128 - bias - fraction + 23) << 23;
        code = (uint32_t)__float_as_int(__int_as_float((int)size) + __int_as_float((int)magic)) - magic;
    } else {
        const uint32_t rounded = size + (1u << (shift - 1)) - 1 + (size >> shift & 1);
        code = (rounded >> shift) - ((uint32_t)(127 - bias) << fraction);
    }
    return (uint8_t)(sign | (code > largest ? beyond : code));
}

/* ---- Elements of any type: floats of float32 and 16 bits, doubles and integers of every type */

DEVICE float load_float(const void *p, int64_t i, int type)
{
    return type == TYPE_float32   ? ((const float *)p)[i]
           : type == TYPE_float16 ? f16_to_float(((const uint16_t *)p)[i])
                                  : bf16_to_float(((const uint16_t *)p)[i]);
}

DEVICE void store_float(void *p, int64_t i, int type, float x)
{
    if (type == TYPE_float32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = type == TYPE_float16 ? float_to_f16(x) : float_to_bf16(x);
}

#define LOAD(kind, c_type, expression)                                                                                 \
    case TYPE_##kind: {                                                                                                \
        const c_type value = ((const c_type *)p)[i];                                                                   \
        return expression;                                                                                             \
    }
#define LOAD_INTEGERS(wide)                                                                                            \
    LOAD(bool, uint8_t, (wide)(value != 0))                                                                            \
    LOAD(uint8, uint8_t, (wide)value)                                                                                  \
    LOAD(int8, int8_t, (wide)value)                                                                                    \
    LOAD(uint16, uint16_t, (wide)value)                                                                                \
    LOAD(int16, int16_t, (wide)value)                                                                                  \
    LOAD(uint32, uint32_t, (wide)value)                                                                                \
    LOAD(int32, int32_t, (wide)value)                                                                                  \
    LOAD(uint64, uint64_t, (wide)value)                                                                                \
    LOAD(int64, int64_t, (wide)value)

DEVICE int64_t load_integer(const void *p, int64_t i, int type)
{
    switch (type) {
        LOAD_INTEGERS(int64_t)
    }
    return 0;
}

DEVICE double load_double(const void *p, int64_t i, int type)
{
    switch (type) {
        LOAD(float32, float, (double)value)
        LOAD(float64, double, value)
        LOAD(float16, uint16_t, (double)f16_to_float(value))
        LOAD(bfloat16, uint16_t, (double)bf16_to_float(value))
        LOAD(float8_e4m3fn, uint8_t, (double)e4m3_to_float(value))
        LOAD(float8_e5m2, uint8_t, (double)e5m2_to_float(value))
        LOAD_INTEGERS(double)
    }
    return 0;
}

/* What a type cannot hold: see `cast` in kernels.h. */
DEVICE int64_t to_int64(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }
DEVICE int32_t to_int32(double x) { return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN; }
DEVICE uint64_t to_uint64(double x)
{
    if (x > -0x1p63 && x < 0x1p63)
        return (uint64_t)(int64_t)x;
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)(int64_t)(x - 0x1p63) + ((uint64_t)1 << 63) : 0;
}
DEVICE uint32_t to_uint32(double x) { return x > -0x1p63 && x < 0x1p63 ? (uint32_t)(int64_t)x : 0; }

DEVICE void store_integer(void *p, int64_t i, int type, int64_t x)
{
    switch (type) {
    case TYPE_bool:
        ((uint8_t *)p)[i] = x != 0;
        break;
    case TYPE_uint8:
    case TYPE_int8:
        ((uint8_t *)p)[i] = (uint8_t)x;
        break;
    case TYPE_uint16:
    case TYPE_int16:
        ((uint16_t *)p)[i] = (uint16_t)x;
        break;
    case TYPE_uint32:
    case TYPE_int32:
        ((uint32_t *)p)[i] = (uint32_t)x;
        break;
    case TYPE_uint64:
    case TYPE_int64:
        ((int64_t *)p)[i] = x;
        break;
    }
}

DEVICE void store_double(void *p, int64_t i, int type, double x)
{
    switch (type) {
    case TYPE_float64:
        ((double *)p)[i] = x;
        break;
    case TYPE_float32:
    case TYPE_float16:
    case TYPE_bfloat16:
        store_float(p, i, type, (float)x);
        break;
    case TYPE_float8_e4m3fn:
        ((uint8_t *)p)[i] = float_to_8_bits((float)x, 3, 7, 126, 126);
        break;
    case TYPE_float8_e5m2:
        ((uint8_t *)p)[i] = float_to_8_bits((float)x, 2, 15, 123, 124);
        break;
    case TYPE_bool:
        ((uint8_t *)p)[i] = x != 0;
        break;
    case TYPE_int64:
        ((int64_t *)p)[i] = to_int64(x);
        break;
    case TYPE_uint64:
        ((uint64_t *)p)[i] = to_uint64(x);
        break;
    case TYPE_uint32:
        ((uint32_t *)p)[i] = to_uint32(x);
        break;
    default:
        store_integer(p, i, type, to_int32(x));
    }
}

/* `bytes` bytes as they are: 1, 2, 4 or 8, which elements of copies have; else one after the other. */
DEVICE void copy_element(void *to, int64_t i, const void *from, int64_t j, int64_t bytes)
{
    if (bytes == 4)
        ((uint32_t *)to)[i] = ((const uint32_t *)from)[j];
    else if (bytes == 8)
        ((uint64_t *)to)[i] = ((const uint64_t *)from)[j];
    else if (bytes == 2)
        ((uint16_t *)to)[i] = ((const uint16_t *)from)[j];
    else
        for (int64_t k = 0; k < bytes; k++)
            ((uint8_t *)to)[i * bytes + k] = ((const uint8_t *)from)[j * bytes + k];
}

DEVICE double real_of(int64_t bits) { return __longlong_as_double(bits); }

/* ---- Views */

/* The number of elements; -1 for an invalid rank or size. */
DEVICE int64_t view_count(int64_t rank, int64_t most, const int64_t *shape)
{
    int64_t count = 1;
    if (rank < 0 || rank > most)
        return -1;
    for (int k = 0; k < rank; k++) {
        if (shape[k] < 0)
            return -1;
        count *= shape[k];
    }
    return count;
}

/* a / b, neither negative. Divisions of 32 bits take a fraction of the time. */
DEVICE int64_t quotient(int64_t a, int64_t b)
{
    return (uint64_t)(a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}

/* Offsets of element `at`, in the order of the dims, in views with these strides; NULL: 0. Divisions of 32 bits take a
 * fraction of the time. */
template <int VIEWS>
DEVICE void offsets_of(int64_t *offsets, int64_t at, int64_t rank, const int64_t *shape, const int64_t *const *strides)
{
    for (int v = 0; v < VIEWS; v++)
        offsets[v] = 0;
    for (int k = (int)rank - 1; k >= 0; k--) {
        int64_t place = at, next = 0;
        if (at <= INT32_MAX && shape[k] <= at) {
            next = (uint32_t)at / (uint32_t)shape[k];
            place = at - next * shape[k];
        } else if (shape[k] <= at) {
            next = at / shape[k];
            place = at - next * shape[k];
        }
        for (int v = 0; v < VIEWS; v++)
            offsets[v] += strides[v] ? place * strides[v][k] : 0;
        at = next;
    }
}

DEVICE int64_t offset_of(int64_t at, int64_t rank, const int64_t *shape, const int64_t *strides)
{
    int64_t offset;
    offsets_of<1>(&offset, at, rank, shape, &strides);
    return offset;
}

/* ---- Warps and blocks. The order of additions depends on the number of threads alone. */

struct Sum {
    template <class T> DEVICE_MEMBER T operator()(T a, T b) const { return a + b; }
};
struct Larger {
    template <class T> DEVICE_MEMBER T operator()(T a, T b) const { return a > b || a != a ? a : b; } /* NaN stays */
};

template <class T, class F> DEVICE T warp_reduce(T value, F combine)
{
    for (int apart = 16; apart; apart >>= 1)
        value = combine(value, __shfl_xor_sync(EVERY_LANE, value, apart));
    return value;
}

DEVICE double *block_scratch()
{
    __shared__ double scratch[32];
    return scratch;
}

/* Of all threads of the block, in all of them. */
template <class T, class F> DEVICE T block_reduce(T value, F combine)
{
    T *const part = (T *)block_scratch();
    value = warp_reduce(value, combine);
    if (WARPS == 1)
        return value;
    if (LANE == 0)
        part[WARP] = value;
    __syncthreads();
    value = part[0];
    for (int i = 1; i < WARPS; i++)
        value = combine(value, part[i]);
    __syncthreads();
    return value;
}

/* Whether this warp is the last of `count` that come with this number of a counter; what the others wrote before they came is
 * then there for it. All lanes come here. The counter is zero again. */
DEVICE bool is_last(unsigned char *scratch, int64_t number, uint32_t count)
{
    uint32_t before = 0;
    __threadfence();
    __syncwarp();
    if (LANE == 0)
        before = atomicInc((uint32_t *)scratch - 1 - number, count - 1);
    before = __shfl_sync(EVERY_LANE, before, 0);
    __threadfence();
    return before == count - 1;
}

template <class T> DEVICE T block_sum(T value) { return block_reduce(value, Sum()); }
template <class T> DEVICE T block_largest(T value) { return block_reduce(value, Larger()); }
#ifndef __CUDACC__
EMULATOR_LAUNCH
#endif
#endif
