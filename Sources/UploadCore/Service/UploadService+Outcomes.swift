internal import Foundation
internal import Synchronization

/// What becomes of a record of which the state store does not say whether it made it.
extension UploadService {
    enum RecordOutcome {
        case recorded, notRecorded
        /// It may be there, or come yet: its blob must stay, and is an orphan of the sweep if it does not come.
        case unknown
    }

    /// Finds out whether a new upload was recorded.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - error: What its record failed with.
    /// - Returns: What is known after the state was asked again.
    func outcome(of id: UploadID, after error: UploadError) async -> RecordOutcome {
        switch error.code {
        case .storageFailure, .unavailable, .interrupted: break
        // Refused.
        default: return .notRecorded
        }
        for attempt in 1...Self.outcomeAttempts {
            do throws(UploadError) {
                if try await state.upload(id) != nil { return .recorded }
                // The connection may have been lost with a transaction that goes on.
                return error.code == .storageFailure ? .notRecorded : .unknown
            } catch {
                guard error.code == .unavailable, attempt < Self.outcomeAttempts else { return .unknown }
                try? await Task.sleep(for: .milliseconds(200))
            }
        }
        return .unknown
    }

    private static let outcomeAttempts = 3

    /// Keeps in mind, for the client's next attempt, what a one-time grant may have been spent on.
    func remember(_ upload: Upload, of grant: Grant) {
        untold.withLock { untold in
            // Those of clients that did not try again.
            if untold.count >= Self.mostUntold { untold = untold.filter { !isOver($0.value) } }
            if untold.count < Self.mostUntold { untold[grant.id] = upload }
        }
    }

    private static let mostUntold = 10_000

    /// The upload that an earlier attempt has spent a grant on without its client being told.
    ///
    /// - Parameters:
    ///   - upload: What the client asks for now.
    ///   - grant: One that is spent.
    /// - Returns: The open upload of that attempt, if it is what is asked for; nobody else gets it.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func recordedBefore(_ upload: Upload, by grant: Grant) async throws(UploadError) -> Upload? {
        guard let before = untold.withLock({ $0[grant.id] }), before.isAskedFor(by: upload),
            let recorded = try await state.upload(before.id), recorded.state == .open, !isOver(recorded)
        else { return nil }
        return untold.withLock { $0.removeValue(forKey: grant.id) } == nil ? nil : recorded
    }
}

extension Upload {
    /// Whether another attempt of the same request would make the same of it.
    fileprivate func isAskedFor(by other: Upload) -> Bool {
        dialect == other.dialect && subject == other.subject && length == other.length && metadata == other.metadata
            && concatenation == other.concatenation && expectedDigests == other.expectedDigests
            && objectName == other.objectName && takesParts == other.takesParts && attributes == other.attributes
            && completesWhenFull == other.completesWhenFull
    }
}
