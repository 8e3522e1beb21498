/// Content of a request that is sent while it is made.
///
/// The client never asks for bytes of one request twice at a time. It lets go of the content when the request has ended; a
/// `read` that is under way while the request is cancelled ends a moment after the error is thrown.
package protocol HTTPRequestContent: AnyObject, Sendable {
    /// Bytes, at least 0; becomes Content-Length. Constant.
    var length: Int64 { get }

    /// Copies bytes of the content, from `offset` on.
    ///
    /// Called on the client's thread, which carries all its transfers, so it must not block.
    ///
    /// - Parameters:
    ///   - offset: In bytes; where the last read ended, or began if what it copied could not be used, or 0 when the request is
    ///     sent again: on another connection, because the other side had closed a kept one, or to the target of a redirect.
    ///   - buffer: Has room for at least one byte, and not for more than are left.
    /// - Returns: What was done; more bytes than there is room for count as `.failed`.
    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> HTTPContentRead

    /// Keeps `wake`, which is to be called, from any thread, when there is more (or a failure) after `read` has returned
    /// `.later`.
    ///
    /// Called once for each time that the content is given to the client, before the first read. To call `wake` too often,
    /// within `read`, or after the request has ended is harmless and cheap.
    func whenReadable(_ wake: @escaping @Sendable () -> Void)
}

/// What `HTTPRequestContent.read` has done.
package enum HTTPContentRead: Sendable, Equatable {
    /// So many were copied, at least 1.
    case bytes(Int)
    /// There is nothing yet; `wake` will be called.
    case later
    /// The rest will not come: the request ends with `.contentFailed` and its connection is closed.
    case failed
}
