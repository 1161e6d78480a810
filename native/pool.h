/* The host's pool of threads (native/pool.c); wasm has none. */
#ifndef PYAPP_POOL_H
#define PYAPP_POOL_H
#include "kernels.h"

/* pool_enter: takes the pool for one pyapp_run and returns the number of threads to use; 1 when another caller has it.
 * pool_flush_denormals: whether kernels treat denormal numbers as zero; returns the previous setting.
 * pool_run: runs one record on that many threads; returns 0 or a KERNEL_* code. pool_leave: releases the pool. */
int pool_enter(void);
int pool_run(kernel_function *kernel, const launch *record, int threads);
void pool_leave(int threads);
int pool_flush_denormals(int on);
void pool_set_threads(int32_t threads);
int32_t pool_threads(void);
#endif
