/* The tables of all kernels, in the order of kernels.h: one for each instruction set of this build, best last. */
#ifndef PYAPP_SETS_H
#define PYAPP_SETS_H
#include "kernels.h"
#include "slots.h"
#include <stddef.h>

#define TABLE(set)                                                                                                     \
    KERNELS(DECLARE_##set, NOTHING_OF)                                                                                 \
    static kernel_function *const table_##set[] = {KERNELS(ENTRY_##set, NO_ENTRY)};
#define NOTHING_OF(name)
#define NO_ENTRY(name) NULL, /* of a CUDA_KERNEL */
#define DECLARE(name, set) int name##_##set(const launch *, int, int);
#define ENTRY(name, set) name##_##set,
#define DECLARE_baseline(name) DECLARE(name, baseline)
#define DECLARE_avx2(name) DECLARE(name, avx2)
#define DECLARE_avx512(name) DECLARE(name, avx512)
#define DECLARE_neon(name) DECLARE(name, neon)
#define DECLARE_dotprod(name) DECLARE(name, dotprod)
#define DECLARE_simd128(name) DECLARE(name, simd128)
#define DECLARE_relaxed(name) DECLARE(name, relaxed)
#define ENTRY_baseline(name) ENTRY(name, baseline)
#define ENTRY_avx2(name) ENTRY(name, avx2)
#define ENTRY_avx512(name) ENTRY(name, avx512)
#define ENTRY_neon(name) ENTRY(name, neon)
#define ENTRY_dotprod(name) ENTRY(name, dotprod)
#define ENTRY_simd128(name) ENTRY(name, simd128)
#define ENTRY_relaxed(name) ENTRY(name, relaxed)

typedef struct instruction_set {
    const char *name;
    kernel_function *const *table;
    int32_t kernels;
} instruction_set;
#define SET(set) {#set, table_##set, (int32_t)(sizeof table_##set / sizeof *table_##set)},

SETS(TABLE) /* the sets of this build, from build.py */
static const instruction_set sets[] = {SETS(SET)};
enum { SET_COUNT = sizeof sets / sizeof *sets };
#endif
