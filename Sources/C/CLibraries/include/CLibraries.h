/// Shared libraries that are loaded at the first call of one of their functions.
///
/// A library that brings many others costs each start, and each call of `sluice health`, milliseconds for what it does not use.
/// A file that includes this defines the functions of its library under their own names, so that callers need not know.
/// They are hidden, so that the library itself keeps its own.
#ifndef CLIBRARIES_H
#define CLIBRARIES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/// Loads a library and looks its functions up, in this order; returns why that failed, or null.
const char *clibraries_load(const char *soname, const char *const names[], void *functions[], size_t count);

/// A note in the program that packagers read to find the library: https://systemd.io/ELF_DLOPEN_METADATA/.
#define CLIBRARIES_NOTE(soname) CLIBRARIES_NOTE_TEXT("[{\"soname\":[\"" soname "\"],\"priority\":\"required\"}]")
#define CLIBRARIES_NOTE_TEXT(content) \
    static const struct { \
        uint32_t nameSize, textSize, type; \
        char name[4]; \
        _Alignas(4) char text[sizeof(content)]; \
    } note __attribute__((used, section(".note.dlopen"))) = {4, sizeof(content), 0x407c0c0a, "FDO", content}

/// Defines `library` and its functions. `FUNCTIONS(EACH)` has a line for each: `EACH(type of the result, name, (parameters),
/// (arguments), result without the library)`. `MEMBERS(EACH)` has the names of those that can take further arguments or that
/// differ between versions: they are only members of `library`, to be called with what another function of it has made.
#define CLIBRARIES_DEFINE(soname, FUNCTIONS, MEMBERS) \
    CLIBRARIES_NOTE(soname); \
    static struct { \
        FUNCTIONS(CLIBRARIES_FUNCTION_MEMBER) \
        MEMBERS(CLIBRARIES_MEMBER) \
    } library; \
    static const char *const names[] = {FUNCTIONS(CLIBRARIES_FUNCTION_NAME) MEMBERS(CLIBRARIES_NAME)}; \
    static const char *failure; \
    static pthread_once_t once = PTHREAD_ONCE_INIT; \
    static void load_once(void) { \
        failure = clibraries_load(soname, names, (void **)&library, sizeof names / sizeof *names); \
    } \
    static int is_loaded(void) { \
        pthread_once(&once, load_once); \
        return failure == NULL; \
    } \
    FUNCTIONS(CLIBRARIES_FUNCTION)

#define CLIBRARIES_MEMBER(name) __typeof__(name) *name;
#define CLIBRARIES_NAME(name) #name,
#define CLIBRARIES_FUNCTION_MEMBER(result, name, parameters, arguments, otherwise) CLIBRARIES_MEMBER(name)
#define CLIBRARIES_FUNCTION_NAME(result, name, parameters, arguments, otherwise) CLIBRARIES_NAME(name)
#define CLIBRARIES_FUNCTION(result, name, parameters, arguments, otherwise) \
    __attribute__((visibility("hidden"))) result name parameters { \
        return is_loaded() ? library.name arguments : otherwise; \
    }

#endif
