/* Indices of int32 or int64, by their bytes. */
#ifndef INDICES_H
#define INDICES_H

#include "gpu.h"

DEVICE bool are_index_bytes(int64_t bytes) { return bytes == 4 || bytes == 8; }

DEVICE int64_t index_at(const void *indices, int64_t i, int64_t bytes)
{
    return bytes == 8 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
}

#endif
