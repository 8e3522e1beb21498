/// Tells the thread sanitizer what it cannot see in Swift's own libraries; only for tests, in no product.
///
/// Those libraries are not instrumented. Without this, the sanitizer reports correct programs: values protected by a contended
/// `Synchronization.Mutex`, and values returned by a continuation that is resumed before its task waits. Linking this is
/// enough; nothing has to be called. Without the thread sanitizer it is empty.
#ifndef CTHREADSANITIZER_H
#define CTHREADSANITIZER_H
#endif
