/* Sends one file over many connections at once, each as the content of one request, and waits for all answers.

       send_files PORT FILE METHOD THREADS [HEADER...] < TARGETS

   Connects to 127.0.0.1 once for each line of TARGETS (a path). Prints the seconds from the first connect until the first
   and until the last answer. Ends with status 1 unless each answer is a success (2xx).
   The content goes by sendfile from the page cache, in pieces and in turns, so that the client costs as little as it can. */

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
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { maximum_connections = 4096, head_bytes = 8192, piece_bytes = 256 << 10, patience_milliseconds = 120000 };

struct connection {
    int descriptor;
    char *head;
    size_t head_length, head_sent;
    off_t offset;
    char answer[1024];
    size_t answer_length;
    double finished;
};

struct worker {
    pthread_t thread;
    int index;
};

static struct connection connections[maximum_connections];
static int connection_count, thread_count, port, file;
static off_t file_size;
static double began;

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
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = one};
    if (epoll_ctl(poll, EPOLL_CTL_ADD, one->descriptor, &event) != 0) fail("epoll_ctl: %s", strerror(errno));
}

/* Sends one piece; returns whether all is sent now. */
static int send_piece(struct connection *one) {
    ssize_t sent;
    if (one->head_sent < one->head_length) {
        sent = send(one->descriptor, one->head + one->head_sent, one->head_length - one->head_sent,
                    MSG_NOSIGNAL | MSG_MORE);
        if (sent > 0) one->head_sent += (size_t)sent;
    } else {
        off_t rest = file_size - one->offset;
        sent = sendfile(one->descriptor, file, &one->offset, rest < piece_bytes ? (size_t)rest : piece_bytes);
    }
    /* A server that broke off may have said why: its answer is read before anything is reported. */
    if (sent < 0 && errno != EAGAIN && errno != EINTR && errno != EPIPE && errno != ECONNRESET)
        fail("send: %s", strerror(errno));
    return one->head_sent == one->head_length && one->offset == file_size;
}

/* Reads what there is of the answer; returns whether its head is complete. */
static int read_answer(struct connection *one) {
    size_t room = sizeof one->answer - 1 - one->answer_length;
    ssize_t got = recv(one->descriptor, one->answer + one->answer_length, room, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) fail("the server closed after %lld bytes: %s", (long long)one->offset, one->answer);
    one->answer_length += (size_t)got;
    one->answer[one->answer_length] = 0;
    if (!strstr(one->answer, "\r\n\r\n")) return 0;
    if (strncmp(one->answer, "HTTP/1.1 2", 10) != 0) fail("no success: %s", one->answer);
    if (one->offset != file_size) fail("answered before all was sent: %s", one->answer);
    return 1;
}

/* Serves the connections whose number is that of the worker, modulo the threads. */
static void *run(void *argument) {
    struct worker *worker = argument;
    int poll = epoll_create1(EPOLL_CLOEXEC), open_count = 0;
    for (int index = worker->index; index < connection_count; index += thread_count, open_count++)
        open_connection(&connections[index], poll);
    struct epoll_event events[64];
    while (open_count > 0) {
        int count = epoll_wait(poll, events, 64, patience_milliseconds);
        if (count == 0) fail("no progress for %d s", patience_milliseconds / 1000);
        for (int index = 0; index < count; index++) {
            struct connection *one = events[index].data.ptr;
            if (events[index].events & EPOLLOUT && send_piece(one)) {
                struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
                epoll_ctl(poll, EPOLL_CTL_MOD, one->descriptor, &event);
            }
            if (events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && read_answer(one)) {
                one->finished = now();
                close(one->descriptor);
                open_count--;
            }
        }
    }
    close(poll);
    return NULL;
}

/* One head for each line of the standard input. */
static void read_targets(const char *method, int header_count, char **headers) {
    static char target[4096], head[head_bytes];
    while (fgets(target, sizeof target, stdin)) {
        target[strcspn(target, "\r\n")] = 0;
        if (connection_count == maximum_connections) fail("more than %d targets", maximum_connections);
        int length = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %lld\r\n", method,
                              target, port, (long long)file_size);
        for (int index = 0; index < header_count && length < head_bytes; index++)
            length += snprintf(head + length, sizeof head - (size_t)length, "%s\r\n", headers[index]);
        if (length + 3 > head_bytes) fail("the head is too long");
        strcpy(head + length, "\r\n");
        connections[connection_count].head = strdup(head);
        connections[connection_count++].head_length = (size_t)length + 2;
    }
    if (connection_count == 0) fail("no target on the standard input");
}

int main(int count, char **arguments) {
    if (count < 5 || atoi(arguments[4]) < 1 || atoi(arguments[4]) > 64)
        fail("usage: %s PORT FILE METHOD THREADS [HEADER...] < TARGETS", arguments[0]);
    signal(SIGPIPE, SIG_IGN);
    port = atoi(arguments[1]);
    thread_count = atoi(arguments[4]);
    file = open(arguments[2], O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) fail("%s: %s", arguments[2], strerror(errno));
    file_size = status.st_size;
    read_targets(arguments[3], count - 5, arguments + 5);

    struct worker workers[64];
    began = now();
    for (int index = 0; index < thread_count; index++) {
        workers[index].index = index;
        if (pthread_create(&workers[index].thread, NULL, run, &workers[index]) != 0) fail("pthread_create");
    }
    for (int index = 0; index < thread_count; index++) pthread_join(workers[index].thread, NULL);
    double first = connections[0].finished, last = first;
    for (int index = 1; index < connection_count; index++) {
        double finished = connections[index].finished;
        first = finished < first ? finished : first;
        last = finished > last ? finished : last;
    }
    printf("%.6f %.6f\n", first - began, last - began);
    return 0;
}
