#include "CSystem.h"

#include <string.h>

// Eight tables of 256: entry n of table k is the effect of byte n on the register, followed by k zero bytes.
static uint32_t tables[8][256];

// Bytes of a lane: three lanes are processed in parallel, because the instruction takes three cycles but one can start in
// each cycle.
#define LANE 2048

// Entry n of table k is the effect of LANE zero bytes on a register with n in its byte k.
static uint32_t lane_tables[4][256];

static uint32_t advance_by_tables(uint32_t crc, const uint8_t *bytes, size_t count);

__attribute__((constructor)) static void make_tables(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        tables[0][n] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int n = 0; n < 256; n++) tables[k][n] = tables[k - 1][n] >> 8 ^ tables[0][tables[k - 1][n] & 255];
    static const uint8_t zeros[LANE];
    for (int bit = 0; bit < 32; bit++) {
        // The CRC is linear, so the effect on each bit is enough.
        uint32_t shifted = advance_by_tables(1u << bit, zeros, LANE);
        for (int n = 0; n < 256; n++)
            if (n >> bit % 8 & 1) lane_tables[bit / 8][n] ^= shifted;
    }
}

static uint32_t advance_by_tables(uint32_t crc, const uint8_t *bytes, size_t count) {
    for (; count >= 8; bytes += 8, count -= 8) {
        uint32_t low = crc ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                              (uint32_t)bytes[3] << 24);
        // Seven more bytes follow the first byte, none the last one.
        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^ tables[4][low >> 24] ^
              tables[3][bytes[4]] ^ tables[2][bytes[5]] ^ tables[1][bytes[6]] ^ tables[0][bytes[7]];
    }
    for (; count > 0; bytes++, count--) crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 255];
    return crc;
}

#if defined(__x86_64__)
static uint32_t shift_by_lane(uint32_t crc) {
    return lane_tables[0][crc & 255] ^ lane_tables[1][crc >> 8 & 255] ^ lane_tables[2][crc >> 16 & 255] ^
           lane_tables[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t advance_by_instruction(uint32_t crc, const uint8_t *bytes,
                                                                           size_t count) {
    uint64_t wide = crc;
    for (; count >= 3 * LANE; bytes += 3 * LANE, count -= 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            uint64_t words[3];
            memcpy(&words[0], bytes + i, 8);
            memcpy(&words[1], bytes + LANE + i, 8);
            memcpy(&words[2], bytes + 2 * LANE + i, 8);
            wide = __builtin_ia32_crc32di(wide, words[0]);
            second = __builtin_ia32_crc32di(second, words[1]);
            third = __builtin_ia32_crc32di(third, words[2]);
        }
        wide = shift_by_lane((uint32_t)wide) ^ second;
        wide = shift_by_lane((uint32_t)wide) ^ third;
    }
    for (; count >= 8; bytes += 8, count -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; count > 0; bytes++, count--) crc = __builtin_ia32_crc32qi(crc, *bytes);
    return crc;
}
#endif

uint32_t csys_crc32c(uint32_t state, const void *bytes, size_t count) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) return advance_by_instruction(state, bytes, count);
#endif
    return advance_by_tables(state, bytes, count);
}

uint32_t csys_crc32c_by_tables(uint32_t state, const void *bytes, size_t count) {
    return advance_by_tables(state, bytes, count);
}
