/// The text of `openapi.yaml` at build time.
#ifndef COPENAPI_H
#define COPENAPI_H

#include <stddef.h>

/// Sets `*count` to the number of bytes; the bytes live as long as the program.
const unsigned char *copenapi_document(size_t *count);

#endif
