internal import Synchronization

/// The uploads that get bytes at this moment, on this node.
final class ActiveAppends: Sendable {
    private struct Append {
        /// As it was when the append began.
        let upload: Upload
        let request: RequestInfo?
        /// The offset that was last told.
        var told: Int64
    }

    private struct Contents {
        var appends: [UploadID: Append] = [:]
        /// What the clients of uploads that are being stopped are answered.
        var stops: [UploadID: HookAnswer] = [:]
    }

    private let contents = Mutex(Contents())

    func begin(_ upload: Upload) {
        let append = Append(upload: upload, request: RequestContext.current?.info, told: upload.offset)
        contents.withLock { $0.appends[upload.id] = append }
    }

    func end(_ id: UploadID) {
        contents.withLock { $0.appends[id] = nil }
    }

    /// As they were when their appends began.
    var uploads: [Upload] { contents.withLock { $0.appends.values.map(\.upload) } }

    /// Notes that `offset` is told.
    ///
    /// - Returns: The request that sends the bytes, if there is something new to tell.
    func tell(_ id: UploadID, at offset: Int64) -> (isNew: Bool, request: RequestInfo?) {
        contents.withLock { contents in
            guard let append = contents.appends[id], append.told < offset else { return (false, nil) }
            contents.appends[id]?.told = offset
            return (true, append.request)
        }
    }

    /// Marks an upload as one that is being stopped, until `body` is done.
    func stopping<Success>(
        _ id: UploadID,
        answer: HookAnswer,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        contents.withLock { $0.stops[id] = answer }
        defer { contents.withLock { $0.stops[id] = nil } }
        return try await body()
    }

    /// What the client of an upload is answered that is being stopped; `nil` if it is not.
    func stopAnswer(of id: UploadID) -> HookAnswer? { contents.withLock { $0.stops[id] } }
}
