package import Bytes
internal import HTTPWire
package import UploadModel

extension ObjectError {
    /// For requests that name a version: each key has one object, which must not be mistaken for another version.
    static let noVersions = ObjectError(
        .notImplemented,
        "Versions are not supported: leave the version id out, or use `null`."
    )

    /// The error table of the object endpoint.
    ///
    /// SDKs try again after 500 and 503, so what passes by itself is one of these.
    ///
    /// - SDKs retry after 500 and 503, so every temporary failure is one of these.
    ///   - error: What went wrong.
    ///   - subject: The subject of the request.
    package init(_ error: UploadError, about subject: Subject) {
        let text = error.message
        switch error.code {
        case .invalidRequest, .unsupportedChecksum: self.init(.invalidRequest, text)
        case .unauthenticated, .forbidden, .grantUsed, .rejected: self.init(.accessDenied, text)
        case .notFound, .gone: self.init(subject == .upload ? .noSuchUpload : .noSuchKey)
        case .notOpen: self.init(.noSuchUpload)
        case .offsetMismatch, .interrupted: self.init(.operationAborted, text)
        case .lengthConflict, .disconnected: self.init(.incompleteBody, text)
        case .lengthExceeded(let limit), .tooLarge(let limit):
            self.init(.entityTooLarge, text, details: [Detail("MaxSizeAllowed", String(limit))])
        case .contentTypeRefused: self.init(.contentTypeRefused, text)
        case .checksumMismatch, .digestMismatch: self.init(.badDigest, text)
        case .conditionFailed: self.init(.preconditionFailed)
        case .invalidParts(let problem): self.init(parts: problem)
        case .quotaExceeded(let refusal):
            self.init(.quotaExceeded, text)
            if let seconds = refusal.secondsToWait { fields["Retry-After"] = String(seconds) }
        case .tooManyRequests(let refusal):
            self.init(.slowDown, text)
            fields["Retry-After"] = refusal.retryAfter
        case .busy:
            self.init(.slowDown, text)
            fields["Retry-After"] = "1"
        case .finishing, .unavailable:
            self.init(.serviceUnavailable, text)
            fields["Retry-After"] = "1"
        case .timedOut: self.init(.requestTimeout, text)
        case .storageFull: self.init(.insufficientStorage, text)
        case .storageFailure: self.init(.internalError)
        }
        switch error.code {
        case .interrupted, .disconnected, .timedOut, .unavailable: closesConnection = true
        default: break
        }
    }

    package init(parts problem: PartsProblem) {
        switch problem {
        case .empty: self.init(.malformedXML, "The list of parts is empty.")
        case .order: self.init(.invalidPartOrder)
        case .unknown(let number): self.init(.invalidPart, details: [Detail("PartNumber", String(number))])
        case .unnamed:
            self.init(
                .invalidPart,
                "The store of this server cannot leave parts out: list all uploaded parts, or begin a new upload."
            )
        case .tooSmall(let number, let size, let minimum):
            self.init(
                .entityTooSmall,
                "Part \(number) has \(size) bytes; all parts but the last must have at least \(minimum).",
                details: [
                    Detail("ProposedSize", String(size)), Detail("MinSizeAllowed", String(minimum)),
                    Detail("PartNumber", String(number)),
                ]
            )
        }
    }

    /// For content that ended early.
    package init(content failure: SourceFailure) {
        if case .malformed(let reason) = failure {
            self.init(.invalidRequest, "The content is malformed: \(reason)")
        } else {
            self.init(UploadError(failure), about: .object)
        }
        // The rest of the connection cannot be parsed after broken content.
        closesConnection = true
    }
}
