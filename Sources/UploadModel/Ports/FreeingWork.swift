/// Whether the current task does work that frees space: a deletion, a revocation, a sweep.
///
/// On a full disk, what such work records may use the reserve that is kept for it.
package enum FreeingWork {
    @TaskLocal package static var isRunning = false
}
