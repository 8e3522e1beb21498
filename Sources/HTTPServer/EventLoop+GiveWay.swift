internal import Transport

extension EventLoop {
    /// Lets everything else on the loop have its turn.
    ///
    /// For a connection that always finds something to do because its peer sends as fast as it is read: it would never
    /// wait, and all others of its loop would.
    ///
    /// On the loop.
    func giveWay() async {
        await withUnsafeContinuation { continuation in
            execute { continuation.resume() }
        }
    }
}
