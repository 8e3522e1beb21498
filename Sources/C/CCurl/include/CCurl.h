/// libcurl for Swift: the headers, and functions (prefix `ccurl_`) for what is variadic or a union there.
///
/// The library is loaded at the first call of one of its functions: it brings twenty others, and a command that sends
/// no request starts without them.
#ifndef CCURL_H
#define CCURL_H

// The type checks are macros that do not work with a variable option.
#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/// Takes `size * count` bytes; returns how many it took.
typedef size_t (*ccurl_take_bytes)(char *bytes, size_t size, size_t count, void *context);

/// Loads the library, once; returns why that is not possible, or null. Without the library each function fails.
const char *ccurl_load(void);

CURLcode ccurl_set_long(CURL *handle, CURLoption option, long value);
CURLcode ccurl_set_size(CURL *handle, CURLoption option, int64_t value);
CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value);
CURLcode ccurl_set_pointer(CURL *handle, CURLoption option, void *value);
CURLcode ccurl_set_list(CURL *handle, CURLoption option, struct curl_slist *value);
CURLcode ccurl_set_take_bytes(CURL *handle, CURLoption option, ccurl_take_bytes value);
CURLcode ccurl_set_open_socket(CURL *handle, curl_opensocket_callback value);
CURLcode ccurl_set_seek(CURL *handle, curl_seek_callback value);
CURLcode ccurl_set_close_socket(CURL *handle, curl_closesocket_callback value);
CURLcode ccurl_set_before_request(CURL *handle, curl_prereq_callback value);
/// Called while a transfer goes on, with content or without; ends it by returning another number than 0.
CURLcode ccurl_set_progress(CURL *handle, curl_xferinfo_callback value);
CURLcode ccurl_info_long(CURL *handle, CURLINFO info, long *value);
/// A cancelled transfer does not wait for a running name look-up. Older versions of libcurl lack this option.
void ccurl_set_quick_exit(CURL *handle);
CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value);

/// The next finished transfer and its result, or null if no transfer has finished.
CURL *ccurl_next_ended(CURLM *multi, CURLcode *result);

CURLUcode ccurl_url_get(CURLU *url, CURLUPart part, char **text, unsigned int flags);

/// How many bytes were read from a TCP connection since it began; -1 if the system does not tell.
int64_t ccurl_bytes_read(curl_socket_t socket);

/// Copies the numeric address, in network order, to `bytes` (room for 16); returns 4, 16, or 0 for another family.
static inline size_t ccurl_address_bytes(const struct curl_sockaddr *address, uint8_t *bytes) {
    // Offsets of RFC 3493 §3.3 and of sockaddr_in, without the headers that clash with Swift's own modules.
    const uint8_t *raw = (const uint8_t *)&address->addr;
    if (address->family == AF_INET) return memcpy(bytes, raw + 4, 4), 4;
    if (address->family == AF_INET6) return memcpy(bytes, raw + 8, 16), 16;
    return 0;
}

/// Opens a socket for that address, closed on exec; `CURL_SOCKET_BAD` with `errno` on failure.
static inline curl_socket_t ccurl_open_socket(const struct curl_sockaddr *address) {
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/// The local and remote port of a connection; returns 0, or -1 with `errno`.
static inline int ccurl_socket_ports(curl_socket_t socket, int32_t *local, int32_t *remote) {
    // RFC 3493 §3.3: the port, in network order, is at the same place in sockaddr_in and sockaddr_in6.
    struct sockaddr_storage ends[2];
    socklen_t sizes[2] = {sizeof ends[0], sizeof ends[1]};
    if (getsockname(socket, (struct sockaddr *)&ends[0], &sizes[0])) return -1;
    if (getpeername(socket, (struct sockaddr *)&ends[1], &sizes[1])) return -1;
    const uint8_t *raw[2] = {(const uint8_t *)&ends[0], (const uint8_t *)&ends[1]};
    *local = raw[0][2] << 8 | raw[0][3];
    *remote = raw[1][2] << 8 | raw[1][3];
    return 0;
}

static const size_t ccurl_pause = CURL_WRITEFUNC_PAUSE;
static const size_t ccurl_read_pause = CURL_READFUNC_PAUSE;
static const size_t ccurl_read_abort = CURL_READFUNC_ABORT;
static const int ccurl_request_goes = CURL_PREREQFUNC_OK;
static const int ccurl_seek_done = CURL_SEEKFUNC_OK;
static const int ccurl_seek_failed = CURL_SEEKFUNC_FAIL;
static const curl_socket_t ccurl_bad_socket = CURL_SOCKET_BAD;

#endif
