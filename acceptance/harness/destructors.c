/* Preloaded: says when the destructors of libraries run. */
#include <unistd.h>

__attribute__((destructor)) static void end(void) {
    static const char message[] = "destructors\n";
    (void)!write(2, message, sizeof message - 1);
}
