internal import Foundation

/// An append that runs on this node, or did a moment ago.
package struct RunningAppend: Sendable {
    /// As it was when the append began.
    package let upload: Upload
    package let beganAt: ContinuousClock.Instant
}

/// What those need who follow uploads live.
extension UploadService {
    /// - Throws: `.storageFailure`, `.unavailable`.
    package func events(_ query: EventQuery) async throws(UploadError) -> [EventRecord] {
        try await reporting(nil) { () async throws(UploadError) -> [EventRecord] in try await state.events(query) }
    }

    /// The sequence of the newest event; 0 if there is none.
    ///
    /// - Throws: `.storageFailure`, `.unavailable`.
    package func lastEvent() async throws(UploadError) -> Int64 {
        try await reporting(nil) { () async throws(UploadError) -> Int64 in try await state.lastEvent() }
    }

    /// Whether all events after `sequence` are there to be read; `false` also for one that this server never gave.
    ///
    /// - Throws: `.storageFailure`, `.unavailable`.
    package func keepsEvents(after sequence: Int64) async throws(UploadError) -> Bool {
        try await reporting(nil) { () async throws(UploadError) -> Bool in
            let newest = try await state.lastEvent()
            guard sequence < newest, sequence >= 0 else { return sequence == newest }
            // Events are forgotten by their age, which grows with them: none is missing behind one that is not old.
            guard let next = try await state.events(EventQuery(after: sequence, limit: 1)).first else { return false }
            return next.sequence == sequence + 1
                && next.occurredAt >= now.addingTimeInterval(-limits.recordRetention)
        }
    }

    /// Appends that run, and those that ended since the last call; for one who calls again and again.
    package func lookAtAppends() -> [RunningAppend] { appends.look() }

    /// Bytes that an open upload has now, which may not be durable; `nil` if there is none, or the storage can not tell.
    package func currentLength(of id: UploadID) async -> Int64? { try? await storage.currentLength(of: id) }

    /// The upload with this id, or else the one to which the app gave this name.
    ///
    /// - Returns: `nil` if there is neither.
    /// - Throws: `.storageFailure`, `.unavailable`.
    package func identify(_ name: String) async throws(UploadError) -> UploadID? {
        try await reporting(nil) { () async throws(UploadError) -> UploadID? in
            if let id = UploadID(name), try await state.upload(id) != nil { return id }
            return try await state.upload(alias: name)
        }
    }
}
