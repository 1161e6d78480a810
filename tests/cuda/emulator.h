/* CUDA's threads on one processor, for tests: native/cuda/gpu.h includes it where a source is compiled as C++.
 *
 * A launch runs its blocks one after another, and the threads of a block as fibers, in an order that changes from block
 * to block. A thread runs until it waits: at __syncthreads for the block, at a warp's function for the warp. One that
 * never waits costs no fiber. Shared memory is full of 0xFF when a block begins, which is NaN, so a missing barrier
 * gives wrong numbers; what lies behind the dynamic shared memory is checked when the block ends.
 *
 * What it does not show: races between blocks, the rounding of the card's own functions. */
#ifndef PYAPP_EMULATOR_H
#define PYAPP_EMULATOR_H
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(                                                                                                           \
    __SANITIZE_THREAD__) /* each thread is one of its own; what they wait for puts them in order, nothing else */
#include <sanitizer/tsan_interface.h>
#define UNSEEN __attribute__((no_sanitize("thread"), noinline))
enum { EACH_ITS_OWN = 1 };
#else
#define UNSEEN
enum { EACH_ITS_OWN = 0 };
#endif

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("shared_memory")))
#define __CUDA_ARCH__ 900

namespace emulator
{
enum { MOST_THREADS = 1024, WARP_SIZE = 32, STACK = 256 << 10, GUARD = 256, FILLING = 0xA5, MOST_SHARED = 232448 };
enum state { NEW, READY, AT_BLOCK, AT_WARP, DONE };

struct index {
    unsigned x = 0, y = 0, z = 0;
};

struct fiber {
#if defined(__x86_64__)
    void *stack_pointer;
#else
    ucontext_t context;
#endif
    char *stack;
    void *fake_stack; /* of the address sanitizer */
    void *seen_as;    /* by the thread sanitizer */
};

/* Of one library: every source is a library of its own. */
static struct machine {
    index thread, block, threads, blocks;
    fiber fibers[MOST_THREADS], scheduler;
    int made, idle[MOST_THREADS], idle_count;           /* fibers without a thread */
    int state[MOST_THREADS], on[MOST_THREADS];          /* of each thread: its fiber */
    int order[MOST_THREADS], next;                      /* threads that have not begun */
    int running;                                        /* the thread */
    uint64_t slots[2][MOST_THREADS];                    /* what lanes exchange, in turns */
    unsigned turn[MOST_THREADS], blocked[MOST_THREADS]; /* how often it has exchanged, and waited for the block */
    uint64_t random;
    char *shared;
    void (*body)();
    const char *error;
} m;

#if defined(__x86_64__)
extern "C" void emulator_switch(void **from, void *to) __attribute__((visibility("hidden")));
__asm__(".text\n.hidden emulator_switch\n.globl emulator_switch\n.type emulator_switch,@function\nemulator_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\nmovq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size emulator_switch,.-emulator_switch\n");
#endif

/* What comes after `arrive` at the same place comes after what was before it, for the thread sanitizer. */
static char places[2 + MOST_THREADS / WARP_SIZE][4];
static void arrive(const char *place)
{
#if defined(__SANITIZE_THREAD__)
    __tsan_release((void *)place);
#endif
}
static void leave(const char *place)
{
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire((void *)place);
#endif
}

UNSEEN static void go(fiber *from, fiber *to)
{
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to->seen_as, 1);
#endif
#if defined(__SANITIZE_ADDRESS__)
    static const void *bottom;
    static size_t size;
    __sanitizer_start_switch_fiber(&from->fake_stack, to == &m.scheduler ? bottom : to->stack,
                                   to == &m.scheduler ? size : (size_t)STACK);
#endif
#if defined(__x86_64__)
    emulator_switch(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(&from->context, &to->context);
#endif
#if defined(__SANITIZE_ADDRESS__)
    if (from != &m.scheduler) { /* we come from the scheduler */
        __sanitizer_finish_switch_fiber(from->fake_stack, &bottom, &size);
    } else
        __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
}

UNSEEN static void wait_as(int state)
{
    const int thread = m.running, on = m.on[thread];
    const unsigned count = state == AT_BLOCK ? m.blocked[thread]++ : m.turn[thread];
    /* Each of four in turn: a thread that comes late must not be put behind what comes after the barrier. */
    const char *place = &places[state == AT_BLOCK ? 1 : 2 + thread / WARP_SIZE][count & 3];
    m.state[thread] = state;
    arrive(place);
    go(&m.fibers[on], &m.scheduler);
    leave(place);
    m.running = thread;
    m.thread.x = (unsigned)thread;
}

/* A fiber runs threads from their beginning, as long as they do not wait; then it goes on with one that does. */
UNSEEN static void fiber_main()
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    for (;;) {
        const int on = m.on[m.running];
        for (;;) {
            m.thread.x = (unsigned)m.running;
            leave(places[0]);
            m.body();
            arrive(places[0]);
            m.state[m.running] = DONE;
            if (EACH_ITS_OWN || m.next == (int)m.threads.x)
                break;
            m.running = m.order[m.next++];
            m.on[m.running] = on;
        }
        m.idle[m.idle_count++] = on;
        go(&m.fibers[on], &m.scheduler);
    }
}

