/* Elements of any type and views of any strides, for kernels that process a part at a time: a part is read into floats,
 * doubles or 64-bit integers, computed, and written in the type of the result. */
#ifndef PYAPP_ELEMENTS_H
#define PYAPP_ELEMENTS_H
#include "simd.h"
#include "types.h"

enum { PART = 256, RANK = 6, ELEMENT_SHARE = 64 };

typedef struct view {
    const char *p;
    int type, rank;
    int64_t size[RANK], stride[RANK]; /* in elements; contiguous neighbouring dims are merged */
} view;

typedef uint16_t any16 __attribute__((may_alias));
typedef uint32_t any32 __attribute__((may_alias));
typedef uint64_t any64 __attribute__((may_alias));

/* elements.c */
#define view_of SUFFIXED(view_of)
#define next_run SUFFIXED(next_run)
#define read_floats SUFFIXED(read_floats)
#define read_doubles SUFFIXED(read_doubles)
#define read_integers SUFFIXED(read_integers)
#define read_bits SUFFIXED(read_bits)
#define write_floats SUFFIXED(write_floats)
#define write_doubles SUFFIXED(write_doubles)
#define write_integers SUFFIXED(write_integers)

/* A view of `rank` dims; returns its number of elements, -1 for an invalid rank, type or size. */
int64_t view_of(view *v, const void *p, int64_t type, int64_t rank, const int64_t *sizes, const int64_t *strides);

/* The offset of element `at`, and the step to the following elements; reduces *n to the elements with this step. */
int64_t next_run(const view *v, int64_t at, int64_t *n, int64_t *step);

/* n <= PART elements from element `at` on, in the order of the view's dims. floats: of float32 and halves; doubles: of
 * every float type and of integers; integers: of integers and bool, uint64 as its bits; bits: as they are, 1 to 8 bytes
 * each. read_floats and read_bits return where they are: `to`, or the view's own memory. */
const float *read_floats(float *to, const view *v, int64_t at, int64_t n);
void read_doubles(double *to, const view *v, int64_t at, int64_t n);
void read_integers(int64_t *to, const view *v, int64_t at, int64_t n);
const void *read_bits(void *to, const view *v, int64_t at, int64_t n, int64_t bytes);

/* To dense memory, from element `at` on. Floats: to float32 and halves. Doubles: to any type; to integers they are cut
 * to whole numbers. What a type cannot hold: to int64 the smallest int64; to int32 and narrower signed or unsigned
 * types the low bits of the smallest int32; to uint32 and uint64 the low bits of a whole number that fits into 64 bits,
 * else 0. Integers: their low bits; bool: whether they are not 0. */
void write_floats(void *y, int type, int64_t at, const float *from, int64_t n);
void write_doubles(void *y, int type, int64_t at, const double *from, int64_t n);
void write_integers(void *y, int type, int64_t at, const int64_t *from, int64_t n);
#endif
