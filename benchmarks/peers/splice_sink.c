/* The least that a server can do: splices the content of each PUT from the socket into a file, without a copy in user
   space. What an upload server can be compared with; no server for anything else.

       splice_sink DIRECTORY [sync] [copy]

   Listens on a free port of 127.0.0.1 and prints it. With `sync` the file is forced to disk (fdatasync) before the answer.
   With `copy` the content goes through a buffer by read and write instead. Each connection has a thread, and a pipe or a
   buffer of its own. Needs a Content-Length; PUT /any/NAME is stored as DIRECTORY/NAME. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { pipe_bytes = 1 << 20, buffer_bytes = 256 << 10, head_bytes = 16384 };

static const char *directory;
static int is_synchronous, is_copying;

static void fail(const char *call) {
    perror(call);
    exit(1);
}

/* Reads until the empty line; returns the bytes in `head`, and in *end where the content begins. 0 if the client went. */
static size_t read_head(int client, char *head, size_t *end) {
    size_t count = 0;
    while (count < head_bytes - 1) {
        ssize_t got = recv(client, head + count, head_bytes - 1 - count, 0);
        if (got <= 0) return 0;
        count += (size_t)got;
        head[count] = 0;
        char *found = strstr(head, "\r\n\r\n");
        if (found) {
            *end = (size_t)(found - head) + 4;
            return count;
        }
    }
    return 0;
}

static long long content_length(const char *head) {
    const char *found = strcasestr(head, "\r\nContent-Length:");
    return found ? atoll(found + 17) : -1;
}

/* DIRECTORY and the last part of the target; 0 unless that is a plain name. */
static int make_path(const char *head, char *path, size_t size) {
    const char *target = strchr(head, ' ');
    if (!target) return 0;
    size_t length = strcspn(target + 1, " \r\n");
    const char *name = target + 1 + length;
    while (name > target + 1 && name[-1] != '/') name--;
    length -= (size_t)(name - target - 1);
    if (length == 0 || name[0] == '.') return 0;
    int made = snprintf(path, size, "%s/%.*s", directory, (int)length, name);
    return made > 0 && (size_t)made < size;
}

/* Moves `length` bytes from the socket into the file; 0 if all came. */
static int move(int client, int file, long long length) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
    fcntl(ends[1], F_SETPIPE_SZ, pipe_bytes);
    while (length > 0) {
        ssize_t in = splice(client, NULL, ends[1], NULL, length < pipe_bytes ? (size_t)length : pipe_bytes,
                            SPLICE_F_MOVE | SPLICE_F_MORE);
        if (in < 0 && errno == EINTR) continue;
        if (in <= 0) break;
        length -= in;
        while (in > 0) {
            ssize_t out = splice(ends[0], NULL, file, NULL, (size_t)in, SPLICE_F_MOVE | SPLICE_F_MORE);
            if (out < 0 && errno == EINTR) continue;
            if (out <= 0) fail("splice to file");
            in -= out;
        }
    }
    close(ends[0]);
    close(ends[1]);
    return length == 0 ? 0 : -1;
}

/* The same by read and write through a buffer, as most servers do it. */
static int copy(int client, int file, long long length) {
    char *buffer = malloc(buffer_bytes);
    if (!buffer) fail("malloc");
    while (length > 0) {
        ssize_t in = recv(client, buffer, length < buffer_bytes ? (size_t)length : buffer_bytes, 0);
        if (in < 0 && errno == EINTR) continue;
        if (in <= 0) break;
        length -= in;
        for (ssize_t done = 0; done < in;) {
            ssize_t out = write(file, buffer + done, (size_t)(in - done));
            if (out < 0 && errno == EINTR) continue;
            if (out <= 0) fail("write to file");
            done += out;
        }
    }
    free(buffer);
    return length == 0 ? 0 : -1;
}

static void serve(int client) {
    char head[head_bytes], path[4096];
    size_t end = 0, count = read_head(client, head, &end);
    if (count == 0) return;
    long long length = content_length(head);
    if (length < 0 || (long long)(count - end) > length || !make_path(head, path, sizeof path)) return;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail(path);
    if (write(file, head + end, count - end) != (ssize_t)(count - end)) fail("write");
    long long rest = length - (long long)(count - end);
    int status = is_copying ? copy(client, file, rest) : move(client, file, rest);
    if (status == 0 && is_synchronous && fdatasync(file) != 0) fail("fdatasync");
    close(file);
    static const char answer[] = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if (status == 0) (void)!write(client, answer, sizeof answer - 1);
}

static void *run(void *argument) {
    int client = (int)(long)argument;
    serve(client);
    close(client);
    return NULL;
}

static int start_listening(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 1024) != 0)
        fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: %s DIRECTORY [sync] [copy]\n", arguments[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    directory = arguments[1];
    for (int index = 2; index < count; index++) {
        is_synchronous |= strcmp(arguments[index], "sync") == 0;
        is_copying |= strcmp(arguments[index], "copy") == 0;
    }
    int listener = start_listening();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) continue;
        pthread_t thread;
        if (pthread_create(&thread, &attributes, run, (void *)(long)client) != 0) fail("pthread_create");
    }
}
