/* Products by the 128 threads of a warpgroup, whose factors lie in shared memory (wgmma, sm_90a), the first one or in
 * registers. They run while the threads go on. Each wrapper has two bodies: the card's instruction, and what the emulator
 * does.
 *
 * A tile in shared memory has rows of 64 numbers of 16 bits, 128 bytes, and begins at a multiple of 1024 bytes; a matrix
 * with more columns is several such tiles side by side. The 16 bytes of 8 numbers lie where swizzled() says, so that reads of
 * rows and of columns meet no bank twice (PTX ISA, 128-byte swizzling). */
#ifndef PYAPP_WARPGROUPS_H
#define PYAPP_WARPGROUPS_H
#include "tensor_cores.h"

#if defined(__CUDACC__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUPS 0
#else
#define HAS_WARPGROUPS 1
#endif

enum { SWIZZLED_COLUMNS = 64, SWIZZLED_BYTES = 1024 };

/* Where a number of a matrix of `rows` rows lies. */
DEVICE int swizzled(int row, int column, int rows)
{
    return (column / 64 * rows + row) * 64 + ((column / 8 % 8) ^ row % 8) * 8 + column % 8;
}

/* Where the first tile begins: after what is asked for beside the tiles. By an offset, so that the compiler still knows that
 * it is shared memory. */
DEVICE uint16_t *first_tile(uint16_t *shared)
{
#ifdef __CUDACC__
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(shared);
#else
    const uint32_t at = (uint32_t)(uint64_t)shared;
#endif
    return shared + (0u - at) % SWIZZLED_BYTES / 2;
}

/* What was written to shared memory before is there for products after the next barrier. */
DEVICE void show_to_products()
{
#if defined(__CUDACC__) && HAS_WARPGROUPS
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* Before products whose registers the threads have written. */
DEVICE void begin_products()
{
#if defined(__CUDACC__) && HAS_WARPGROUPS
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
/* Ends a group of products. */
DEVICE void end_products()
{
#if defined(__CUDACC__) && HAS_WARPGROUPS
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/* Waits for the groups of products, but for the LATEST. */
template <int LATEST> DEVICE void wait_for_products()
{
#if defined(__CUDACC__) && HAS_WARPGROUPS
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATEST) : "memory");
#endif
}

/* A factor of products in shared memory: where it begins, and how far apart its tiles side by side are. Made once, before a
 * loop: what lies `numbers` further, a multiple of 8, takes one addition. */
struct shared_factor {
#ifdef __CUDACC__
    uint32_t low; /* of the descriptor, whose high half says that every 8 rows lie 1024 bytes apart, swizzled */

    DEVICE_MEMBER shared_factor(const uint16_t *at, int tile_bytes)
        : low(((uint32_t)__cvta_generic_to_shared(at) & 0x3ffff) >> 4 | (uint32_t)(tile_bytes >> 4) << 16)
    {
    }
    DEVICE_MEMBER uint64_t after(int numbers) const
    {
        return (uint64_t)(low + (uint32_t)(numbers / 8)) | (uint64_t)(1024 >> 4 | 1 << 30) << 32;
    }
#else
    const uint16_t *at;

    shared_factor(const uint16_t *from, int) : at(from) {}
    const uint16_t *after(int numbers) const { return at + numbers; }
#endif
};

#ifdef __CUDACC__
#define SUMS_4(s, i) "+f"(s[i][0]), "+f"(s[i][1]), "+f"(s[i][2]), "+f"(s[i][3])
#define SUMS_16(s, i) SUMS_4(s, i), SUMS_4(s, i + 1), SUMS_4(s, i + 2), SUMS_4(s, i + 3)
#define SUMS_32(s, i) SUMS_16(s, i), SUMS_16(s, i + 4)
#define SUMS_64(s, i) SUMS_32(s, i), SUMS_32(s, i + 8)
#define SUMS_128(s, i) SUMS_64(s, i), SUMS_64(s, i + 16)
#define NAMES_32                                                                                                       \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"   \
    "%30,%31"
#define NAMES_64                                                                                                       \
    NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"   \
             "%57,%58,%59,%60,%61,%62,%63"
#define NAMES_128                                                                                                      \
    NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,"   \
             "%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,"     \
             "%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define PRODUCT_OF_ROWS(count, columns, type, a, b, added, s)                                                          \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" added ", 0;"                                                        \
                 "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" NAMES_##count               \
                 "}, %" a ", %" b ", p, 1, 1, 0, 0;}"                                                                  \
                 : SUMS_##count(s, 0)                                                                                  \
                 : "l"(first), "l"(second), "r"((int)add))
#define PRODUCT_WITH_VALUES(count, columns, type, a0, a1, a2, a3, b, s)                                                \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" NAMES_##count               \
                 "}, {%" a0 ",%" a1 ",%" a2 ",%" a3 "}, %" b ", 1, 1, 1, 1;"                                           \
                 : SUMS_##count(s, 0)                                                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(second))
#endif

/* sums (64, 64) = or += a (64, 16) times the transposed b (64, 16): 16 columns that begin a_first and b_first numbers into
 * the factors. Warp w has the rows 16 w .. 16 w + 15, lanes as in multiply_fragments. */
template <int TYPE>
DEVICE void multiply_shared(float sums[8][4], const shared_factor &a, int a_first, const shared_factor &b, int b_first,
                            bool add)
{
#ifndef __CUDACC__
    emulator_multiply_shared(sums, a.after(a_first), b.after(b_first), add,
                             [](uint16_t half) { return load_float(&half, 0, TYPE); });
#elif HAS_WARPGROUPS
    const uint64_t first = a.after(a_first), second = b.after(b_first);
    if (TYPE == TYPE_float16)
        PRODUCT_OF_ROWS(32, "64", "f16", "32", "33", "34", sums);
    else
        PRODUCT_OF_ROWS(32, "64", "bf16", "32", "33", "34", sums);
#endif
}

/* sums (64, COLUMNS) += a, fragments as in multiply_fragments of each warp's 16 rows, times 16 of the `rows` rows of b, which
 * begin `first` numbers into it. */
template <int TYPE, int COLUMNS>
DEVICE void multiply_shared_columns(float sums[COLUMNS / 8][4], const uint32_t a[4], const shared_factor &b, int first,
                                    int rows)
{
#ifndef __CUDACC__
    emulator_multiply_shared_columns(sums, COLUMNS, a, b.after(first), rows,
                                     [](uint16_t half) { return load_float(&half, 0, TYPE); });
#elif HAS_WARPGROUPS
    const uint64_t second = b.after(first);
    if constexpr (COLUMNS == 64) {
        if (TYPE == TYPE_float16)
            PRODUCT_WITH_VALUES(32, "64", "f16", "32", "33", "34", "35", "36", sums);
        else
            PRODUCT_WITH_VALUES(32, "64", "bf16", "32", "33", "34", "35", "36", sums);
    } else if constexpr (COLUMNS == 128) {
        if (TYPE == TYPE_float16)
            PRODUCT_WITH_VALUES(64, "128", "f16", "64", "65", "66", "67", "68", sums);
        else
            PRODUCT_WITH_VALUES(64, "128", "bf16", "64", "65", "66", "67", "68", sums);
    } else {
        static_assert(COLUMNS == 256, "products have 64, 128 or 256 columns");
        if (TYPE == TYPE_float16)
            PRODUCT_WITH_VALUES(128, "256", "f16", "128", "129", "130", "131", "132", sums);
        else
            PRODUCT_WITH_VALUES(128, "256", "bf16", "128", "129", "130", "131", "132", sums);
    }
#endif
}
#endif