/* Makes the fiber begin at its beginning. */
static void begin(fiber *f)
{
#if defined(__x86_64__)
    void **top = (void **)(f->stack + STACK) - 2; /* on entry rsp % 16 is 8 */
    *top = (void *)fiber_main;
    f->stack_pointer = top - 6;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    f->context.uc_link = nullptr;
    makecontext(&f->context, fiber_main, 0);
#endif
}

static void see_anew(fiber *f)
{
#if defined(__SANITIZE_THREAD__)
    if (f->seen_as)
        __tsan_destroy_fiber(f->seen_as);
    f->seen_as = __tsan_create_fiber(0);
#endif
}

UNSEEN static int new_fiber()
{
    if (m.idle_count) {
        const int idle = m.idle[--m.idle_count];
        if (EACH_ITS_OWN) {
            see_anew(&m.fibers[idle]);
            begin(&m.fibers[idle]);
        }
        return idle;
    }
    fiber *f = &m.fibers[m.made];
    see_anew(f);
    f->stack = (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->stack == MAP_FAILED)
        abort();
    begin(f);
    return m.made++;
}

/* Leaves threads that wait for ever. */
UNSEEN static void forget_threads()
{
    for (m.idle_count = 0; m.idle_count < m.made; m.idle_count++) {
        begin(&m.fibers[m.idle_count]);
        m.idle[m.idle_count] = m.idle_count;
    }
}

UNSEEN static void resume(int thread)
{
    m.running = thread;
    m.thread.x = (unsigned)thread;
    go(&m.scheduler, &m.fibers[m.on[thread]]);
}

/* Whether all living threads of first .. last - 1 wait in this state; releases them. */
UNSEEN static bool release(int first, int last, int state)
{
    int waiting = 0;
    for (int i = first; i < last; i++) {
        waiting += m.state[i] == state;
        if (m.state[i] != state && (m.state[i] != DONE || state == AT_WARP))
            return false;
    }
    for (int i = first; i < last; i++)
        if (m.state[i] == state)
            m.state[i] = READY;
    return waiting > 0;
}

UNSEEN static void run_block()
{
    const int threads = (int)m.threads.x;
    for (int i = 0; i < threads; i++) {
        m.state[i] = NEW;
        m.turn[i] = m.blocked[i] = 0;
        m.random = m.random * 6364136223846793005u + 1442695040888963407u;
        const int j = (int)((m.random >> 33) % (uint64_t)(i + 1));
        m.order[i] = m.order[j];
        m.order[j] = i;
    }
    m.next = 0;
    int order[MOST_THREADS];
    memcpy(order, m.order, sizeof order);
    for (;;) {
        bool ran = false, living = false;
        for (int i = 0; i < threads; i++) {
            const int thread = order[i];
            if (m.state[thread] == NEW) {
                m.next = i + 1; /* those before it have begun */
                m.on[thread] = new_fiber();
                resume(thread);
                ran = true;
            } else if (m.state[thread] == READY) {
                resume(thread);
                ran = true;
            }
        }
        for (int first = 0; first < threads; first += WARP_SIZE)
            ran |= release(first, first + WARP_SIZE, AT_WARP);
        ran |= release(0, threads, AT_BLOCK);
        for (int i = 0; i < threads; i++)
            living |= m.state[i] != DONE;
        if (!living)
            return;
        if (!ran) {
            m.error = "threads wait for others that have ended, or that wait elsewhere";
            forget_threads();
            return;
        }
    }
}

