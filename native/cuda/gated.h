/* Gated activation (Shazeer, GLU Variants Improve Transformer, 2020). */
#ifndef PYAPP_GATED_H
#define PYAPP_GATED_H
#include "gpu.h"

DEVICE float silu_mul(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }
#endif
