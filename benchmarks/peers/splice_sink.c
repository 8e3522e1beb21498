/* The least that a server can do: takes one PUT after the other and splices its content from the socket into a file,
   without a copy in user space. What an upload server can be compared with; no server for anything else.

       splice_sink DIRECTORY [sync] [copy]

   Listens on a free port of 127.0.0.1 and prints it. With `sync` the file is forced to disk (fdatasync) before the answer.
   With `copy` the content goes through a buffer by read and write instead.
   Needs a Content-Length; the file is DIRECTORY/upload. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { pipe_bytes = 1 << 20, head_bytes = 16384 };

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

/* Moves `length` bytes from the socket into the file; 0 if all came. */
static int receive(int client, int file, const int *ends, long long length) {
    while (length > 0) {
        ssize_t in = splice(client, NULL, ends[1], NULL, length < pipe_bytes ? (size_t)length : pipe_bytes,
                            SPLICE_F_MOVE | SPLICE_F_MORE);
        if (in < 0 && errno == EINTR) continue;
        if (in <= 0) return -1;
        length -= in;
        while (in > 0) {
            ssize_t out = splice(ends[0], NULL, file, NULL, (size_t)in, SPLICE_F_MOVE | SPLICE_F_MORE);
            if (out < 0 && errno == EINTR) continue;
            if (out <= 0) fail("splice to file");
            in -= out;
        }
    }
    return 0;
}

/* The same by read and write through a buffer, as most servers do it. */
static int copy(int client, int file, long long length) {
    static char buffer[256 << 10];
    while (length > 0) {
        ssize_t in = recv(client, buffer, length < (long long)sizeof buffer ? (size_t)length : sizeof buffer, 0);
        if (in < 0 && errno == EINTR) continue;
        if (in <= 0) return -1;
        length -= in;
        for (ssize_t done = 0; done < in;) {
            ssize_t out = write(file, buffer + done, (size_t)(in - done));
            if (out < 0 && errno == EINTR) continue;
            if (out <= 0) fail("write to file");
            done += out;
        }
    }
    return 0;
}

static void serve(int client, const char *path, const int *ends, int is_synchronous, int is_copying) {
    static char head[head_bytes];
    size_t end = 0, count = read_head(client, head, &end);
    if (count == 0) return;
    long long length = content_length(head);
    if (length < 0 || (long long)(count - end) > length) return;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail(path);
    if (write(file, head + end, count - end) != (ssize_t)(count - end)) fail("write");
    long long rest = length - (long long)(count - end);
    int status = is_copying ? copy(client, file, rest) : receive(client, file, ends, rest);
    if (status == 0 && is_synchronous && fdatasync(file) != 0) fail("fdatasync");
    close(file);
    static const char answer[] = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if (status == 0) (void)!write(client, answer, sizeof answer - 1);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: %s DIRECTORY [sync] [copy]\n", arguments[0]);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    char path[4096];
    snprintf(path, sizeof path, "%s/upload", arguments[1]);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
    fcntl(ends[1], F_SETPIPE_SZ, pipe_bytes);

    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 16) != 0)
        fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);

    int is_synchronous = 0, is_copying = 0;
    for (int index = 2; index < count; index++) {
        is_synchronous |= strcmp(arguments[index], "sync") == 0;
        is_copying |= strcmp(arguments[index], "copy") == 0;
    }
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) continue;
        serve(client, path, ends, is_synchronous, is_copying);
        close(client);
    }
}
