/* A pool of threads that runs one record at a time.
 *
 * A record is cut into more chunks than threads, and threads claim chunks from one counter: a thread that lost its core
 * delays one chunk, not the record. Chunks do not depend on who runs them, and no output element depends on how many
 * chunks there are (kernels.h), so results are those of one thread. Waiting threads spin for a bounded time (the next
 * record of a token comes within microseconds), then sleep: spinning for ever collapses when a core is taken away.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "pool.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#if defined(_WIN32)
#include <windows.h>
#else
#include <unistd.h>
#endif

enum {
    THREAD_LIMIT = 64,
    DEFAULT_LIMIT = 8,     /* matrix x vector is bound by memory: more threads would not help */
    CHUNKS_PER_THREAD = 2, /* trades the cost of claiming against the delay of a lost core */
    SMALL_WORK = 48,       /* thousands of multiply-adds; fewer are done before another thread has woken */
    SPIN_ROUNDS = 4000,    /* some 50 microseconds to 0.1 ms */
    STACK_BYTES = 1 << 20,
};

/* ticket: number of the record << 32 | next chunk to claim. One word, so that a late thread that still sees the last
 * record cannot claim a chunk of the next one. kernel, record and chunks are published by it. */
static struct {
    _Atomic uint64_t ticket;
    _Atomic(kernel_function *) kernel;
    _Atomic(const launch *) record;
    _Atomic int chunks, finished, code, active;
    _Atomic int sleepers, caller_sleeps;
} work;

static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER; /* held by the pyapp_run that uses the pool */
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t new_work = PTHREAD_COND_INITIALIZER, all_finished = PTHREAD_COND_INITIALIZER;
static _Atomic int wanted; /* threads asked for; 0: not asked yet */
static int started;        /* threads that exist besides the caller; changed by the owner */

static _Atomic int flushing; /* whether kernels treat denormal numbers as zero */

/* Sets the processor's mode for the kernels; returns the mode before, for leave_mode. */
static uint64_t enter_mode(void)
{
    uint64_t before = 0;
#if defined(__x86_64__)
    before = __builtin_ia32_stmxcsr();
    if (atomic_load_explicit(&flushing, memory_order_relaxed))
        __builtin_ia32_ldmxcsr((uint32_t)before | 0x8040); /* results and operands */
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    if (atomic_load_explicit(&flushing, memory_order_relaxed))
        __asm__ volatile("msr fpcr, %0" ::"r"(before | UINT64_C(1) << 24));
#endif
    return before;
}

static void leave_mode(uint64_t before)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((uint32_t)before);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" ::"r"(before));
#endif
    (void)before;
}

static int in_mode(kernel_function *kernel, const launch *record, int chunk, int chunks)
{
    const uint64_t before = enter_mode();
    const int code = kernel(record, chunk, chunks);
    leave_mode(before);
    return code;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Claims and runs chunks of the current record until none is left. */
static void run_chunks(void)
{
    uint64_t ticket = atomic_load_explicit(&work.ticket, memory_order_acquire);
    for (;;) {
        const uint32_t chunk = ticket & UINT32_MAX;
        const int chunks = atomic_load_explicit(&work.chunks, memory_order_relaxed);
        kernel_function *kernel = atomic_load_explicit(&work.kernel, memory_order_relaxed);
        const launch *record = atomic_load_explicit(&work.record, memory_order_relaxed);
        if (chunk >= (uint32_t)chunks)
            return;
        /* Success proves that the three words above belong to this ticket's record. */
        if (!atomic_compare_exchange_weak_explicit(&work.ticket, &ticket, ticket + 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        const int code = in_mode(kernel, record, (int)chunk, chunks);
        int none = KERNEL_OK;
        if (code)
            atomic_compare_exchange_strong(&work.code, &none, code);
        if (atomic_fetch_add(&work.finished, 1) + 1 == chunks && atomic_load(&work.caller_sleeps)) {
            pthread_mutex_lock(&sleep_lock);
            pthread_cond_signal(&all_finished);
            pthread_mutex_unlock(&sleep_lock);
        }
        ticket = atomic_load_explicit(&work.ticket, memory_order_acquire);
    }
}

static int unclaimed(uint32_t seen) { return (uint32_t)(atomic_load(&work.ticket) >> 32) != seen; }

static void *thread_main(void *argument)
{
    const int index = (int)(intptr_t)argument;
    uint32_t seen = 0;
    for (;;) {
        for (int round = 0; round < SPIN_ROUNDS && !unclaimed(seen); round++)
            relax();
        if (!unclaimed(seen)) {
            pthread_mutex_lock(&sleep_lock);
            atomic_fetch_add(&work.sleepers, 1);
            while (!unclaimed(seen))
                pthread_cond_wait(&new_work, &sleep_lock);
            atomic_fetch_sub(&work.sleepers, 1);
            pthread_mutex_unlock(&sleep_lock);
        }
        seen = (uint32_t)(atomic_load(&work.ticket) >> 32);
        if (index < atomic_load_explicit(&work.active, memory_order_relaxed))
            run_chunks();
    }
    return NULL;
}

#if !defined(_WIN32)
/* After fork only the calling thread lives on: the child starts its own pool when it needs one. */
static void before_fork(void) { pthread_mutex_lock(&owner); }
static void after_fork_parent(void) { pthread_mutex_unlock(&owner); }
static void after_fork_child(void)
{
    pthread_mutex_init(&owner, NULL);
    pthread_mutex_init(&sleep_lock, NULL);
    pthread_cond_init(&new_work, NULL);
    pthread_cond_init(&all_finished, NULL);
    atomic_store(&work.sleepers, 0);
    started = 0;
}

static void install_fork_handlers(void) { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }
#endif

/* Starts the missing threads; the pool also works with fewer threads than requested. */
static void start_threads(int threads)
{
#if !defined(_WIN32)
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_fork_handlers);
#endif
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (started + 1 < threads) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, thread_main, (void *)(intptr_t)(started + 1)) != 0)
            break;
        started++;
    }
    pthread_attr_destroy(&attributes);
}

