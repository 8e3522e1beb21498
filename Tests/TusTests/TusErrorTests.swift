import Bytes
import Foundation
import HTTPWire
import SluiceTesting
import Testing
import UploadCore

@testable import Tus

@Suite("Error table")
struct TusErrorTests {
    /// What each error answers to a PATCH: status, code of the text, and whether the connection ends.
    private static func expected(_ code: UploadError.Code) -> (Int, String, closes: Bool) {
        // Exhaustive on purpose, as is `codes`: a new error has to be added to both.
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

    private static let codes: [UploadError.Code] = [
        .invalidRequest, .unauthenticated, .forbidden(scope: nil), .forbidden(scope: "upload"), .notFound, .gone,
        .offsetMismatch(expected: 42), .lengthConflict(length: 42), .lengthExceeded(length: 42), .tooLarge(limit: 42),
        .contentTypeRefused,
        .checksumMismatch, .digestMismatch, .unsupportedChecksum(offered: ["sha1"]), .notOpen, .conditionFailed,
        .invalidParts(.empty), .grantUsed, .interrupted, .busy, .quotaExceeded(refusal(resetsAt: nil)),
        .quotaExceeded(refusal(resetsAt: .distantFuture)), .rejected,
        .timedOut, .disconnected, .storageFull, .storageFailure, .finishing, .unavailable,
    ]

    private static let refusals: [TusRefusal] = [
        .unsupportedVersion, .methodNotAllowed([.options, .post]), .wrongContentType, .invalidLength("Text."),
        .invalidOffset("Text."), .invalidMetadata("Text."), .invalidChecksum("Text."),
        .invalidConcatenation("Text."), .stopped("Text."),
    ]

    private static let methods: [HTTPMethod] = [.options, .post, .head, .patch, .delete]

    @Test("each error has its status, its code and its way with the connection", arguments: codes)
    func table(code: UploadError.Code) {
        let (status, name, closes) = Self.expected(code)
        let answer = TusErrors.response(to: .upload(UploadError(code, "Text.")), for: .patch)
        #expect(answer.status.code == status)
        #expect(answer.text.hasPrefix("\(name): Text."))
        #expect(answer.text.hasSuffix("\n"))
        #expect(answer.fields["Content-Type"] == "text/plain; charset=utf-8")
        #expect(answer.closesConnection == closes)
    }

    @Test("only 409 tells an offset, whatever the method", arguments: codes, methods)
    func offsetOnlyOnConflict(code: UploadError.Code, method: HTTPMethod) {
        let answer = TusErrors.response(to: .upload(UploadError(code, "Text.")), for: method)
        if case .offsetMismatch = code {
            #expect(answer.status == 409)
            #expect(answer.fields["Upload-Offset"] == "42")
        } else {
            #expect(answer.status != 409)
            #expect(!answer.fields.contains("Upload-Offset"))
        }
        #expect(!answer.fields.contains("Location"))
        #expect(answer.fields["Cache-Control"] == "no-store")
    }

    @Test("no refusal of the protocol tells an offset", arguments: refusals, methods)
    func refusalsTellNoOffset(refusal: TusRefusal, method: HTTPMethod) {
        let answer = TusErrors.response(to: .refused(refusal), for: method)
        #expect((400..<500).contains(answer.status.code))
        #expect(answer.status != 409)
        #expect(!answer.fields.contains("Upload-Offset"))
        #expect(answer.text.isEmpty == (method == .head))
    }

    @Test("an answer to HEAD has no content", arguments: codes)
    func headHasNoContent(code: UploadError.Code) {
        #expect(TusErrors.response(to: .upload(UploadError(code, "Text.")), for: .head).text.isEmpty)
    }

    @Test(
        "what passes by itself is 423 on HEAD, because tus-js-client starts from zero after anything else",
        arguments: [
            UploadError.Code.busy, .interrupted, .timedOut, .storageFull, .unavailable,
        ]
    )
    func transientOnHead(code: UploadError.Code) {
        #expect(TusErrors.response(to: .upload(UploadError(code, "Text.")), for: .head).status == 423)
    }

    @Test("a missing scope is named in the challenge, a missing key is asked for")
    func challenges() {
        let missing = TusErrors.response(to: .upload(UploadError(.unauthenticated, "Text.")), for: .post)
        #expect(missing.fields["WWW-Authenticate"] == "Bearer")
        let weak = TusErrors.response(to: .upload(UploadError(.forbidden(scope: "upload"), "Text.")), for: .post)
        #expect(weak.fields["WWW-Authenticate"] == "Bearer error=\"insufficient_scope\", scope=\"upload\"")
        let other = TusErrors.response(to: .upload(UploadError(.forbidden(scope: nil), "Text.")), for: .post)
        #expect(!other.fields.contains("WWW-Authenticate"))
    }

    @Test("the cause of an error is not told")
    func causeStaysInside() {
        let cause = UploadError(.storageFailure, "/var/lib/secret")
        let answer = TusErrors.response(to: .upload(UploadError(.storageFailure, "Text.", cause: cause)), for: .patch)
        #expect(answer.text == "ERR_STORAGE_FAILURE: Text.\n")
    }

    @Test("a full storage says that it is worth trying again")
    func storageFullSaysTryAgain() {
        let answer = TusErrors.response(to: .upload(UploadError(.storageFull, "No room.")), for: .patch)
        #expect(answer.text == "ERR_STORAGE_FULL: No room. Try again later.\n")
    }

    @Test("an unusable upload is not answered as created", arguments: codes)
    func usability(code: UploadError.Code) {
        // 4xx that a client can not mend by continuing, against all that passes or depends on the connection.
        let (status, _, closes) = Self.expected(code)
        #expect(code.leavesUploadUsable == (status >= 500 || status == 423 || closes))
    }
}
