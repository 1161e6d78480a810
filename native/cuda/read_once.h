/* Loads of what no other thread reads, such as weights: they leave the first cache to what is read again. They stay behind
 * wait_for_kernels. */
#ifndef PYAPP_READ_ONCE_H
#define PYAPP_READ_ONCE_H
#include "gpu.h"

DEVICE uint32_t load_once(const uint32_t *p)
{
#ifdef __CUDACC__
    uint32_t value;
    asm volatile("ld.global.L1::no_allocate.b32 %0, [%1];" : "=r"(value) : "l"(p));
#else
    uint32_t value;
    memcpy(&value, p, sizeof value);
#endif
    return value;
}

DEVICE uint4 load_once(const uint4 *p)
{
#ifdef __CUDACC__
    uint4 value;
    asm volatile("ld.global.L1::no_allocate.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "l"(p));
    return value;
#else
    return *p;
#endif
}
#endif
