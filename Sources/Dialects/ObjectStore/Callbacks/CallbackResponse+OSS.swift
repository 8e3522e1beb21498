internal import Bytes
package import UploadModel

extension CallbackResponse {
    /// The JSON to pass on to the client.
    ///
    /// - Throws: `.status` unless it is 200, `.noLength`, `.notJSON`.
    func json() throws(CallbackFailure) -> [UInt8] {
        guard status == 200 else { throw .status(status) }
        guard length != nil else { throw .noLength }
        guard JSONSyntax.isValid(body) else { throw .notJSON }
        return body
    }
}

extension CallbackFailure {
    /// Message for the client; it begins as OSS clients expect ("Errors returned with HTTP status code 203", OSS
    /// documentation).
    package var message: String {
        switch self {
        case .busy: "Error status : -1. Too many callbacks are under way."
        case .timedOut: "Error status : -1. The server of the callbackUrl did not respond within 5 seconds."
        case .unreachable: "Error status : -1. The server of the callbackUrl cannot be reached, please check it."
        case .noResponse(let reason): "Error status : -1. The server of the callbackUrl did not respond: \(reason)."
        case .status(let status): "Error status : \(status)."
        case .noLength: "Error status : 400. The response to the callback must have a Content-Length."
        case .tooLarge: "Error status : 400. The response to the callback has more than 1 MiB."
        case .notJSON: "Response body is not valid json format."
        }
    }
}