extern "C" {
extern char __start_shared_memory[] __attribute__((weak, visibility("hidden")));
extern char __stop_shared_memory[] __attribute__((weak, visibility("hidden")));
}

static void fill_shared(size_t dynamic)
{
    if (!m.shared)
        m.shared = (char *)aligned_alloc(64, MOST_SHARED + GUARD + 64 - (MOST_SHARED + GUARD) % 64);
    memset(m.shared, 0xFF, dynamic);
    memset(m.shared + dynamic, FILLING, GUARD);
#if !defined(__SANITIZE_ADDRESS__) /* which puts its own bytes between variables */
    if (__start_shared_memory)
        memset(__start_shared_memory, 0xFF, (size_t)(__stop_shared_memory - __start_shared_memory));
#endif
}

static void check_shared(size_t dynamic)
{
    for (size_t i = 0; i < GUARD; i++)
        if ((unsigned char)m.shared[dynamic + i] != FILLING)
            m.error = "a thread has written past the end of the dynamic shared memory";
}

/* Runs `body` by the threads of all blocks. Returns NULL, or what was wrong. */
static const char *run(int blocks, int threads, int shared, void (*body)())
{
    if (threads < 1 || threads > MOST_THREADS || threads % WARP_SIZE || blocks < 1 || shared < 0 ||
        shared > MOST_SHARED)
        return "the numbers of blocks, threads and bytes of shared memory are out of range";
#if defined(__SANITIZE_THREAD__)
    m.scheduler.seen_as = __tsan_get_current_fiber();
#endif
    m.error = nullptr;
    m.body = body;
    m.threads.x = (unsigned)threads;
    m.blocks.x = (unsigned)blocks;
    for (m.block.x = 0; m.block.x < (unsigned)blocks && !m.error; m.block.x++) {
        fill_shared((size_t)shared);
        arrive(places[0]);
        run_block();
        leave(places[0]);
        check_shared((size_t)shared);
    }
    return m.error;
}

/* A value of another lane of the warp; every lane of the warp must come. */
template <class T> UNSEEN static T exchange(T value, int lane)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves up to 8 bytes");
    const int thread = m.running, turn = (int)(m.turn[thread]++ & 1);
    T found;
    memcpy(&m.slots[turn][thread], &value, sizeof value);
    wait_as(AT_WARP);
    memcpy(&found, &m.slots[turn][thread / WARP_SIZE * WARP_SIZE + lane], sizeof found);
    return found;
}

/* The values of all lanes. */
template <class T> UNSEEN static void gather(T value, T all[WARP_SIZE])
{
    const int thread = m.running, turn = (int)(m.turn[thread]++ & 1);
    memcpy(&m.slots[turn][thread], &value, sizeof value);
    wait_as(AT_WARP);
    for (int lane = 0; lane < WARP_SIZE; lane++)
        memcpy(&all[lane], &m.slots[turn][thread / WARP_SIZE * WARP_SIZE + lane], sizeof value);
}

UNSEEN static uint32_t ballot(bool here)
{
    const int thread = m.running, turn = (int)(m.turn[thread]++ & 1);
    uint32_t bits = 0;
    m.slots[turn][thread] = here;
    wait_as(AT_WARP);
    for (int lane = 0; lane < WARP_SIZE; lane++)
        bits |= (uint32_t)m.slots[turn][thread / WARP_SIZE * WARP_SIZE + lane] << lane;
    return bits;
}
} // namespace emulator

#define threadIdx emulator::m.thread
#define blockIdx emulator::m.block
#define blockDim emulator::m.threads
#define gridDim emulator::m.blocks
#define DYNAMIC_SHARED(type, name) type *const name = (type *)(void *)emulator::m.shared

