// The compression function of MD5 (RFC 1321 §3.4) for four messages in parallel. Each step depends on the previous one, so one
// message leaves most of a processor idle; four messages in vector lanes take hardly longer.

#include "CSystem.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "MD5 reads little-endian words");

typedef uint32_t lanes __attribute__((vector_size(16)));

// The integer part of 2^32 * |sin(n + 1)|.
static const uint32_t K[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

#define F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
// The halves share no bit, so they can be added; only one of them depends on x.
#define G(x, y, z) (((x) & (z)) + ((y) & ~(z)))
#define H(x, y, z) ((x) ^ (y) ^ (z))
#define I(x, y, z) ((y) ^ ((x) | ~(z)))
#define ROTATE(x, s) ((x) << (s) | (x) >> (32 - (s)))

#define STEP(f, a, b, c, d, n, s, i)   \
    a += K[i] + words[n] + f(b, c, d); \
    a = ROTATE(a, s) + b;

#define FOUR(f, i, n0, n1, n2, n3, s0, s1, s2, s3) \
    STEP(f, a, b, c, d, n0, s0, i)                       \
    STEP(f, d, a, b, c, n1, s1, i + 1)                   \
    STEP(f, c, d, a, b, n2, s2, i + 2)                   \
    STEP(f, b, c, d, a, n3, s3, i + 3)

#define STEPS                                             \
    FOUR(F, 0, 0, 1, 2, 3, 7, 12, 17, 22)              \
    FOUR(F, 4, 4, 5, 6, 7, 7, 12, 17, 22)              \
    FOUR(F, 8, 8, 9, 10, 11, 7, 12, 17, 22)            \
    FOUR(F, 12, 12, 13, 14, 15, 7, 12, 17, 22)         \
    FOUR(G, 16, 1, 6, 11, 0, 5, 9, 14, 20)             \
    FOUR(G, 20, 5, 10, 15, 4, 5, 9, 14, 20)            \
    FOUR(G, 24, 9, 14, 3, 8, 5, 9, 14, 20)             \
    FOUR(G, 28, 13, 2, 7, 12, 5, 9, 14, 20)            \
    FOUR(H, 32, 5, 8, 11, 14, 4, 11, 16, 23)           \
    FOUR(H, 36, 1, 4, 7, 10, 4, 11, 16, 23)            \
    FOUR(H, 40, 13, 0, 3, 6, 4, 11, 16, 23)            \
    FOUR(H, 44, 9, 12, 15, 2, 4, 11, 16, 23)           \
    FOUR(I, 48, 0, 7, 14, 5, 6, 10, 15, 21)            \
    FOUR(I, 52, 12, 3, 10, 1, 6, 10, 15, 21)           \
    FOUR(I, 56, 8, 15, 6, 13, 6, 10, 15, 21)           \
    FOUR(I, 60, 4, 11, 2, 9, 6, 10, 15, 21)


// Loads words 4 * quarter to 4 * quarter + 3 of a block of each message.
static inline __attribute__((always_inline)) void load(lanes *words, const uint8_t *const *messages, size_t offset) {
    lanes rows[4];
    for (int lane = 0; lane < 4; lane++) memcpy(&rows[lane], messages[lane] + offset, 16);
    lanes low01 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    lanes low23 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    lanes high01 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    lanes high23 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    words[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    words[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    words[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    words[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

static inline __attribute__((always_inline)) void advance(uint32_t state[4][4], const uint8_t *const *messages,
                                                          size_t blocks) {
    lanes registers[4];
    memcpy(registers, state, sizeof registers);
    for (size_t offset = 0; blocks > 0; offset += 64, blocks--) {
        lanes words[16];
        for (int quarter = 0; quarter < 4; quarter++) load(words + 4 * quarter, messages, offset + 16 * (size_t)quarter);
        lanes a = registers[0], b = registers[1], c = registers[2], d = registers[3];
        STEPS
        registers[0] += a;
        registers[1] += b;
        registers[2] += c;
        registers[3] += d;
    }
    memcpy(state, registers, sizeof registers);
}

#if defined(__x86_64__)
// With single instructions for rotation and three-operand logic.
__attribute__((target("avx512f,avx512vl"))) static void advance_wide(uint32_t state[4][4],
                                                                     const uint8_t *const *messages, size_t blocks) {
    advance(state, messages, blocks);
}
#endif

void csys_md5_four(uint32_t state[4][4], const uint8_t *const messages[4], size_t blocks) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512vl")) {
        advance_wide(state, messages, blocks);
        return;
    }
#endif
    advance(state, messages, blocks);
}

void csys_md5_four_portable(uint32_t state[4][4], const uint8_t *const messages[4], size_t blocks) {
    advance(state, messages, blocks);
}
