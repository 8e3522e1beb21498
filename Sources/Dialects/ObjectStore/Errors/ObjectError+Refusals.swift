internal import Bytes
package import HTTPWire
internal import Signing

extension ObjectError {
    /// The response to a request that the HTTP server refuses before any handler sees it, because of its head or content.
    ///
    /// - Parameters:
    ///   - status: The status of the refusal.
    ///   - reason: For the client: what is wrong.
    ///   - head: The head, if it could be read.
    ///   - received: The beginning of a head that could not be read; untrusted.
    ///   - requestID: The request id, as in logs.
    /// - Returns: The error in the form of the vendor whose client seems to have sent the request.
    package static func response(
        refusing status: Status,
        _ reason: String,
        head: RequestHead?,
        received: [UInt8],
        requestID: String
    ) -> Response {
        let vendor = head.map { Vendor(of: $0) } ?? Vendor(unreadable: received)
        return ObjectError(refusing: status, reason).response(to: head ?? unknown, requestID: requestID, for: vendor)
    }

    /// Stands for a head that could not be read.
    private static let unknown = RequestHead(
        method: .get,
        target: RequestTarget(rawPath: "/", rawQuery: nil, authority: nil, segments: []),
        fields: HTTPFields()
    )

    private init(refusing status: Status, _ reason: String) {
        let code: ObjectErrorCode =
            switch status.code {
            case 408: .requestTimeout
            case 413: .entityTooLarge
            case 414: .invalidURI
            case 431: .requestHeaderTooLarge
            case 500: .internalError
            case 501: .notImplemented
            case 503: .serviceUnavailable
            default: .badRequest
            }
        self.init(code, "\(code.usualMessage) Reason: \(reason).")
        // Where the vendors document no error of their own, the status is that of HTTP.
        if status.code == 414 || code == .badRequest { self.status = status }
    }
}

extension Vendor {
    /// Detects the vendor by the beginning of a head that cannot be read; the default is S3.
    fileprivate init(unreadable received: [UInt8]) {
        let text = String(decoding: received, as: UTF8.self).lowercasedASCII()
        let marks: [(vendor: Vendor, texts: [String])] = [
            (.aws, ["x-amz-", "aws4-hmac-sha256"]),
            (.aliyun, ["x-oss-", "authorization: oss", "ossaccesskeyid=", ".oss-"]),
            (.tencent, ["x-cos-", "q-sign-algorithm=", "vod-forward-cos:", ".cos."]),
        ]
        self = marks.first { $0.texts.contains { text.contains($0) } }?.vendor ?? .aws
    }
}