static inline void __syncthreads() { emulator::wait_as(emulator::AT_BLOCK); }
static inline void emulator_check_mask(unsigned mask)
{
    if (mask != 0xffffffffu)
        emulator::m.error = "a warp's function was called for some lanes only";
}
static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    emulator_check_mask(mask);
    emulator::wait_as(emulator::AT_WARP);
}
template <class T> static T __shfl_sync(unsigned mask, T value, int lane)
{
    emulator_check_mask(mask);
    return emulator::exchange(value, lane & 31);
}
template <class T> static T __shfl_xor_sync(unsigned mask, T value, int bits)
{
    return __shfl_sync(mask, value, (int)(threadIdx.x & 31) ^ bits);
}
template <class T> static T __shfl_up_sync(unsigned mask, T value, unsigned by)
{
    const int lane = (int)(threadIdx.x & 31), from = lane - (int)by;
    return __shfl_sync(mask, value, from < 0 ? lane : from);
}
template <class T> static T __shfl_down_sync(unsigned mask, T value, unsigned by)
{
    const int lane = (int)(threadIdx.x & 31), from = lane + (int)by;
    return __shfl_sync(mask, value, from > 31 ? lane : from);
}
static inline uint32_t __ballot_sync(unsigned mask, bool here)
{
    emulator_check_mask(mask);
    return emulator::ballot(here);
}
/* mma.m16n8k16 of 16-bit floats: every lane computes its four sums from the fragments of all (product.h). */
template <class Read> static void emulator_multiply(float *sums, const uint32_t *a, const uint32_t *b, Read read)
{
    const int lane = emulator::m.running % 32, g = lane / 4, t = lane % 4;
    const uint32_t *of_a[32], *of_b[32];
    emulator::gather(a, of_a);
    emulator::gather(b, of_b);
    const auto half = [&](uint32_t pair, int k) { return read((uint16_t)(pair >> k % 2 * 16)); };
    for (int i = 0; i < 4; i++) {
        const int row = g + i / 2 * 8, column = 2 * t + i % 2;
        for (int k = 0; k < 16; k++)
            sums[i] += half(of_a[row % 8 * 4 + k % 8 / 2][k / 8 * 2 + row / 8], k) *
                       half(of_b[column * 4 + k % 8 / 2][k / 8], k);
    }
    emulator::wait_as(emulator::AT_WARP); /* the fragments are no longer read */
}
/* mma.m16n8k8 of TF32 (tf32.h). */
template <class Read> static void emulator_multiply_tf32(float *sums, const uint32_t *a, const uint32_t *b, Read read)
{
    const int lane = emulator::m.running % 32, g = lane / 4, t = lane % 4;
    const uint32_t *of_a[32], *of_b[32];
    emulator::gather(a, of_a);
    emulator::gather(b, of_b);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 8; k++)
            sums[i] += read(of_a[g * 4 + k % 4][k / 4 * 2 + i / 2]) * read(of_b[(2 * t + i % 2) * 4 + k % 4][k / 4]);
    emulator::wait_as(emulator::AT_WARP); /* the fragments are no longer read */
}
/* mma.m16n8k16 (parts 1) and m16n8k32 (2) of int8 (int8_tiles.h). */
static inline void emulator_multiply_bytes(int *sums, const int *a, const int *b, int parts)
{
    const int lane = emulator::m.running % 32, g = lane / 4, t = lane % 4;
    const int *of_a[32], *of_b[32];
    emulator::gather(a, of_a);
    emulator::gather(b, of_b);
    for (int i = 0; i < 4; i++) {
        const int row = g + i / 2 * 8, column = 2 * t + i % 2;
        for (int k = 0; k < 16 * parts; k++)
            sums[i] += (int8_t)(of_a[row % 8 * 4 + k % 16 / 4][k / 16 * 2 + row / 8] >> k % 4 * 8) *
                       (int8_t)(of_b[column * 4 + k % 16 / 4][k / 16] >> k % 4 * 8);
    }
    emulator::wait_as(emulator::AT_WARP);
}
/* ldmatrix of four matrices (tensor_cores.h). */
static inline void emulator_load_matrices(uint32_t *to, const uint16_t *row, bool turned)
{
    const int lane = emulator::m.running % 32, g = lane / 4, t = lane % 4 * 2;
    const uint16_t *rows[32];
    if ((uintptr_t)row % 16)
        emulator::m.error = "a row of a matrix in shared memory is not aligned to 16 bytes";
    emulator::gather(row, rows);
    for (int i = 0; i < 4; i++) {
        const uint16_t *const *at = rows + 8 * i;
        to[i] = turned ? at[t][g] | (uint32_t)at[t + 1][g] << 16 : at[g][t] | (uint32_t)at[g][t + 1] << 16;
    }
}
/* wgmma (warpgroups.h): the tiles' 16 bytes are swizzled. At once, not while the threads go on. */
static inline const uint16_t *emulator_swizzled(const uint16_t *at, int row, int column)
{
    const uintptr_t offset = (uintptr_t)at % 1024, tile = (uintptr_t)at - offset;
    if (offset % 32 || offset >= 128)
        emulator::m.error = "a matrix in shared memory does not begin where products can read it";
    const int piece = (int)(offset / 16) + column / 8;
    return (const uint16_t *)tile + row * 64 + (piece ^ row % 8) * 8 + column % 8;
}
template <class Read>
static void emulator_multiply_shared(float (*sums)[4], const uint16_t *a, const uint16_t *b, bool add, Read read)
{
    const int lane = emulator::m.running % 32, warp = emulator::m.running / 32 % 4, g = lane / 4, t = lane % 4;
    for (int i = 0; i < 32; i++) {
        const int row = 16 * warp + g + i % 4 / 2 * 8, column = i / 4 * 8 + 2 * t + i % 2;
        float &sum = sums[i / 4][i % 4];
        sum = add ? sum : 0;
        for (int k = 0; k < 16; k++)
            sum += read(*emulator_swizzled(a, row, k)) * read(*emulator_swizzled(b, column, k));
    }
}
template <class Read>
static void emulator_multiply_shared_columns(float (*sums)[4], int columns, const uint32_t *a, const uint16_t *b,
                                             int rows, Read read)
{
    const int lane = emulator::m.running % 32, g = lane / 4, t = lane % 4;
    const uint32_t *of[32];
    emulator::gather(a, of);
    for (int i = 0; i < columns / 2; i++) {
        const int row = g + i % 4 / 2 * 8, column = i / 4 * 8 + 2 * t + i % 2;
        for (int k = 0; k < 16; k++) {
            const uint32_t pair = of[row % 8 * 4 + k % 8 / 2][k / 8 * 2 + row / 8];
            sums[i / 4][i % 4] += read((uint16_t)(pair >> k % 2 * 16)) *
                                  read(*emulator_swizzled(b + column / 64 * rows * 64, k, column % 64));
        }
    }
    emulator::wait_as(emulator::AT_WARP); /* the fragments are no longer read */
}
/* Copies to shared memory that do not wait (tensor_cores.h): they are made when a thread waits for them. */
namespace emulator
{
enum { MOST_COPIES = 512 };
static struct copies {
    struct {
        void *to;
        const void *from;
        unsigned group;
    } all[MOST_COPIES];
    int count;
    unsigned group; /* that is being filled */
} copies[MOST_THREADS];
} // namespace emulator
static inline void emulator_start_copy(void *to, const void *from, bool there)
{
    auto &own = emulator::copies[emulator::m.running];
    if ((uintptr_t)to % 16 || (there && (uintptr_t)from % 16))
        emulator::m.error = "a copy to shared memory is not aligned to 16 bytes";
    else if (own.count == emulator::MOST_COPIES)
        emulator::m.error = "a thread has too many copies under way";
    else
        own.all[own.count++] = {to, there ? from : nullptr, own.group};
}
static inline void emulator_end_copies() { emulator::copies[emulator::m.running].group++; }
static inline void emulator_wait_for_copies(int latest)
{
    auto &own = emulator::copies[emulator::m.running];
    int kept = 0;
    for (int i = 0; i < own.count; i++) {
        const auto copy = own.all[i];
        if (own.group - copy.group <= (unsigned)latest)
            own.all[kept++] = copy;
        else if (copy.from)
            memcpy(copy.to, copy.from, 16);
        else
            memset(copy.to, 0, 16);
    }
    own.count = kept;
}
static inline bool __any_sync(unsigned mask, bool here) { return __ballot_sync(mask, here) != 0; }
static inline bool __all_sync(unsigned mask, bool here) { return __ballot_sync(mask, here) == 0xffffffffu; }
static inline void __threadfence() {}
/* Memory that is fetched ahead: its first and last bytes are there. */
static inline void emulator_touch(const char *first, const char *end)
{
    (void)*(const volatile char *)first, (void)*(const volatile char *)(end - 1);
}

