/// OpenSSL 3 for Swift: the headers, and static inline wrappers (prefix `cossl_`) for macros.
#ifndef COPENSSL_SHIM_H
#define COPENSSL_SHIM_H

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/md5.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

static inline int cossl_set_min_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_min_proto_version(context, version);
}
static inline long cossl_set_mode(SSL_CTX *context, long mode) { return SSL_CTX_set_mode(context, mode); }
static inline uint64_t cossl_set_options(SSL_CTX *context, uint64_t options) {
    return SSL_CTX_set_options(context, options);
}
static inline void cossl_read_ahead(SSL_CTX *context) { SSL_CTX_set_read_ahead(context, 1); }
static inline long cossl_set_session_cache_mode(SSL_CTX *context, long mode) {
    return SSL_CTX_set_session_cache_mode(context, mode);
}

static inline long cossl_set_servername_callback(SSL_CTX *context, int (*callback)(SSL *, int *, void *)) {
    return SSL_CTX_set_tlsext_servername_callback(context, callback);
}

static const int cossl_tls1_2 = TLS1_2_VERSION;
static const long cossl_mode_partial_write = SSL_MODE_ENABLE_PARTIAL_WRITE;
static const long cossl_mode_moving_buffer = SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER;
static const long cossl_mode_release_buffers = SSL_MODE_RELEASE_BUFFERS;
static const uint64_t cossl_op_no_renegotiation = SSL_OP_NO_RENEGOTIATION;
static const uint64_t cossl_op_no_ticket = SSL_OP_NO_TICKET;
static const long cossl_session_cache_off = SSL_SESS_CACHE_OFF;
static const uint64_t cossl_op_no_compression = SSL_OP_NO_COMPRESSION;
static const uint64_t cossl_op_ignore_unexpected_eof = SSL_OP_IGNORE_UNEXPECTED_EOF;
static const uint64_t cossl_op_cipher_server_preference = SSL_OP_CIPHER_SERVER_PREFERENCE;

/// A new private key on P-256; null if OpenSSL cannot make one.
static inline EVP_PKEY *cossl_make_p256_key(void) { return EVP_EC_gen("P-256"); }

/// An HMAC context with a hash and without a key; null if OpenSSL does not offer it.
static inline EVP_MAC_CTX *cossl_hmac_context(const unsigned char *digest) {
    EVP_MAC *method = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = method == NULL ? NULL : EVP_MAC_CTX_new(method);
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)digest, 0), OSSL_PARAM_construct_end()};
    EVP_MAC_free(method); // the context holds its own reference
    if (context != NULL && EVP_MAC_CTX_set_params(context, parameters) != 1) {
        EVP_MAC_CTX_free(context);
        return NULL;
    }
    return context;
}

/// Gives an HMAC context a key, for SHA-256.
static inline int cossl_set_mac_key(EVP_MAC_CTX *context, const unsigned char *key, size_t count) {
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)key, count),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"sha256", 0), OSSL_PARAM_construct_end()};
    return EVP_MAC_CTX_set_params(context, parameters);
}

/// The compression function of MD5 (RFC 1321 §3.4) for whole blocks of 64 bytes; `registers` are A, B, C, D.
///
/// The newer interface cannot continue from given registers.
static inline void cossl_md5_blocks(void *registers, const void *message, size_t blocks) {
    uint32_t *values = (uint32_t *)registers;
    MD5_CTX context = {.A = values[0], .B = values[1], .C = values[2], .D = values[3]};
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
    MD5_Update(&context, message, blocks * MD5_CBLOCK);
#pragma clang diagnostic pop
    values[0] = context.A, values[1] = context.B, values[2] = context.C, values[3] = context.D;
}

#endif
