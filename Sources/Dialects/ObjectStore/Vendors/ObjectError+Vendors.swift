internal import Bytes
internal import HTTPWire
internal import Signing

extension Vendor {
    /// Runs a step of signature verification.
    ///
    /// - Throws: The vendor's error for a failure.
    func checking<Success>(
        _ step: () throws(RequestSignatureFailure) -> Success
    ) throws(ObjectError) -> Success {
        do throws(RequestSignatureFailure) {
            return try step()
        } catch {
            throw ObjectError(signature: error, self)
        }
    }
}

/// The errors of OSS and COS ("Error codes" of both documentations): those of S3, except for some codes and the
/// document's structure.
extension ObjectError {
    /// The vendor's code for the error.
    func codeText(_ vendor: Vendor) -> String { vendor.profile.errors.codes[code] ?? code.rawValue }

    func status(_ vendor: Vendor) -> Status { status ?? vendor.profile.errors.statuses[code] ?? code.status }

    /// The message, where the vendor's clients compare it.
    private func messageText(_ vendor: Vendor) -> String {
        vendor.profile.errors.messages[code]
            ?? message.replacing(Vendor.aws.fieldPrefix, with: vendor.fieldPrefix)
    }

    /// Writes the error document.
    ///
    /// - Parameters:
    ///   - vendor: The vendor whose client reads it.
    ///   - head: The request head.
    ///   - requestID: The request id, as in logs.
    /// - Returns: XML.
    func document(_ vendor: Vendor, to head: RequestHead, requestID: String) -> [UInt8] {
        if vendor == .aws { return document(resource: head.target.rawPath, requestID: requestID) }
        let host = head.target.authority ?? head.fields["Host"] ?? "localhost"
        var document = XMLWriter("Error", vendor, hasNamespace: false)
        document.element("Code", codeText(vendor))
        document.element("Message", messageText(vendor))
        if vendor == .tencent { document.element("Resource", host + head.target.rawPath) }
        document.element("RequestId", requestID)
        if vendor == .aliyun { document.element("HostId", host) }
        if vendor == .tencent { document.element("TraceId", requestID) }
        if vendor == .aliyun, code == .expiredToken {
            document.element("SecurityToken", ifPresent: head.fields["x-oss-security-token"])
            document.element("EC", "0002-00000007")
        }
        for detail in details {
            document.element(
                detail.name,
                detail.text.replacing(Vendor.aws.fieldPrefix, with: vendor.fieldPrefix)
            )
        }
        return document.finished()
    }

    /// Why the signature of a request to OSS or COS is refused.
    ///
    /// - Parameters:
    ///   - failure: What is wrong.
    ///   - vendor: The vendor of the signature.
    init(signature failure: RequestSignatureFailure, _ vendor: Vendor) {
        switch failure {
        case .noSignature: self.init(.accessDenied)
        case .twoSignatures:
            self.init(.invalidArgument, "Only one signature is allowed: in the header Authorization, or in the query.")
        case .unsupportedAlgorithm:
            self.init(.invalidArgument, "The signature algorithm is not supported; sign as the vendor's SDKs do.")
        case .duplicate(let name): self.init(.invalidArgument, "\(name) must occur once.")
        case .missingParameter(let name): self.init(.invalidArgument, "The signature lacks \(name).")
        case .malformed(let name) where name.lowercasedASCII().hasSuffix("date"),
            .missingHeader(let name)
        where name.lowercasedASCII().hasSuffix("date"):
            self.init(.accessDenied, "The request must have a valid Date or \(vendor.fieldPrefix)date header.")
        case .malformed(let name): self.init(.invalidArgument, "\(name) is malformed.")
        case .missingHeader(let name):
            self.init(.signatureDoesNotMatch, "The header \(name) is signed, but the request does not have it.")
        case .unsignedHeader(let name): self.init(.accessDenied, "The header \(name) must be signed.")
        case .wrongScope, .wrongDay, .wrongRegion, .wrongService:
            self.init(.invalidArgument, "The scope of the credential does not match this request.")
        case .lifetimeOutOfRange:
            self.init(.invalidArgument, "The signature must be valid for 1 to 604800 seconds.")
        case .skewed: self.init(.requestTimeTooSkewed)
        case .expired: self.init(.accessDenied, vendor == .tencent ? "Request has expired" : "Request has expired.")
        case .wrongToken: self.init(.invalidToken)
        case .wrongSignature: self.init(.signatureDoesNotMatch)
        }
    }
}
