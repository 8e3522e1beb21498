/* Sends uploads in many small PATCHes by tus, one after the other on each connection, and waits for every answer.

       patch_chunks PORT SIZE CHUNK CONNECTIONS THREADS < PATHS

   A line of PATHS is that of an upload of SIZE bytes, of which nothing was sent yet. Each connection to 127.0.0.1 takes one,
   sends its next PATCH when the answer to the last one is there, and takes another one at its end. Prints the seconds from
   the first connect until the last answer, the number of PATCHes, and the median and the 99th percentile of their times in
   microseconds. Ends with status 1 unless each answer is 204. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { maximum_connections = 1024, maximum_paths = 65536, path_bytes = 1024, patience_milliseconds = 120000 };

struct connection {
    int descriptor;
    const char *path;
    long long offset;
    /* Of the PATCH that is on its way. */
    char head[path_bytes + 256];
    size_t head_length, content_length, sent;
    double began;
    char answer[4096];
    size_t answer_length;
};

struct worker {
    pthread_t thread;
    int index;
};

static struct connection connections[maximum_connections];
static char *paths[maximum_paths];
static int connection_count, path_count, taken_paths, thread_count, port;
static long long size, chunk;
static char *content;
static float *times;
static int time_count;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void open_connection(struct connection *one, int poll) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((unsigned short)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    one->descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (one->descriptor < 0) fail("socket: %s", strerror(errno));
    if (connect(one->descriptor, (struct sockaddr *)&address, sizeof address) != 0) fail("connect: %s", strerror(errno));
    int yes = 1;
    setsockopt(one->descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(one->descriptor, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, one->descriptor, &event) != 0) fail("epoll_ctl: %s", strerror(errno));
}

/* Takes the next upload, if there is one. */
static int take_path(struct connection *one) {
    int index = __atomic_fetch_add(&taken_paths, 1, __ATOMIC_RELAXED);
    if (index >= path_count) return 0;
    one->path = paths[index];
    one->offset = 0;
    return 1;
}

/* Sends what is left of the PATCH; waits for room only if there is none. */
static void send_rest(struct connection *one, int poll, int is_waiting) {
    while (one->sent < one->head_length + one->content_length) {
        struct iovec parts[2];
        int count = 0;
        size_t behind = one->sent > one->head_length ? one->sent - one->head_length : 0;
        if (one->sent < one->head_length)
            parts[count++] = (struct iovec){one->head + one->sent, one->head_length - one->sent};
        parts[count++] = (struct iovec){content + behind, one->content_length - behind};
        ssize_t sent = writev(one->descriptor, parts, count);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) {
            struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = one};
            if (!is_waiting) epoll_ctl(poll, EPOLL_CTL_MOD, one->descriptor, &event);
            return;
        }
        /* A server that broke off may have said why. */
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return;
        if (sent < 0) fail("send: %s", strerror(errno));
        one->sent += (size_t)sent;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    if (is_waiting) epoll_ctl(poll, EPOLL_CTL_MOD, one->descriptor, &event);
}

static void begin_patch(struct connection *one, int poll) {
    long long rest = size - one->offset;
    one->content_length = (size_t)(rest < chunk ? rest : chunk);
    one->head_length = (size_t)snprintf(
        one->head, sizeof one->head,
        "PATCH %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %zu\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: %lld\r\n"
        "Content-Type: application/offset+octet-stream\r\n\r\n",
        one->path, port, one->content_length, one->offset);
    one->sent = one->answer_length = 0;
    one->began = now();
    send_rest(one, poll, 0);
}

