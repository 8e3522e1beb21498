/// Streamed content of a request.
///
/// The client never reads the content of one request concurrently. It releases the content when the request has ended;
/// a `read` that is running when the request is cancelled can end shortly after the error is thrown.
package protocol HTTPRequestContent: AnyObject, Sendable {
    /// Length in bytes, at least 0, sent as Content-Length. Must not change.
    var length: Int64 { get }

    /// Copies bytes of the content from `offset`.
    ///
    /// Called on the client's thread, which runs all its transfers, so it must not block.
    ///
    /// - Parameters:
    ///   - offset: In bytes. Usually where the last read ended; where it began, if the copied bytes could not be used;
    /// or 0 if the
    ///     request is sent again, because the server had closed a reused connection or for a redirect.
    ///   - buffer: Has room for at least one byte, and at most for the remaining ones.
    /// - Returns: The result; more bytes than the buffer has room for count as `.failed`.
    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> HTTPContentRead

    /// Stores `wake`. The content must call it, from any thread, when there is more content (or a failure) after `read`
    /// returned `.later`.
    ///
    /// Called each time the content is passed to the client, before the first read. Extra calls of `wake` are harmless
    /// and cheap, also within `read` or after the request has ended.
    func whenReadable(_ wake: @escaping @Sendable () -> Void)
}

/// The result of `HTTPRequestContent.read`.
package enum HTTPContentRead: Sendable, Equatable {
    /// This many bytes were copied, at least 1.
    case bytes(Int)
    /// Nothing is available yet; the content will call `wake`.
    case later
    /// The rest is not available: the request ends with `.contentFailed` and its connection is closed.
    case failed
}
