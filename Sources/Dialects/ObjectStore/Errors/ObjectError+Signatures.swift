internal import Bytes
internal import Foundation
internal import HTTPWire
package import ObjectGrants
package import Signing

extension ObjectError {
    /// Why a request's signature is refused, with the codes that clients expect.
    ///
    /// Details that Amazon adds, such as the string to sign, are omitted: they would help an attacker who probes
    /// signatures.
    ///
    /// - Parameters:
    ///   - failure: What is wrong.
    ///   - isQuery: Whether the signature is in the query.
    ///   - region: The required region, for clients that retry with it.
    package init(signature failure: RequestSignatureFailure, isQuery: Bool, region: String?) {
        let malformed: ObjectErrorCode = isQuery ? .authorizationQueryParametersError : .authorizationHeaderMalformed
        switch failure {
        case .noSignature: self.init(.accessDenied)
        case .twoSignatures:
            self.init(.invalidArgument, "Only one signature is allowed: in the header Authorization, or in the query.")
        case .unsupportedAlgorithm: self = .unsupportedSignature
        case .duplicate(let name): self.init(malformed, "\(name) must occur once.")
        case .missingParameter(let name): self.init(malformed, "The signature lacks \(name).")
        case .malformed(let name) where name.lowercasedASCII() == "x-amz-content-sha256":
            self = .argument(
                name,
                nil,
                "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, "
                    + "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, STREAMING-UNSIGNED-PAYLOAD-TRAILER or a SHA-256."
            )
        case .malformed("X-Amz-Date"), .malformed("Date"), .missingHeader("x-amz-date"):
            self.init(.accessDenied, "AWS authentication requires a valid Date or x-amz-date header")
        case .malformed(let name): self.init(malformed, "\(name) is malformed.")
        case .missingHeader("x-amz-content-sha256"):
            self.init(.invalidRequest, "Missing required header for this request: x-amz-content-sha256")
        case .missingHeader(let name):
            self.init(.signatureDoesNotMatch, "The header \(name) is signed, but the request does not have it.")
        case .unsignedHeader(let name):
            self.init(
                .accessDenied,
                "There were headers present in the request which were not signed",
                details: [Detail("HeadersNotSigned", name)]
            )
        case .wrongScope: self.init(malformed, "The credential must end with the terminator aws4_request.")
        case .wrongDay: self.init(malformed, "The day of the credential is not that of the request.")
        case .wrongRegion:
            self.init(malformed, "The region of the credential is wrong\(region.map { "; expecting '\($0)'" } ?? "").")
            if let region { details.append(Detail("Region", region)) }
        case .wrongService: self.init(malformed, "The service of the credential is wrong; expecting 's3'.")
        case .lifetimeOutOfRange: self.init(malformed, "X-Amz-Expires must be between 1 and 604800 seconds.")
        case .skewed where isQuery: self.init(.accessDenied, "Request is not valid yet")
        case .skewed: self.init(.requestTimeTooSkewed)
        case .expired: self.init(.accessDenied, "Request has expired")
        case .wrongToken: self.init(.invalidToken)
        case .wrongSignature: self.init(.signatureDoesNotMatch)
        }
    }

    /// What SDKs correct their clocks by.
    ///
    /// - Parameters:
    ///   - requestTime: The time of the request as it states it.
    ///   - now: The time of the server.
    ///   - maximum: The difference that is allowed, in seconds.
    /// - Returns: Details of `RequestTimeTooSkewed`.
    static func skew(_ requestTime: String, at now: Date, maximum: Int64) -> [Detail] {
        [
            Detail("RequestTime", requestTime.first(scalars: 64)), Detail("ServerTime", XMLWriter.timestamp(now)),
            Detail("MaxAllowedSkewMilliseconds", String(maximum * 1000)),
        ]
    }

    static let unsupportedSignature = ObjectError(
        .invalidRequest,
        "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256. Set Signature Version 4 in "
            + "the client: signature_version='s3v4' in botocore and boto3, aws configure set default.s3.signature_version "
            + "s3v4 for the AWS CLI, signatureVersion: 'v4' in the AWS SDK for JavaScript 2."
    )

    package init(credentials failure: CredentialFailure) {
        switch failure {
        case .noToken: self.init(.invalidAccessKeyID, "Credentials that expire require a session token.")
        case .invalidToken, .otherAccessKeyID: self.init(.invalidToken)
        case .expired: self.init(.expiredToken)
        }
    }

    package init(chunks failure: AWSChunkedFailure) {
        switch failure {
        case .malformed(let reason):
            self.init(.invalidRequest, "The content is not valid aws-chunked: \(reason).")
        case .wrongChunkSignature:
            self.init(.signatureDoesNotMatch, "The signature of a chunk does not match its data.")
        case .wrongTrailerSignature:
            self.init(.signatureDoesNotMatch, "The signature of the trailers does not match them.")
        case .wrongLength:
            self.init(.incompleteBody, "The content does not have the length in x-amz-decoded-content-length.")
        case .smallChunk(let number, let size, let minimum):
            self.init(
                .invalidChunkSize,
                "Only the last chunk is allowed to have a size less than \(minimum) bytes",
                details: [Detail("Chunk", String(number)), Detail("BadChunkSize", String(size))]
            )
        }
        closesConnection = true
    }
}

extension ObjectError {
    /// The error to report if a signature is wrong because a field is not UTF-8.
    ///
    /// Signatures of such fields cannot be verified, as the field was read with other characters. Clients would take their
    /// credentials for wrong, and mobile ones would request new ones.
    ///
    /// - Parameters:
    ///   - head: The request head.
    ///   - vendor: The vendor whose client sent it.
    /// - Returns: `InvalidArgument` with the name of the field; this error if it has another reason.
    func namingUnreadableField(of head: RequestHead, _ vendor: Vendor) -> ObjectError {
        guard code == .signatureDoesNotMatch else { return self }
        let fields = head.fields
        let unreadable = fields.entries.indices.first { index in
            let name = fields.name(at: index).lowercasedASCII()
            return (name.hasPrefix(vendor.fieldPrefix) || name.hasPrefix("content-"))
                && String(validating: fields.rawValue(at: index), as: UTF8.self) == nil
        }
        guard let unreadable else { return self }
        let name = fields.name(at: unreadable).lowercasedASCII()
        return .argument(name, nil, "The header \(name) must be UTF-8: its signature cannot be verified otherwise.")
    }
}