/* Reads what there is of the answer, which has no content; returns whether it is complete. */
static int read_answer(struct connection *one) {
    size_t room = sizeof one->answer - 1 - one->answer_length;
    ssize_t got = recv(one->descriptor, one->answer + one->answer_length, room, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) fail("the server closed at %lld: %s", one->offset, one->answer);
    one->answer_length += (size_t)got;
    one->answer[one->answer_length] = 0;
    char *end = strstr(one->answer, "\r\n\r\n");
    if (!end && room > (size_t)got) return 0;
    if (!end || strncmp(one->answer, "HTTP/1.1 204", 12) != 0 || end[4]) fail("not 204 alone: %s", one->answer);
    if (one->sent != one->head_length + one->content_length) fail("answered before all was sent: %s", one->answer);
    one->offset += (long long)one->content_length;
    char *stored = strcasestr(one->answer, "\r\nupload-offset:");
    if (!stored || atoll(stored + 16) != one->offset) fail("not at %lld: %s", one->offset, one->answer);
    return 1;
}

/* Serves the connections whose number is that of the worker, modulo the threads. */
static void *run(void *argument) {
    struct worker *worker = argument;
    int poll = epoll_create1(EPOLL_CLOEXEC), open_count = 0;
    for (int index = worker->index; index < connection_count; index += thread_count, open_count++) {
        struct connection *one = &connections[index];
        open_connection(one, poll);
        one->path = paths[index];
        begin_patch(one, poll);
    }
    struct epoll_event events[64];
    while (open_count > 0) {
        int count = epoll_wait(poll, events, 64, patience_milliseconds);
        if (count == 0) fail("no progress for %d s", patience_milliseconds / 1000);
        for (int index = 0; index < count; index++) {
            struct connection *one = events[index].data.ptr;
            if (events[index].events & EPOLLOUT) send_rest(one, poll, 1);
            if (!(events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || !read_answer(one)) continue;
            times[__atomic_fetch_add(&time_count, 1, __ATOMIC_RELAXED)] = (float)((now() - one->began) * 1e6);
            if (one->offset < size || take_path(one)) {
                begin_patch(one, poll);
            } else {
                close(one->descriptor);
                open_count--;
            }
        }
    }
    close(poll);
    return NULL;
}

static void read_paths(void) {
    static char line[path_bytes];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        if (path_count == maximum_paths) fail("more than %d paths", maximum_paths);
        paths[path_count++] = strdup(line);
    }
    if (path_count < connection_count) fail("fewer paths than connections");
}

static int by_time(const void *left, const void *right) {
    float first = *(const float *)left, second = *(const float *)right;
    return (first > second) - (first < second);
}

int main(int count, char **arguments) {
    if (count != 6 || atoll(arguments[2]) < 1 || atoll(arguments[3]) < 1 || atoi(arguments[4]) < 1 ||
        atoi(arguments[4]) > maximum_connections || atoi(arguments[5]) < 1 || atoi(arguments[5]) > 64)
        fail("usage: %s PORT SIZE CHUNK CONNECTIONS THREADS < PATHS", arguments[0]);
    signal(SIGPIPE, SIG_IGN);
    port = atoi(arguments[1]);
    size = atoll(arguments[2]);
    chunk = atoll(arguments[3]);
    connection_count = atoi(arguments[4]);
    thread_count = atoi(arguments[5]);
    taken_paths = connection_count;
    read_paths();
    content = malloc((size_t)chunk);
    size_t total = (size_t)path_count * (size_t)((size + chunk - 1) / chunk);
    times = malloc(total * sizeof *times);
    if (!content || !times) fail("out of memory");
    for (long long index = 0; index < chunk; index++) content[index] = (char)(index * 131 >> 3);

    struct worker workers[64];
    double began = now();
    for (int index = 0; index < thread_count; index++) {
        workers[index].index = index;
        if (pthread_create(&workers[index].thread, NULL, run, &workers[index]) != 0) fail("pthread_create");
    }
    for (int index = 0; index < thread_count; index++) pthread_join(workers[index].thread, NULL);
    double seconds = now() - began;
    qsort(times, (size_t)time_count, sizeof *times, by_time);
    printf("%.6f %d %.0f %.0f\n", seconds, time_count, (double)times[time_count / 2], (double)times[time_count * 99LL / 100]);
    return 0;
}
