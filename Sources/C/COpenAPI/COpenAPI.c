#include "COpenAPI.h"

// As a Swift array literal, which SwiftPM's `embedInCode` writes, it takes longer to compile than any module.
#pragma clang diagnostic ignored "-Wc23-extensions"
static const unsigned char document[] = {
#embed "../../../openapi.yaml"
};

const unsigned char *copenapi_document(size_t *count) {
    *count = sizeof document;
    return document;
}
