/* The kernels of the page with threads: a module of its own, over memory that workers of the browser share.
 *
 * One worker calls pool_run; each helper (a worker with an instance of this module over the same memory) is in
 * pool_help for as long as it lives. As in pool.c, a record is cut into more chunks than workers, and workers claim
 * chunks from one counter, so that results are those of one worker, and a worker that lost its core, or is not there
 * yet, delays one chunk at most. Waiting workers spin for a bounded time, then sleep. */
#include "kernels.h"
#include "sets.h"
#include <stdatomic.h>

#ifndef PYAPP_SIGNATURE
#error "build.py gives -DPYAPP_SIGNATURE, the CRC-32 of kernels.h"
#endif
#define EXPORT __attribute__((visibility("default"), used))

/* A record is cut into LEAST_CHUNKS for each worker, since claiming costs, or up to MOST_CHUNKS where these are long: a
 * browser takes cores away for a while, and the others wait for the chunk of a lost core. Short records, for which a claim
 * is a twentieth of the work, are cut into one for each. */
enum {
    LEAST_CHUNKS = 2,
    MOST_CHUNKS = 6,
    CHUNK_WORK = 2000,    /* thousands of multiply-adds */
    SHORT_WORK = 300,     /* thousands of multiply-adds: some 10 microseconds of one worker */
    SMALL_WORK = 2,       /* thousands of multiply-adds; fewer are done before another worker has claimed a chunk */
    SPIN_ROUNDS = 30000,  /* of the caller, which waits for chunks: 15 to 30 microseconds */
    IDLE_ROUNDS = 200000, /* of a helper, while Python prepares the next token: 0.1 to 0.2 ms; waking takes 50 us */
    WAITS = 30,           /* a worker that finishes no chunk for so many seconds is lost */
    POOL_LOST = 255,      /* a status beside the KERNEL_* codes: this memory is not used again */
};
static const int64_t SECOND = 1000000000; /* nanoseconds */

/* ticket: number of the record << 32 | its chunks << 16 | next chunk to claim. One word, so that a late worker that
 * still sees the last record cannot claim a chunk of the next one. `record` is published by it: it changes only when
 * every chunk of the record before has been claimed and finished. finished counts the chunks of all records. */
static struct {
    _Alignas(64) _Atomic uint64_t ticket;
    _Atomic(const launch *) record;
    _Atomic uint32_t sleepers; /* helpers that may be asleep */
    _Alignas(64) _Atomic uint32_t finished;
    _Atomic int32_t code, lost, caller_sleeps;
} work;
static uint32_t number, started; /* of the caller: records published, and their chunks */

static uint32_t *number_word(void) { return (uint32_t *)&work.ticket + 1; } /* the upper half of ticket */

/* Claims and runs chunks of the current record until none is left. */
static void run_chunks(void)
{
    uint64_t ticket = atomic_load(&work.ticket);
    for (;;) {
        const int chunk = ticket & 0xFFFF, chunks = ticket >> 16 & 0xFFFF;
        const launch *record = atomic_load(&work.record);
        if (chunk >= chunks)
            return;
        /* Success proves that the record above belongs to this ticket. */
        if (!atomic_compare_exchange_strong(&work.ticket, &ticket, ticket + 1))
            continue;
        const int code = sets[0].table[record->kernel](record, chunk, chunks);
        int32_t none = KERNEL_OK;
        if (code)
            atomic_compare_exchange_strong(&work.code, &none, code);
        atomic_fetch_add(&work.finished, 1);
        if (atomic_load(&work.caller_sleeps))
            __builtin_wasm_memory_atomic_notify((int32_t *)&work.finished, 1);
        ticket = atomic_load(&work.ticket);
    }
}

/* Waits until the helpers have finished what they claimed; 0 where one is lost. */
static int wait_until_finished(void)
{
    for (int round = 0; round < SPIN_ROUNDS; round++)
        if (atomic_load(&work.finished) == started)
            return 1;
    uint32_t seen = atomic_load(&work.finished);
    atomic_store(&work.caller_sleeps, 1);
    for (int waits = 0; seen != started && waits < WAITS && !atomic_load(&work.lost); waits++) {
        __builtin_wasm_memory_atomic_wait32((int32_t *)&work.finished, (int32_t)seen, SECOND);
        const uint32_t now = atomic_load(&work.finished);
        if (now != seen)
            waits = 0;
        seen = now;
    }
    atomic_store(&work.caller_sleeps, 0);
    return seen == started;
}

static int run_shared(const launch *record, int workers)
{
    const int64_t wished = record->work / workers / CHUNK_WORK, most = wished < MOST_CHUNKS ? wished : MOST_CHUNKS;
    const int64_t least = record->work < SHORT_WORK ? 1 : LEAST_CHUNKS;
    const uint32_t chunks = (uint32_t)(workers * (most > least ? most : least));
    started += chunks;
    number++;
    atomic_store(&work.record, record);
    atomic_store(&work.ticket, (uint64_t)number << 32 | chunks << 16);
    if (atomic_load(&work.sleepers)) {
        atomic_store(&work.sleepers, 0);
        __builtin_wasm_memory_atomic_notify((int32_t *)number_word(), UINT32_MAX);
    }
    run_chunks();
    if (!wait_until_finished())
        return POOL_LOST;
    const int code = atomic_load(&work.code);
    if (code)
        atomic_store(&work.code, KERNEL_OK);
    return code;
}

/* Runs records in order on `workers` workers, this one included; returns 0 or (index of the failed record << 8) | code.
 */
EXPORT int32_t pool_run(const launch *records, int32_t count, int32_t workers)
{
    for (int32_t i = 0; i < count; i++) {
        const launch *record = &records[i];
        int code;
        if (atomic_load(&work.lost))
            code = POOL_LOST;
        else if (record->kernel < 0 || record->kernel >= sets[0].kernels)
            code = KERNEL_BAD_ARGUMENT;
        else if (workers < 2 || record->work < SMALL_WORK)
            code = sets[0].table[record->kernel](record, 0, 1);
        else
            code = run_shared(record, workers);
        if (code)
            return i << 8 | code;
    }
    return 0;
}

/* A helper's life: it returns after pool_lose. */
EXPORT void pool_help(void)
{
    uint32_t seen = (uint32_t)(atomic_load(&work.ticket) >> 32);
    run_chunks(); /* of a record that was published before */
    while (!atomic_load(&work.lost)) {
        for (int round = 0; round < IDLE_ROUNDS && (uint32_t)(atomic_load(&work.ticket) >> 32) == seen; round++)
            ;
        if ((uint32_t)(atomic_load(&work.ticket) >> 32) == seen) {
            atomic_fetch_add(&work.sleepers, 1);
            __builtin_wasm_memory_atomic_wait32((int32_t *)number_word(), (int32_t)seen, -1);
        }
        seen = (uint32_t)(atomic_load(&work.ticket) >> 32);
        run_chunks();
    }
}

/* A worker has failed: nothing runs in this memory from now on, and nobody waits for what it claimed. */
EXPORT void pool_lose(void)
{
    atomic_store(&work.lost, 1);
    __builtin_wasm_memory_atomic_notify((int32_t *)&work.finished, UINT32_MAX);
    __builtin_wasm_memory_atomic_notify((int32_t *)number_word(), UINT32_MAX);
}

EXPORT const char *pyapp_signature(void) { return PYAPP_SIGNATURE; }
EXPORT const char *pyapp_instruction_set(void) { return sets[0].name; }
