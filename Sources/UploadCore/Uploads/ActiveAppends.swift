internal import Synchronization
internal import UploadModel

/// Uploads that are receiving bytes now, on this node.
final class ActiveAppends: Sendable {
    private struct Append {
        /// The upload when the append began.
        let upload: Upload
        let request: RequestInfo?
        let beganAt: ContinuousClock.Instant
        /// The offset that the last progress event reported; at first where the append began.
        var reportedOffset: Int64
    }

    private struct Contents {
        var appends: [UploadID: Append] = [:]
        /// Responses for the clients of uploads that are being stopped.
        var stops: [UploadID: HookResponse] = [:]
        /// Appends that ended since the last call of `look`.
        var ended: [UploadID: RunningAppend] = [:]
        var lookedAt: ContinuousClock.Instant?
    }

    private let contents = Mutex(Contents())

    func begin(_ upload: Upload) {
        let append = Append(
            upload: upload,
            request: RequestContext.current?.info,
            beganAt: .now,
            reportedOffset: upload.offset
        )
        contents.withLock { $0.appends[upload.id] = append }
    }

    func end(_ id: UploadID) {
        contents.withLock { contents in
            guard let append = contents.appends.removeValue(forKey: id) else { return }
            // Kept only while a caller looks repeatedly.
            if let lookedAt = contents.lookedAt, .now - lookedAt < Self.longestLook {
                contents.ended[id] = RunningAppend(upload: append.upload, beganAt: append.beganAt)
            } else {
                contents.ended = [:]
            }
        }
    }

    /// The offset at which the running append began.
    func start(of id: UploadID) -> Int64? { contents.withLock { $0.appends[id]?.upload.offset } }

    /// Uploads with a running append, as they were when it began.
    var uploads: [Upload] { contents.withLock { $0.appends.values.map(\.upload) } }

    /// Running appends, and those that ended since the last call: with a client that sends one short request after
    /// another, none may be running right now.
    func look() -> [RunningAppend] {
        contents.withLock { contents in
            var found = contents.ended
            for (id, append) in contents.appends {
                found[id] = RunningAppend(upload: append.upload, beganAt: append.beganAt)
            }
            contents.ended = [:]
            contents.lookedAt = .now
            return Array(found.values)
        }
    }

    /// After this time without a call, a caller no longer counts as looking.
    private static let longestLook = Duration.seconds(5)

    /// Records that `offset` is being reported.
    ///
    /// - Returns: Whether the offset is new, and the request that sends the bytes.
    func report(_ id: UploadID, at offset: Int64) -> (isNew: Bool, request: RequestInfo?) {
        contents.withLock { contents in
            guard let append = contents.appends[id], append.reportedOffset < offset else { return (false, nil) }
            contents.appends[id]?.reportedOffset = offset
            return (true, append.request)
        }
    }

    /// Marks an upload as being stopped until `body` returns.
    func stopping<Success>(
        _ id: UploadID,
        response: HookResponse,
        _ body: () async throws(UploadError) -> Success
    ) async throws(UploadError) -> Success {
        contents.withLock { $0.stops[id] = response }
        defer { contents.withLock { $0.stops[id] = nil } }
        return try await body()
    }

    /// The response for the client of an upload that is being stopped; `nil` if it is not.
    func stopResponse(of id: UploadID) -> HookResponse? { contents.withLock { $0.stops[id] } }
}
