/* A link with delay: passes on each connection, and holds back what comes for some time in each direction.

       delay PORT MICROSECONDS

   Listens on a free port of 127.0.0.1, prints it, and connects to PORT there. Bytes are held one after the other, so the delay does not
   limit the rate. For few connections: each turn looks at all of them. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { chunk_bytes = 64 << 10, held_chunks = 256, most_links = 512 };

struct chunk {
    long long due;
    size_t count, sent;
    char bytes[chunk_bytes];
};

/* One direction of a connection. `head` and `tail` count chunks for ever; the difference is what is held. */
struct link {
    int from, to, is_ended;
    unsigned head, tail;
    struct chunk *chunks[held_chunks];
};

static struct link links[most_links];
static int link_count;

static void fail(const char *call) {
    perror(call);
    exit(1);
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void send_at_once(int socket) {
    int one = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void add(int from, int to) {
    struct link *link = &links[link_count++];
    memset(link, 0, sizeof *link);
    link->from = from;
    link->to = to;
}

static void take_connection(int listener, const struct sockaddr_in *target) {
    int client = accept4(listener, 0, 0, SOCK_NONBLOCK);
    if (client < 0) return;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (link_count + 2 > most_links || connect(server, (const struct sockaddr *)target, sizeof *target)) {
        close(client);
        close(server);
        return;
    }
    send_at_once(client);
    send_at_once(server);
    add(client, server);
    add(server, client);
}

static void receive(struct link *link, long long delay) {
    struct chunk *chunk = malloc(sizeof *chunk);
    if (!chunk) fail("malloc");
    ssize_t got = recv(link->from, chunk->bytes, chunk_bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        free(chunk);
        return;
    }
    /* The end is held back, too: an empty chunk. */
    chunk->count = got > 0 ? (size_t)got : 0;
    chunk->sent = 0;
    chunk->due = now() + delay;
    link->is_ended = got <= 0;
    link->chunks[link->tail++ % held_chunks] = chunk;
}

/* Sends what is due. */
static void pass_on(struct link *link) {
    while (link->head != link->tail) {
        struct chunk *chunk = link->chunks[link->head % held_chunks];
        if (chunk->due > now()) return;
        if (!chunk->count) shutdown(link->to, SHUT_WR);
        while (chunk->sent < chunk->count) {
            ssize_t sent = send(link->to, chunk->bytes + chunk->sent, chunk->count - chunk->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0 && errno == EAGAIN) {
                /* The peer is slow: try again soon. */
                chunk->due = now() + 100000;
                return;
            }
            if (sent < 0) {
                link->is_ended = 1;
                break;
            }
            chunk->sent += (size_t)sent;
        }
        free(chunk);
        link->head++;
    }
}

/* Links are pairs; a pair goes when both directions have ended. */
static void remove_ended(void) {
    for (int index = 0; index < link_count; index += 2) {
        struct link *there = &links[index], *back = &links[index + 1];
        if (!there->is_ended || !back->is_ended || there->head != there->tail || back->head != back->tail) continue;
        close(there->from);
        close(there->to);
        link_count -= 2;
        links[index] = links[link_count];
        links[index + 1] = links[link_count + 1];
        index -= 2;
    }
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: delay PORT MICROSECONDS\n");
        return 2;
    }
    long long delay = atoll(arguments[2]) * 1000;
    struct sockaddr_in target = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(arguments[1]))};
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    signal(SIGPIPE, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t size = sizeof address;
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 256)) fail("listen");
    if (getsockname(listener, (struct sockaddr *)&address, &size)) fail("getsockname");
    printf("listening on http://127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);

    static struct pollfd polled[most_links + 1];
    for (;;) {
        polled[0] = (struct pollfd){.fd = listener, .events = POLLIN};
        long long next = -1;
        for (int index = 0; index < link_count; index++) {
            struct link *link = &links[index];
            int has_room = !link->is_ended && link->tail - link->head < held_chunks;
            polled[index + 1] = (struct pollfd){.fd = has_room ? link->from : -1, .events = POLLIN};
            if (link->head == link->tail) continue;
            long long due = link->chunks[link->head % held_chunks]->due;
            if (next < 0 || due < next) next = due;
        }
        long long wait = next < 0 ? -1 : next - now();
        if (next >= 0 && wait < 0) wait = 0;
        struct timespec timeout = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        int polled_links = link_count;
        if (ppoll(polled, (nfds_t)polled_links + 1, wait < 0 ? 0 : &timeout, 0) < 0 && errno != EINTR) fail("ppoll");
        for (int index = 0; index < polled_links; index++) {
            if (polled[index + 1].revents) receive(&links[index], delay);
            pass_on(&links[index]);
        }
        remove_ended();
        if (polled[0].revents) take_connection(listener, &target);
    }
}
