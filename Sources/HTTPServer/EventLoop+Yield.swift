internal import Transport

extension EventLoop {
    /// Lets everything else on the loop run first.
    ///
    /// For a connection that always has work because its peer sends as fast as it is read. Otherwise it would never
    /// wait, and all other connections of its loop would starve.
    ///
    /// Must be called on the loop.
    func yield() async {
        await withUnsafeContinuation { continuation in
            execute { continuation.resume() }
        }
    }
}
