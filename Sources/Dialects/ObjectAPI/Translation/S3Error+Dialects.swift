internal import Bytes
internal import HTTPWire
internal import Signing

extension ObjectDialect {
    /// A step of checking a signature.
    ///
    /// - Throws: What is wrong with it, in the dialect's words.
    func checking<Success>(
        _ step: () throws(RequestSignatureFailure) -> Success
    ) throws(S3Error) -> Success {
        do throws(RequestSignatureFailure) {
            return try step()
        } catch {
            throw S3Error(signature: error, self)
        }
    }
}

/// The errors of OSS and COS ("Error codes" of both documentations): those of S3, but for some codes and the shape of the document.
extension S3Error {
    /// The code that the vendor's clients know it by.
    func codeText(_ dialect: ObjectDialect) -> String {
        switch (dialect, code) {
        case (.oss, .expiredToken): "SecurityTokenExpired"
        case (.oss, .invalidToken): "InvalidSecurityToken"
        case (.oss, .keyTooLong): "InvalidObjectName"
        case (.oss, .contentTypeRefused), (.cos, .contentTypeRefused), (.cos, .expiredToken): "AccessDenied"
        case (.oss, .badDigest): "InvalidDigest"
        case (.oss, .maxMessageLengthExceeded), (.cos, .maxMessageLengthExceeded): "MalformedXML"
        case (.oss, .invalidStorageClass), (.oss, .invalidRequest), (.oss, .invalidURI), (.oss, .metadataTooLarge),
            (.oss, .invalidTag), (.oss, .accessControlListNotSupported), (.cos, .invalidRequest),
            (.cos, .accessControlListNotSupported), (.cos, .metadataTooLarge):
            "InvalidArgument"
        // Their clients know no other code for credentials that nobody has given out.
        case (.cos, .invalidToken): "InvalidAccessKeyId"
        default: code.rawValue
        }
    }

    func status(_ dialect: ObjectDialect) -> Status {
        switch (dialect, code) {
        case (.oss, .expiredToken), (.oss, .invalidToken), (.cos, .expiredToken), (.cos, .invalidToken): 403
        // Clients on phones take each 403 for credentials that are over, and get new ones for ever.
        case (.oss, .quotaExceeded), (.cos, .quotaExceeded): 400
        case (.oss, .notImplemented): 400
        default: code.status
        }
    }

    /// The text, where clients of the vendor look at it.
    private func messageText(_ dialect: ObjectDialect) -> String {
        switch (dialect, code) {
        case (.oss, .expiredToken): "The security token you provided has expired."
        // By these words clients of COS know that they need new credentials.
        case (.cos, .expiredToken): "Request has expired"
        default: message.replacing(ObjectDialect.s3.fieldPrefix, with: dialect.fieldPrefix)
        }
    }

    /// The document of the answer.
    ///
    /// - Parameters:
    ///   - dialect: Whose client reads it.
    ///   - head: Of the request.
    ///   - requestID: As in logs.
    /// - Returns: XML.
    func document(_ dialect: ObjectDialect, to head: RequestHead, requestID: String) -> [UInt8] {
        if dialect == .s3 { return document(resource: head.target.rawPath, requestID: requestID) }
        let host = head.target.authority ?? head.fields["Host"] ?? "localhost"
        var document = XMLWriter("Error", dialect, hasNamespace: false)
        document.element("Code", codeText(dialect))
        document.element("Message", messageText(dialect))
        if dialect == .cos { document.element("Resource", host + head.target.rawPath) }
        document.element("RequestId", requestID)
        if dialect == .oss { document.element("HostId", host) }
        if dialect == .cos { document.element("TraceId", requestID) }
        for detail in details {
            document.element(
                detail.name,
                detail.text.replacing(ObjectDialect.s3.fieldPrefix, with: dialect.fieldPrefix)
            )
        }
        return document.finished()
    }

    /// Why the signature of a request to OSS or COS is refused.
    ///
    /// - Parameters:
    ///   - failure: What is wrong.
    ///   - dialect: Whose signature it is.
    init(signature failure: RequestSignatureFailure, _ dialect: ObjectDialect) {
        switch failure {
        case .noSignature: self.init(.accessDenied)
        case .twoSignatures:
            self.init(.invalidArgument, "Only one signature is allowed: in the header Authorization, or in the query.")
        case .unsupportedAlgorithm: self.init(.invalidArgument, "The way of signing is none that is known.")
        case .duplicate(let name): self.init(.invalidArgument, "\(name) must be there once.")
        case .missingParameter(let name): self.init(.invalidArgument, "The signature lacks \(name).")
        case .malformed(let name) where name.lowercased().hasSuffix("date"),
            .missingHeader(let name)
        where name.lowercased().hasSuffix("date"):
            self.init(.accessDenied, "The request must have a valid Date or \(dialect.fieldPrefix)date header.")
        case .malformed(let name): self.init(.invalidArgument, "\(name) is malformed.")
        case .missingHeader(let name):
            self.init(.signatureDoesNotMatch, "The header \(name) is signed, but the request does not have it.")
        case .unsignedHeader(let name): self.init(.accessDenied, "The header \(name) must be signed.")
        case .wrongScope, .wrongDay, .wrongRegion, .wrongService:
            self.init(.invalidArgument, "The scope of the credential is not that of this request.")
        case .lifetimeOutOfRange:
            self.init(.invalidArgument, "The signature must be in force for 1 to 604800 seconds.")
        case .skewed: self.init(.requestTimeTooSkewed)
        case .expired: self.init(.accessDenied, dialect == .cos ? "Request has expired" : "Request has expired.")
        case .wrongToken: self.init(.invalidToken)
        case .wrongSignature: self.init(.signatureDoesNotMatch)
        }
    }
}
