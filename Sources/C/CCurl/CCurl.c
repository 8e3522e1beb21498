#include "CCurl.h"

#include <CLibraries.h>
// Not netinet/tcp.h: its tcp_info lacks later members.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>

#define FUNCTIONS(EACH) \
    EACH(CURLcode, curl_global_init, (long flags), (flags), CURLE_FAILED_INIT) \
    EACH(CURL *, curl_easy_init, (void), (), NULL) \
    EACH(void, curl_easy_cleanup, (CURL *handle), (handle), (void)0) \
    EACH(CURLcode, curl_easy_pause, (CURL *handle, int directions), (handle, directions), CURLE_FAILED_INIT) \
    EACH(void, curl_free, (void *memory), (memory), (void)0) \
    EACH(CURLM *, curl_multi_init, (void), (), NULL) \
    EACH(CURLMcode, curl_multi_cleanup, (CURLM *multi), (multi), CURLM_BAD_HANDLE) \
    EACH(CURLMcode, curl_multi_add_handle, (CURLM *multi, CURL *handle), (multi, handle), CURLM_BAD_HANDLE) \
    EACH(CURLMcode, curl_multi_remove_handle, (CURLM *multi, CURL *handle), (multi, handle), CURLM_BAD_HANDLE) \
    EACH(CURLMcode, curl_multi_perform, (CURLM *multi, int *running), (multi, running), CURLM_BAD_HANDLE) \
    EACH(CURLMsg *, curl_multi_info_read, (CURLM *multi, int *left), (multi, left), NULL) \
    EACH(CURLMcode, curl_multi_poll, \
         (CURLM *multi, struct curl_waitfd sockets[], unsigned int count, int milliseconds, int *ready), \
         (multi, sockets, count, milliseconds, ready), CURLM_BAD_HANDLE) \
    EACH(CURLMcode, curl_multi_wakeup, (CURLM *multi), (multi), CURLM_BAD_HANDLE) \
    EACH(struct curl_slist *, curl_slist_append, (struct curl_slist *list, const char *text), (list, text), NULL) \
    EACH(void, curl_slist_free_all, (struct curl_slist *list), (list), (void)0) \
    EACH(CURLU *, curl_url, (void), (), NULL) \
    EACH(void, curl_url_cleanup, (CURLU *url), (url), (void)0) \
    EACH(CURLUcode, curl_url_set, (CURLU *url, CURLUPart part, const char *text, unsigned int flags), \
         (url, part, text, flags), CURLUE_OUT_OF_MEMORY)

#define MEMBERS(EACH) EACH(curl_easy_setopt) EACH(curl_easy_getinfo) EACH(curl_multi_setopt) EACH(curl_url_get)

CLIBRARIES_DEFINE("libcurl.so.4", FUNCTIONS, MEMBERS)

const char *ccurl_load(void) { return is_loaded() ? NULL : failure; }

CURLcode ccurl_set_long(CURL *handle, CURLoption option, long value) {
    return library.curl_easy_setopt(handle, option, value);
}

CURLcode ccurl_set_size(CURL *handle, CURLoption option, int64_t value) {
    return library.curl_easy_setopt(handle, option, (curl_off_t)value);
}

CURLcode ccurl_set_text(CURL *handle, CURLoption option, const char *value) {
    return library.curl_easy_setopt(handle, option, value);
}

CURLcode ccurl_set_pointer(CURL *handle, CURLoption option, void *value) {
    return library.curl_easy_setopt(handle, option, value);
}

CURLcode ccurl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
    return library.curl_easy_setopt(handle, option, value);
}

CURLcode ccurl_set_take_bytes(CURL *handle, CURLoption option, ccurl_take_bytes value) {
    return library.curl_easy_setopt(handle, option, value);
}

CURLcode ccurl_set_open_socket(CURL *handle, curl_opensocket_callback value) {
    return library.curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, value);
}

CURLcode ccurl_set_seek(CURL *handle, curl_seek_callback value) {
    return library.curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, value);
}

CURLcode ccurl_set_close_socket(CURL *handle, curl_closesocket_callback value) {
    return library.curl_easy_setopt(handle, CURLOPT_CLOSESOCKETFUNCTION, value);
}

CURLcode ccurl_set_before_request(CURL *handle, curl_prereq_callback value) {
    return library.curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, value);
}

CURLcode ccurl_set_progress(CURL *handle, curl_xferinfo_callback value) {
    return library.curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, value);
}

CURLcode ccurl_info_long(CURL *handle, CURLINFO info, long *value) {
    return library.curl_easy_getinfo(handle, info, value);
}

void ccurl_set_quick_exit(CURL *handle) {
#if LIBCURL_VERSION_NUM >= 0x075700
    (void)library.curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
#else
    (void)handle;
#endif
}

CURLMcode ccurl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return library.curl_multi_setopt(multi, option, value);
}

CURL *ccurl_next_ended(CURLM *multi, CURLcode *result) {
    int left = 0;
    CURLMsg *message;
    while ((message = curl_multi_info_read(multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE) continue;
        *result = message->data.result;
        return message->easy_handle;
    }
    return NULL;
}

CURLUcode ccurl_url_get(CURLU *url, CURLUPart part, char **text, unsigned int flags) {
    return library.curl_url_get(url, part, text, flags);
}

int64_t ccurl_bytes_read(curl_socket_t socket) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    int unread;
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) || ioctl(socket, FIONREAD, &unread)) return -1;
    if (size < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) return -1;
    return (int64_t)info.tcpi_bytes_received - unread;
}
