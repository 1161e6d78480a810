/* The arithmetic of two vectors of f32. Every kernel that computes these operations takes them from here. */
#ifndef PYAPP_ARITHMETIC_H
#define PYAPP_ARITHMETIC_H
#include "simd.h"

/* OPERATION(opcode) for each function vector_<opcode>. */
#define VECTOR_ARITHMETIC(OPERATION)                                                                                   \
    OPERATION(add) OPERATION(sub) OPERATION(mul) OPERATION(div) OPERATION(maximum) OPERATION(minimum)

INLINE vfloat vector_add(vfloat a, vfloat b) { return a + b; }
INLINE vfloat vector_sub(vfloat a, vfloat b) { return a - b; }
INLINE vfloat vector_mul(vfloat a, vfloat b) { return a * b; }
INLINE vfloat vector_div(vfloat a, vfloat b) { return a / b; }
INLINE vfloat vector_maximum(vfloat a, vfloat b) { return vmaximum(a, b); }
INLINE vfloat vector_minimum(vfloat a, vfloat b) { return vminimum(a, b); }

#endif
