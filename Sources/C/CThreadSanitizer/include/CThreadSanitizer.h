/// Tells the thread sanitizer what it can not see in Swift's own libraries; for tests only, in no product.
///
/// Those libraries are not instrumented. Without this, correct programs are reported: values under a contended
/// `Synchronization.Mutex`, and values handed back by a continuation that is resumed before its task waits. Nothing has
/// to be called: being linked is enough. Without the thread sanitizer this is empty.
#ifndef CTHREADSANITIZER_H
#define CTHREADSANITIZER_H
#endif
