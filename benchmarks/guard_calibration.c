// The unit that guard.py gives CPU times in: for each byte of standard input it does a round of fixed work, which is of the
// kinds that a request costs, and writes a byte. Two threads wake each other, make small system calls, allocate, and walk
// through memory.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 200, CALLS = 50, MEMORY = 1 << 18, LINE = 64 };

static int there[2], back[2];
static unsigned char memory[MEMORY];
static volatile uint64_t result;

static void work(void) {
    void *blocks[BLOCKS];
    uint64_t hash = 14695981039346656037u;
    for (int index = 0; index < BLOCKS; index++) {
        blocks[index] = malloc(32 + (size_t)index * 5);
        memset(blocks[index], index, 32);
    }
    for (int index = 0; index < MEMORY; index += LINE) hash = (hash ^ memory[index]++) * 1099511628211u;
    for (int index = 0; index < CALLS; index++) hash += (uint64_t)syscall(SYS_getppid);
    for (int index = 0; index < BLOCKS; index++) free(blocks[index]);
    result += hash;
}

// Does the work and passes a byte on; false at the end of the input.
static int pass(int from, int to) {
    char byte;
    if (read(from, &byte, 1) != 1) return 0;
    work();
    return write(to, &byte, 1) == 1;
}

static void *other(void *unused) {
    while (pass(there[0], back[1])) {}
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pipe(there) != 0 || pipe(back) != 0 || pthread_create(&thread, NULL, other, NULL) != 0) return 1;
    while (pass(STDIN_FILENO, there[1]) && pass(back[0], STDOUT_FILENO)) {}
    return 0;
}
