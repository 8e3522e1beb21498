/// Whether the current task does work that frees space: a deletion, a revocation, a sweep.
///
/// On a full disk, what such work records may use the reserve that is kept for it. `DELETE` requests are taken for such work;
/// those that free nothing turn it off.
package enum FreeingWork {
    @TaskLocal package static var isRunning = false

    /// Whether such work only adds a record, like the revocation of one token, which anyone with a key can repeat without end.
    ///
    /// Half of the reserve is kept from it, for what frees space.
    @TaskLocal package static var onlyAdds = false
}
