/* Preloaded: the time of day of a process is off by CLOCK_SHIFT seconds. What measures spans and wakes at their ends is not affected:
   libfaketime (0.9.10) moves the timers, too, and a process with its clock ahead then never sleeps. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t shift;

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("CLOCK_SHIFT");
    shift = text ? strtoll(text, NULL, 10) : 0;
}

static int real_clock(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return next(clock, now);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = real_clock(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += shift;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (real_clock(CLOCK_REALTIME, &exact) != 0) return -1;
    now->tv_sec = exact.tv_sec + shift;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec exact;
    real_clock(CLOCK_REALTIME, &exact);
    time_t now = exact.tv_sec + shift;
    if (result) *result = now;
    return now;
}
