internal import Foundation
package import UploadModel

extension UploadError.Code {
    /// One sample of each code, for tests of the error tables of dialects.
    package static let samples: [UploadError.Code] = [
        .invalidRequest, .unauthenticated, .forbidden(scope: nil), .forbidden(scope: "upload"), .notFound, .gone,
        .offsetMismatch(expected: 42), .lengthConflict(length: 42), .lengthExceeded(length: 42), .tooLarge(limit: 42),
        .contentTypeRefused, .checksumMismatch, .digestMismatch, .unsupportedChecksum(offered: ["sha1"]), .notOpen,
        .conditionFailed, .invalidParts(.empty), .grantUsed, .interrupted, .busy,
        .quotaExceeded(refusal(resetsAt: nil)), .quotaExceeded(refusal(resetsAt: .distantFuture)),
        .tooManyRequests(RateRefusal(.key, seconds: 2)), .rejected,
        .timedOut, .disconnected, .storageFull, .storageFailure, .finishing, .unavailable,
    ]

    private static func refusal(resetsAt: Date?) -> QuotaRefusal {
        QuotaRefusal(
            account: Account(.subject, "alice"),
            measure: resetsAt == nil ? .storedBytes : .periodBytes,
            limit: 10,
            used: 7,
            wanted: 5,
            resetsAt: resetsAt
        )
    }
}