static int default_threads(void)
{
#if defined(_WIN32)
    DWORD_PTR allowed = 0, present = 0;
    GetProcessAffinityMask(GetCurrentProcess(), &allowed, &present);
    long cores = __builtin_popcountll(allowed);
#else
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
#endif
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        cores = CPU_COUNT(&allowed);
#endif
    return cores < 1 ? 1 : cores > DEFAULT_LIMIT ? DEFAULT_LIMIT : (int)cores;
}

void pool_set_threads(int32_t threads)
{
    atomic_store(&wanted, threads < 1 ? 1 : threads > THREAD_LIMIT ? THREAD_LIMIT : threads);
}

int32_t pool_threads(void)
{
    int threads = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (!threads) { /* determined once: it takes two system calls, more time than a small kernel */
        int none = 0;
        threads = default_threads();
        if (!atomic_compare_exchange_strong(&wanted, &none, threads))
            threads = none;
    }
    return threads;
}

int pool_flush_denormals(int on)
{
#if defined(__x86_64__) || defined(__aarch64__)
    return atomic_exchange(&flushing, on);
#else
    return (void)on, 0;
#endif
}

int pool_enter(void)
{
    const int threads = pool_threads();
    if (threads == 1 || pthread_mutex_trylock(&owner) != 0)
        return 1;
    return threads;
}

void pool_leave(int threads)
{
    if (threads > 1)
        pthread_mutex_unlock(&owner);
}

static void wait_until_finished(int chunks)
{
    for (int round = 0; round < SPIN_ROUNDS; round++) {
        if (atomic_load_explicit(&work.finished, memory_order_acquire) == chunks)
            return;
        relax();
    }
    pthread_mutex_lock(&sleep_lock);
    atomic_store(&work.caller_sleeps, 1);
    while (atomic_load(&work.finished) != chunks)
        pthread_cond_wait(&all_finished, &sleep_lock);
    atomic_store(&work.caller_sleeps, 0);
    pthread_mutex_unlock(&sleep_lock);
}

int pool_run(kernel_function *kernel, const launch *record, int threads)
{
    if (threads == 1 || record->work < SMALL_WORK)
        return in_mode(kernel, record, 0, 1);
    start_threads(threads);
    const int chunks = threads * CHUNKS_PER_THREAD;
    const uint64_t number = atomic_load(&work.ticket) >> 32;
    /* Closed while the words change, so that no late thread claims a chunk of half a record. */
    atomic_store(&work.ticket, number << 32 | UINT32_MAX);
    atomic_store(&work.code, KERNEL_OK);
    atomic_store(&work.finished, 0);
    atomic_store(&work.active, threads);
    atomic_store(&work.kernel, kernel);
    atomic_store(&work.record, record);
    atomic_store(&work.chunks, chunks);
    atomic_store(&work.ticket, (number + 1) << 32);
    if (atomic_load(&work.sleepers)) {
        pthread_mutex_lock(&sleep_lock);
        pthread_cond_broadcast(&new_work);
        pthread_mutex_unlock(&sleep_lock);
    }
    run_chunks();
    wait_until_finished(chunks);
    return atomic_load(&work.code);
}
