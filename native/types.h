/* Sets of element types, and what is asked of a type's code. */
#ifndef PYAPP_TYPES_H
#define PYAPP_TYPES_H

#define BIT(type) (1u << (type))
#define TYPES_HALF (BIT(TYPE_float16) | BIT(TYPE_bfloat16))
#define TYPES_FLOAT (TYPES_HALF | BIT(TYPE_float32) | BIT(TYPE_float64))
#define TYPES_FLOAT8 (BIT(TYPE_float8_e4m3fn) | BIT(TYPE_float8_e5m2))
#define TYPES_INTEGER                                                                                                  \
    (BIT(TYPE_uint8) | BIT(TYPE_int8) | BIT(TYPE_int16) | BIT(TYPE_int32) | BIT(TYPE_int64) | BIT(TYPE_uint16) |       \
     BIT(TYPE_uint32) | BIT(TYPE_uint64))

INLINE int is_type(int64_t type) { return type >= 0 && type < TYPE_COUNT; }
INLINE int type_in(int64_t type, uint32_t set) { return is_type(type) && (set >> type & 1); }

INLINE int64_t type_bytes(int64_t type)
{
    const uint8_t bytes[] = TYPE_BYTES;
    return bytes[type];
}
#endif
