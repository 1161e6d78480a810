/* Runs launch records: picks the kernels for this machine's instruction set, and on the host shares each record out
 * among a pool of threads. */
#include "kernels.h"
#include "sets.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if !defined(__wasm__)
#include "pool.h"
#if defined(_WIN32)
#include <malloc.h>
#else
#include <sys/mman.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#endif

#ifndef PYAPP_SIGNATURE
#error "build.py gives -DPYAPP_SIGNATURE, the CRC-32 of kernels.h"
#endif
#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default"), used))
#endif

enum { LARGEST_ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

static int machine_has(const char *name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (strcmp(name, "avx2") == 0) /* every processor with AVX2 and FMA has F16C */
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vnni") && machine_has("avx2");
#elif defined(__aarch64__)
    if (strcmp(name, "dotprod") == 0) { /* NEON with dot products of int8 */
#if defined(__linux__)
        return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__APPLE__)
        int has = 0;
        size_t size = sizeof has;
        return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, NULL, 0) == 0 && has;
#else
        return 0;
#endif
    }
#endif
    (void)name;
    return 1;
}

/* The best set of this machine, or a lower one that PYAPP_INSTRUCTION_SET asks for (tests compare them). */
static const instruction_set *chosen_set(void)
{
    static _Atomic(const instruction_set *) chosen;
    const instruction_set *set = atomic_load_explicit(&chosen, memory_order_acquire);
    if (set)
        return set;
    const char *wish = getenv("PYAPP_INSTRUCTION_SET");
    for (int i = 0; i < SET_COUNT; i++) {
        if (!machine_has(sets[i].name))
            continue;
        set = &sets[i];
        if (wish && strcmp(wish, set->name) == 0)
            break;
    }
    atomic_store_explicit(&chosen, set, memory_order_release);
    return set;
}

static _Atomic int32_t cancelled;

/* Runs one record; returns 0 or a KERNEL_* code. */
static int run_record(const instruction_set *set, const launch *record, int threads)
{
    if (atomic_load_explicit(&cancelled, memory_order_relaxed))
        return KERNEL_CANCELLED;
    if (record->kernel < 0 || record->kernel >= set->kernels || !set->table[record->kernel])
        return KERNEL_BAD_ARGUMENT;
#if defined(__wasm__)
    (void)threads;
    return set->table[record->kernel](record, 0, 1);
#else
    return pool_run(set->table[record->kernel], record, threads);
#endif
}

EXPORT int32_t pyapp_run(const launch *records, int32_t count)
{
    const instruction_set *set = chosen_set();
    int32_t result = 0;
#if defined(__wasm__)
    const int threads = 1;
#else
    const int threads = pool_enter();
#endif
    for (int32_t i = 0; i < count && result == 0; i++) {
        const int code = run_record(set, &records[i], threads);
        if (code)
            result = i << 8 | code;
    }
#if !defined(__wasm__)
    pool_leave(threads);
#endif
    return result;
}

/* One record of little work, on the calling thread, without taking the pool. */
EXPORT int32_t pyapp_run_short(const launch *record) { return run_record(chosen_set(), record, 1); }

EXPORT void pyapp_cancel(int32_t on) { atomic_store_explicit(&cancelled, on, memory_order_relaxed); }
EXPORT const char *pyapp_signature(void) { return PYAPP_SIGNATURE; }
EXPORT const char *pyapp_instruction_set(void) { return chosen_set()->name; }

#if defined(_WIN32)
EXPORT void *pyapp_allocate(intptr_t bytes)
{
    return bytes < 0 ? NULL : _aligned_malloc(bytes ? (size_t)bytes : 1, LARGEST_ALIGNMENT);
}

EXPORT void pyapp_free(void *memory) { _aligned_free(memory); }
#else
EXPORT void *pyapp_allocate(intptr_t bytes)
{
    void *memory = NULL;
    if (bytes < 0)
        return NULL;
#if defined(MADV_HUGEPAGE) && !defined(__wasm__) /* as NumPy does; large matrices are read up to a third faster */
    if (bytes >= 2 * HUGE_PAGE && posix_memalign(&memory, HUGE_PAGE, (size_t)bytes) == 0) {
        madvise(memory, (size_t)(bytes / HUGE_PAGE * HUGE_PAGE), MADV_HUGEPAGE); /* failure is harmless */
        return memory;
    }
#endif
    return posix_memalign(&memory, LARGEST_ALIGNMENT, bytes ? (size_t)bytes : 1) == 0 ? memory : NULL;
}

EXPORT void pyapp_free(void *memory) { free(memory); }
#endif

#if defined(__wasm__)
EXPORT void pyapp_set_threads(int32_t threads) { (void)threads; }
EXPORT int32_t pyapp_threads(void) { return 1; }
EXPORT int32_t pyapp_flush_denormals(int32_t on) { return (void)on, 0; } /* wasm has no such mode */
#else
EXPORT void pyapp_set_threads(int32_t threads) { pool_set_threads(threads); }
EXPORT int32_t pyapp_threads(void) { return pool_threads(); }
EXPORT int32_t pyapp_flush_denormals(int32_t on) { return pool_flush_denormals(on); }
#endif
