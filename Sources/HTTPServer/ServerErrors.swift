internal import Bytes
internal import HTTPWire

/// Responses to requests that reach no handler, as problem documents (RFC 9457).
enum ServerErrors {
    /// - Parameter refusal: What is wrong.
    /// - Returns: A problem document, for listeners whose clients have no form of their own.
    static func response(_ refusal: ServerRefusal) -> Response {
        let (status, detail, requestID) = (refusal.status, refusal.reason, refusal.requestID)
        let code =
            switch status.code {
            case 408: "request_timeout"
            case 413: "content_too_large"
            case 414: "uri_too_long"
            case 417: "expectation_failed"
            case 431: "header_too_large"
            case 500: "internal"
            case 501: "not_implemented"
            case 503: "unavailable"
            case 505: "http_version_not_supported"
            default: "malformed_request"
            }
        let body =
            "{\"type\":\"about:blank\",\"title\":\(quoted(status.phrase)),\"status\":\(status.code),"
            + "\"code\":\"\(code)\",\"detail\":\(quoted(detail)),\"requestId\":\(quoted(requestID))}\n"
        var response = Response(
            status,
            ["Content-Type": "application/problem+json", "Cache-Control": "no-store"],
            .bytes(Array(body.utf8))
        )
        response.trace.errorCode = code
        return response
    }

    /// A JSON string (RFC 8259 §7).
    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20: quoted += " "
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
