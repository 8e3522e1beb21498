internal import Synchronization

/// The uploads that get bytes at this moment, on this node.
final class ActiveAppends: Sendable {
    private struct Append {
        /// As it was when the append began.
        let upload: Upload
        let request: RequestInfo?
        let beganAt: ContinuousClock.Instant
        /// The offset that was last told.
        var told: Int64
    }

    private struct Contents {
        var appends: [UploadID: Append] = [:]
        /// What the clients of uploads that are being stopped are answered.
        var stops: [UploadID: HookAnswer] = [:]
        /// Appends that ended since somebody looked.
        var ended: [UploadID: RunningAppend] = [:]
        var lookedAt: ContinuousClock.Instant?
    }

    private let contents = Mutex(Contents())

    func begin(_ upload: Upload) {
        let append = Append(
            upload: upload,
            request: RequestContext.current?.info,
            beganAt: .now,
            told: upload.offset
        )
        contents.withLock { $0.appends[upload.id] = append }
    }

    func end(_ id: UploadID) {
        contents.withLock { contents in
            guard let append = contents.appends.removeValue(forKey: id) else { return }
            // Kept for one who looks again and again.
            if let lookedAt = contents.lookedAt, .now - lookedAt < Self.longestLook {
                contents.ended[id] = RunningAppend(upload: append.upload, beganAt: append.beganAt)
            } else {
                contents.ended = [:]
            }
        }
    }

    /// The offset at which an append began that runs.
    func start(of id: UploadID) -> Int64? { contents.withLock { $0.appends[id]?.upload.offset } }

    /// As they were when their appends began.
    var uploads: [Upload] { contents.withLock { $0.appends.values.map(\.upload) } }

    /// Those that run, and those that ended since the last look: of a client that sends one short request after another,
    /// none may run at the moment.
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

    /// Who has not looked for so long does not look any more.
    private static let longestLook = Duration.seconds(5)

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
