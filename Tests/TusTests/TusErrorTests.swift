import Bytes
import Foundation
import HTTPWire
import SluiceTesting
import Testing
import UploadModel

@testable import Tus

@Suite("Error table", .timeLimit(.minutes(10)))
struct TusErrorTests {
    /// The response to a PATCH for each error: status, code, and whether the connection ends.
    private static func expected(_ code: UploadError.Code) -> (Int, String, closes: Bool) {
        // Exhaustive on purpose, like `UploadError.Code.samples`: a new error is added to both.
        switch code {
        case .invalidRequest: (400, "ERR_INVALID_REQUEST", false)
        case .unauthenticated: (401, "ERR_UNAUTHENTICATED", false)
        case .forbidden: (403, "ERR_FORBIDDEN", false)
        case .notFound: (404, "ERR_UPLOAD_NOT_FOUND", false)
        case .gone: (410, "ERR_UPLOAD_GONE", false)
        case .offsetMismatch: (409, "ERR_MISMATCHED_OFFSET", false)
        case .lengthConflict: (400, "ERR_INVALID_UPLOAD_LENGTH", false)
        case .lengthExceeded: (413, "ERR_UPLOAD_SIZE_EXCEEDED", false)
        case .tooLarge: (413, "ERR_MAX_SIZE_EXCEEDED", false)
        case .contentTypeRefused: (415, "ERR_CONTENT_TYPE_REFUSED", false)
        case .checksumMismatch: (460, "ERR_CHECKSUM_MISMATCH", false)
        case .digestMismatch: (400, "ERR_DIGEST_MISMATCH", false)
        case .unsupportedChecksum: (400, "ERR_UNSUPPORTED_CHECKSUM", false)
        case .notOpen: (403, "ERR_FINAL_UPLOAD", false)
        case .conditionFailed: (412, "ERR_CONDITION_FAILED", false)
        case .invalidParts: (400, "ERR_INVALID_PARTS", false)
        case .grantUsed: (403, "ERR_GRANT_USED", false)
        case .quotaExceeded(let refusal): (refusal.resetsAt == nil ? 403 : 429, "ERR_QUOTA_EXCEEDED", false)
        case .tooManyRequests: (429, "ERR_TOO_MANY_REQUESTS", false)
        case .rejected: (400, "ERR_REJECTED", false)
        case .interrupted: (423, "ERR_UPLOAD_INTERRUPTED", true)
        case .busy: (423, "ERR_UPLOAD_LOCKED", false)
        case .timedOut: (408, "ERR_READ_TIMEOUT", true)
        case .disconnected: (400, "ERR_BODY_INCOMPLETE", true)
        case .storageFull: (507, "ERR_STORAGE_FULL", false)
        case .storageFailure: (500, "ERR_STORAGE_FAILURE", false)
        case .finishing: (503, "ERR_FINISHING", false)
        case .unavailable: (503, "ERR_UNAVAILABLE", true)
        }
    }

    private static let refusals: [TusRefusal] = [
        .unsupportedVersion, .methodNotAllowed([.options, .post]), .wrongContentType, .invalidLength("Text."),
        .invalidOffset("Text."), .invalidMetadata("Text."), .invalidChecksum("Text."),
        .invalidConcatenation("Text."), .stopped("Text."),
    ]

    private static let methods: [HTTPMethod] = [.options, .post, .head, .patch, .delete]

    @Test("each error has its status, its code and its effect on the connection", arguments: UploadError.Code.samples)
    func table(code: UploadError.Code) {
        let (status, name, closes) = Self.expected(code)
        let response = TusErrors.response(to: .upload(UploadError(code, "Text.")), for: .patch)
        #expect(response.status.code == status)
        #expect(response.text.hasPrefix("\(name): Text."))
        #expect(response.text.hasSuffix("\n"))
        #expect(response.fields["Content-Type"] == "text/plain; charset=utf-8")
        #expect(response.closesConnection == closes)
    }

    @Test("only 409 has an offset, whatever the method", arguments: UploadError.Code.samples, methods)
    func offsetOnlyOnConflict(code: UploadError.Code, method: HTTPMethod) {
        let response = TusErrors.response(to: .upload(UploadError(code, "Text.")), for: method)
        if case .offsetMismatch = code {
            #expect(response.status == 409)
            #expect(response.fields["Upload-Offset"] == "42")
        } else {
            #expect(response.status != 409)
            #expect(!response.fields.contains("Upload-Offset"))
        }
        #expect(!response.fields.contains("Location"))
        #expect(response.fields["Cache-Control"] == "no-store")
    }

    @Test("no violation of the protocol has an offset", arguments: refusals, methods)
    func refusalsTellNoOffset(refusal: TusRefusal, method: HTTPMethod) {
        let response = TusErrors.response(to: .refused(refusal), for: method)
        #expect((400..<500).contains(response.status.code))
        #expect(response.status != 409)
        #expect(!response.fields.contains("Upload-Offset"))
        #expect(response.text.isEmpty == (method == .head))
    }

    @Test("a response to HEAD has no content", arguments: UploadError.Code.samples)
    func headHasNoContent(code: UploadError.Code) {
        #expect(TusErrors.response(to: .upload(UploadError(code, "Text.")), for: .head).text.isEmpty)
    }

    @Test(
        "temporary failures are 423 for HEAD, because tus-js-client starts from zero after anything else",
        arguments: [
            UploadError.Code.busy, .interrupted, .timedOut, .storageFull, .unavailable,
        ]
    )
    func transientOnHead(code: UploadError.Code) {
        #expect(TusErrors.response(to: .upload(UploadError(code, "Text.")), for: .head).status == 423)
    }

    @Test("the challenge names a missing scope, or asks for a missing key")
    func challenges() {
        let missing = TusErrors.response(to: .upload(UploadError(.unauthenticated, "Text.")), for: .post)
        #expect(missing.fields["WWW-Authenticate"] == "Bearer")
        let weak = TusErrors.response(to: .upload(UploadError(.forbidden(scope: "upload"), "Text.")), for: .post)
        #expect(weak.fields["WWW-Authenticate"] == "Bearer error=\"insufficient_scope\", scope=\"upload\"")
        let other = TusErrors.response(to: .upload(UploadError(.forbidden(scope: nil), "Text.")), for: .post)
        #expect(!other.fields.contains("WWW-Authenticate"))
    }

    @Test("the cause of an error is not sent")
    func causeStaysInside() {
        let cause = UploadError(.storageFailure, "/var/lib/secret")
        let response = TusErrors.response(to: .upload(UploadError(.storageFailure, "Text.", cause: cause)), for: .patch)
        #expect(response.text == "ERR_STORAGE_FAILURE: Text.\n")
    }

    @Test("a full storage asks the client to try again")
    func storageFullSaysTryAgain() {
        let response = TusErrors.response(to: .upload(UploadError(.storageFull, "No room.")), for: .patch)
        #expect(response.text == "ERR_STORAGE_FULL: No room. Try again later.\n")
    }

    @Test("an unusable upload does not count as created", arguments: UploadError.Code.samples)
    func usability(code: UploadError.Code) {
        // 4xx that a client cannot fix by continuing, against errors that pass or depend on the connection.
        let (status, _, closes) = Self.expected(code)
        #expect(code.leavesUploadUsable == (status >= 500 || status == 423 || closes))
    }
}
