#include "CLibraries.h"

#include <dlfcn.h>

const char *clibraries_load(const char *soname, const char *const names[], void *functions[], size_t count) {
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!library) return dlerror();
    for (size_t index = 0; index < count; index++) {
        functions[index] = dlsym(library, names[index]);
        if (!functions[index]) return dlerror();
    }
    return NULL;
}
