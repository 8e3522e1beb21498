#include "CSystem.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Reflected CRCs: the lowest bit of a register is the coefficient of the highest power of x. Registers of 32 bits are in the
// low half of a word.

// How far the folding constants move a block of 128 bits: to the next block, and to the fourth one.
enum { DISTANCES = 2 };
static const int distances[DISTANCES] = {128, 512};

typedef struct {
    int width;
    uint64_t polynomial;
    // Eight tables of 256: entry n of table k is the effect of byte n on the register, followed by k zero bytes.
    uint64_t tables[8][256];
    // For each distance, the factors of the first and the second word of a block.
    uint64_t folds[DISTANCES][2];
} crc_variant;

static crc_variant variants[CSYS_CRC_COUNT] = {
    [CSYS_CRC64_XZ] = {.width = 64, .polynomial = 0xC96C5795D7870F42u},
    [CSYS_CRC64_NVME] = {.width = 64, .polynomial = 0x9A6C9329AC4BC9B5u},
    [CSYS_CRC32] = {.width = 32, .polynomial = 0xEDB88320u},
};

// x to the power of `exponent`, modulo the polynomial, in the upper bits of a word.
static uint64_t power(const crc_variant *variant, int exponent) {
    uint64_t value = (uint64_t)1 << (variant->width - 1);
    for (; exponent > 0; exponent--) value = value & 1 ? value >> 1 ^ variant->polynomial : value >> 1;
    return value << (64 - variant->width);
}

__attribute__((constructor)) static void make_tables(void) {
    for (int i = 0; i < CSYS_CRC_COUNT; i++) {
        crc_variant *variant = &variants[i];
        for (uint64_t n = 0; n < 256; n++) {
            uint64_t crc = n;
            for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ variant->polynomial : crc >> 1;
            variant->tables[0][n] = crc;
        }
        for (int k = 1; k < 8; k++)
            for (int n = 0; n < 256; n++) {
                uint64_t before = variant->tables[k - 1][n];
                variant->tables[k][n] = before >> 8 ^ variant->tables[0][before & 255];
            }
        // One less than the distance, because the product of two reflected words is one bit short and therefore stands for x times
        // as much. The first word of a block is 64 bits further from the end than the second.
        for (int k = 0; k < DISTANCES; k++) {
            variant->folds[k][0] = power(variant, distances[k] + 64 - 1);
            variant->folds[k][1] = power(variant, distances[k] - 1);
        }
    }
}

static uint64_t advance_by_tables(const crc_variant *variant, uint64_t crc, const uint8_t *bytes, size_t count) {
    const uint64_t(*tables)[256] = variant->tables;
    for (; count >= 8; bytes += 8, count -= 8) {
        uint64_t word = 0;
        for (int i = 0; i < 8; i++) word |= (uint64_t)bytes[i] << 8 * i;
        word ^= crc;
        // Seven more bytes follow the first byte, none the last one.
        crc = tables[7][word & 255] ^ tables[6][word >> 8 & 255] ^ tables[5][word >> 16 & 255] ^
              tables[4][word >> 24 & 255] ^ tables[3][word >> 32 & 255] ^ tables[2][word >> 40 & 255] ^
              tables[1][word >> 48 & 255] ^ tables[0][word >> 56];
    }
    for (; count > 0; bytes++, count--) crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 255];
    return crc;
}

#if defined(__x86_64__)
// A block moved by the distance of `factors`, added to the block there.
__attribute__((target("pclmul"))) static inline __m128i fold(__m128i block, __m128i factors, __m128i there) {
    __m128i first = _mm_clmulepi64_si128(block, factors, 0x00);
    __m128i second = _mm_clmulepi64_si128(block, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, second), there);
}

static inline __m128i load(const uint8_t *bytes) { return _mm_loadu_si128((const __m128i *)bytes); }

// For at least 64 bytes. Blocks of 128 bits are multiplied by the power of x between them and the following blocks and added to
// those, until one block with the same remainder is left (Gopal et al., "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction", 2009). Tables give the remainder of that block.
__attribute__((target("pclmul"))) static uint64_t advance_by_folding(const crc_variant *variant, uint64_t crc,
                                                                      const uint8_t *bytes, size_t count) {
    __m128i far = load((const uint8_t *)variant->folds[1]);
    __m128i near = load((const uint8_t *)variant->folds[0]);
    __m128i a = _mm_xor_si128(load(bytes), _mm_set_epi64x(0, (long long)crc));
    __m128i b = load(bytes + 16), c = load(bytes + 32), d = load(bytes + 48);
    for (bytes += 64, count -= 64; count >= 64; bytes += 64, count -= 64) {
        a = fold(a, far, load(bytes));
        b = fold(b, far, load(bytes + 16));
        c = fold(c, far, load(bytes + 32));
        d = fold(d, far, load(bytes + 48));
    }
    a = fold(fold(fold(a, near, b), near, c), near, d);
    for (; count >= 16; bytes += 16, count -= 16) a = fold(a, near, load(bytes));
    uint8_t left[16];
    memcpy(left, &a, 16);
    crc = advance_by_tables(variant, 0, left, 16);
    return advance_by_tables(variant, crc, bytes, count);
}
#endif

uint64_t csys_crc(enum csys_crc_kind kind, uint64_t state, const void *bytes, size_t count) {
#if defined(__x86_64__)
    if (count >= 64 && __builtin_cpu_supports("pclmul"))
        return advance_by_folding(&variants[kind], state, bytes, count);
#endif
    return advance_by_tables(&variants[kind], state, bytes, count);
}

uint64_t csys_crc_by_tables(enum csys_crc_kind kind, uint64_t state, const void *bytes, size_t count) {
    return advance_by_tables(&variants[kind], state, bytes, count);
}