/* Atomic for ThreadSanitizer, which takes the threads of a block for threads. */
template <class T> static T atomicAdd(T *at, T value) { return __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }

template <class T> static T atomicCAS(T *at, T expected, T value)
{
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
/* The next number, or 0 after `last`; before it comes what was written before, for ThreadSanitizer too. */
static inline uint32_t atomicInc(uint32_t *at, uint32_t last)
{
    uint32_t before = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &before, before >= last ? 0 : before + 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
        ;
    return before;
}
template <class T> static T atomicMax(T *at, T value)
{
    T before = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (before < value &&
           !__atomic_compare_exchange_n(at, &before, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return before;
}

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

template <class To, class From> static inline To emulator_bits(From from)
{
    To to;
    static_assert(sizeof to == sizeof from, "bits are kept");
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __int_as_float(int x) { return emulator_bits<float>(x); }
static inline int __float_as_int(float x) { return emulator_bits<int>(x); }
static inline double __longlong_as_double(long long x) { return emulator_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return emulator_bits<long long>(x); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline void sincospif(float x, float *sine, float *cosine)
{
    *sine = (float)sin(3.14159265358979323846 * x);
    *cosine = (float)cos(3.14159265358979323846 * x);
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }

/* Bytes of eight, by four numbers of three bits; for a fourth bit, which spreads the sign, nothing here asks. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned which)
{
    const uint64_t eight = (uint64_t)b << 32 | a;
    unsigned found = 0;
    for (int i = 0; i < 4; i++)
        found |= (unsigned)(eight >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
    return found;
}

/* The sum of the products of four signed bytes. */
static inline int __dp4a(int a, int b, int sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (int)(int8_t)(a >> i) * (int)(int8_t)(b >> i);
    return sum;
}
/* Of four unsigned with four unsigned ones. */
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (a >> i & 255) * (b >> i & 255);
    return sum;
}

/* IEEE 754 binary16, to nearest, ties to even. */
static inline float emulator_from_half(uint16_t half)
{
    const uint32_t size = half & 0x7fffu, sign = (uint32_t)(half & 0x8000u) << 16;
    if (size >= 0x7c00)
        return emulator_bits<float>(sign | 0x7f800000u | (size & 0x3ff) << 13);
    const float value = size < 0x400 ? (float)size * 0x1p-24f : emulator_bits<float>((size << 13) + (112u << 23));
    return sign ? -value : value;
}
static inline uint16_t emulator_to_half(float x)
{
    const uint32_t bits = emulator_bits<uint32_t>(x), size = bits & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (size > 0x7f800000u)
        return 0x7fff; /* as cvt gives */
    if (size >= 0x47800000u)
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000u)
        return (uint16_t)(sign | (uint16_t)nearbyintf(emulator_bits<float>(size) * 0x1p24f));
    const uint32_t rounded = size + 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | (uint16_t)((rounded - (112u << 23)) >> 13));
}

struct launch;
typedef void emulated_kernel(struct launch record, int32_t *status, unsigned char *scratch);
namespace emulator
{
static emulated_kernel *kernel;
static const struct launch *record;
static int32_t *status;
static unsigned char *scratch;
} // namespace emulator

/* Runs a kernel. Returns NULL, or what was wrong. Included last, where `launch` is known: EMULATOR_LAUNCH. */
#define EMULATOR_LAUNCH                                                                                                \
    namespace emulator                                                                                                 \
    {                                                                                                                  \
    static void call() { kernel(*record, status, scratch); }                                                           \
    }                                                                                                                  \
    extern "C" __attribute__((visibility("default"))) const char *emulator_launch(                                     \
        emulated_kernel *function, int32_t blocks, int32_t threads, int32_t shared, const struct launch *record,       \
        int32_t *status, unsigned char *scratch)                                                                       \
    {                                                                                                                  \
        emulator::kernel = function;                                                                                   \
        emulator::record = record;                                                                                     \
        emulator::status = status;                                                                                     \
        emulator::scratch = scratch;                                                                                   \
        return emulator::run(blocks, threads, shared, emulator::call);                                                 \
    }
#endif
