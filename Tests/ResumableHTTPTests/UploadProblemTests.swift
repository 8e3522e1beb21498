import Foundation
import HTTPWire
import SluiceTesting
import Testing
import UploadModel

@testable import ResumableHTTP

@Suite("Error table of Resumable Uploads", .timeLimit(.minutes(10)))
struct UploadProblemTests {
    /// Status, and whether the connection ends.
    private static func expected(_ code: UploadError.Code) -> (Int, closes: Bool) {
        // Exhaustive on purpose, like `UploadError.Code.samples`: a new error is added to both.
        switch code {
        case .invalidRequest, .lengthConflict, .lengthExceeded, .checksumMismatch, .digestMismatch,
            .unsupportedChecksum, .notOpen, .invalidParts, .rejected:
            (400, false)
        case .unauthenticated: (401, false)
        case .forbidden, .grantUsed: (403, false)
        case .notFound: (404, false)
        case .offsetMismatch: (409, false)
        case .gone: (410, false)
        case .conditionFailed: (412, false)
        case .tooLarge: (413, false)
        case .contentTypeRefused: (415, false)
        case .quotaExceeded(let refusal): (refusal.resetsAt == nil ? 403 : 429, false)
        case .tooManyRequests: (429, false)
        case .interrupted: (409, true)
        case .disconnected: (400, true)
        case .timedOut: (408, true)
        case .busy, .finishing: (503, false)
        case .unavailable: (503, true)
        case .storageFull: (507, false)
        case .storageFailure: (500, false)
        }
    }

    @Test("each error has its status, its code and its effect on the connection", arguments: UploadError.Code.samples)
    func table(code: UploadError.Code) throws {
        let (status, closes) = Self.expected(code)
        let response = UploadProblem(UploadError(code, "Text.")).response(requestID: "r-1")
        #expect(response.status.code == status)
        #expect(response.closesConnection == closes)
        #expect(response.fields["Content-Type"] == "application/problem+json")
        #expect(response.fields["Cache-Control"] == "no-store")
        let problem = try response.problem
        #expect(problem["status"] as? Int == status)
        #expect(problem["code"] as? String == code.name)
        #expect(problem["requestId"] as? String == "r-1")
        #expect((problem["detail"] as? String)?.hasPrefix("Text.") == true)
    }

    @Test(
        "temporary failures are not 4xx, after which clients stop",
        arguments: [
            UploadError.Code.busy, .finishing, .unavailable,
        ]
    )
    func transient(code: UploadError.Code) {
        #expect(UploadProblem(UploadError(code, "Text.")).response(requestID: "r").fields["Retry-After"] == "1")
    }

    @Test("the problems of the draft have their types, and an offset is a member")
    func types() throws {
        let registry = "https://iana.org/assignments/http-problem-types#"
        let offset = try UploadProblem(UploadError(.offsetMismatch(expected: 42), "T.")).response(requestID: "r")
            .problem
        #expect(offset["type"] as? String == registry + "mismatching-upload-offset")
        #expect(offset["expected-offset"] as? Int == 42)
        let length = try UploadProblem(UploadError(.lengthConflict(length: 1), "T.")).response(requestID: "r").problem
        #expect(length["type"] as? String == registry + "inconsistent-upload-length")
        let complete = try UploadProblem(UploadError(.notOpen, "T.")).response(requestID: "r").problem
        #expect(complete["type"] as? String == registry + "completed-upload")
        let other = try UploadProblem(UploadError(.notFound, "T.")).response(requestID: "r").problem
        #expect(other["type"] as? String == "about:blank")
    }

    @Test("the cause of an error is not sent")
    func cause() throws {
        let inner = UploadError(.storageFailure, "/var/lib/secret")
        let response = UploadProblem(UploadError(.storageFailure, "Text.", cause: inner)).response(requestID: "r")
        #expect(try response.problem["detail"] as? String == "Text.")
    }
}
