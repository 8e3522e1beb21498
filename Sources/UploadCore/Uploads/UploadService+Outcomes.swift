internal import Foundation
internal import Synchronization
internal import UploadModel

/// Handles records of which the state store cannot say whether they were written.
extension UploadService {
    enum RecordOutcome {
        case recorded, notRecorded
        /// It may exist, or appear later: its blob must stay; if the record never appears, the sweep treats the blob as
        /// an orphan.
        case unknown
    }

    /// Determines whether a new upload was recorded.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - error: The error with which recording it failed.
    /// - Returns: What is known after asking the state again.
    func outcome(of id: UploadID, after error: UploadError) async -> RecordOutcome {
        switch error.code {
        case .storageFailure, .unavailable, .interrupted: break
        // The state refused the record.
        default: return .notRecorded
        }
        for attempt in 1...Self.outcomeAttempts {
            do throws(UploadError) {
                if try await state.upload(id) != nil { return .recorded }
                // The connection may have been lost while the transaction continues.
                return error.code == .storageFailure ? .notRecorded : .unknown
            } catch {
                guard error.code == .unavailable, attempt < Self.outcomeAttempts else { return .unknown }
                try? await Task.sleep(for: .milliseconds(200))
            }
        }
        return .unknown
    }

    private static let outcomeAttempts = 3

    /// Remembers, for the client's next attempt, the upload that a one-time grant may have been used for.
    func remember(_ upload: Upload, of grant: Grant) {
        unreported.withLock { unreported in
            // These belong to clients that did not try again.
            if unreported.count >= Self.mostUnreported {
                unreported = unreported.filter { !lifecycle.isOver($0.value) }
            }
            if unreported.count < Self.mostUnreported { unreported[grant.id] = upload }
        }
    }

    private static let mostUnreported = 10_000

    /// The upload for which an earlier attempt used this grant without its client getting a response.
    ///
    /// - Parameters:
    ///   - upload: The upload that the client requests now.
    ///   - grant: A used grant.
    ///   - state: The state that the recorded upload must have.
    ///   - matches: Whether the recorded upload is what the client requests now.
    /// - Returns: The upload of that attempt, if it matches the request; it is returned only once.
    /// - Throws: `.unavailable`, `.storageFailure`.
    func recordedBefore(
        _ upload: Upload,
        by grant: Grant,
        as state: Upload.State = .open,
        if matches: (Upload) async throws(UploadError) -> Bool = { _ in true }
    ) async throws(UploadError) -> Upload? {
        guard let before = unreported.withLock({ $0[grant.id] }), before.isAskedFor(by: upload),
            let recorded = try await self.state.upload(before.id), recorded.state == state, !lifecycle.isOver(recorded)
        else { return nil }
        guard try await matches(recorded) else { return nil }
        return unreported.withLock { $0.removeValue(forKey: grant.id) } == nil ? nil : recorded
    }
}

extension Upload {
    /// Whether a repeated request would create the same upload.
    fileprivate func isAskedFor(by other: Upload) -> Bool {
        dialect == other.dialect && subject.isSameSubject(as: other.subject) && length == other.length
            && metadata == other.metadata
            && concatenation == other.concatenation && expectedDigests == other.expectedDigests
            && objectName == other.objectName && takesParts == other.takesParts && attributes == other.attributes
            && completesWhenFull == other.completesWhenFull
    }
}
