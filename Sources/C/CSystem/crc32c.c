#include "CSystem.h"

#include <string.h>

// Eight tables of 256: entry n of table k is what byte n does to the register with k zero bytes after it.
static uint32_t tables[8][256];

__attribute__((constructor)) static void make_tables(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        tables[0][n] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int n = 0; n < 256; n++) tables[k][n] = tables[k - 1][n] >> 8 ^ tables[0][tables[k - 1][n] & 255];
}

static uint32_t advance_by_tables(uint32_t crc, const uint8_t *bytes, size_t count) {
    for (; count >= 8; bytes += 8, count -= 8) {
        uint32_t low = crc ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                              (uint32_t)bytes[3] << 24);
        // The first byte has seven more to pass, the last one none.
        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^ tables[4][low >> 24] ^
              tables[3][bytes[4]] ^ tables[2][bytes[5]] ^ tables[1][bytes[6]] ^ tables[0][bytes[7]];
    }
    for (; count > 0; bytes++, count--) crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 255];
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t advance_by_instruction(uint32_t crc, const uint8_t *bytes,
                                                                           size_t count) {
    uint64_t wide = crc;
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
