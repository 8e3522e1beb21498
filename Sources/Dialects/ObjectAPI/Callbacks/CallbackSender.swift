internal import Bytes

/// Sends callbacks to apps.
package protocol CallbackSender: Sendable {
    /// What is wrong with a URL that a client names; `nil` if it may be called.
    func problem(with url: String) -> CallbackURLProblem?

    /// Whether a callback may have this in its field `Host`.
    func mayName(host: String) -> Bool

    /// Sends a callback once, and follows no redirect.
    ///
    /// - Parameters:
    ///   - message: What is sent.
    ///   - url: One that may be called.
    /// - Returns: The answer, whatever its status.
    /// - Throws: `.timedOut`, `.unreachable`, `.tooLarge`.
    func send(_ message: CallbackMessage, to url: String) async throws(CallbackFailure) -> CallbackAnswer

    /// Told how a callback ended, all its URLs together; `nil` is well.
    func ended(_ failure: CallbackFailure?)
}

package enum CallbackURLProblem: Sendable, Equatable {
    case malformed
    /// The operator does not want it to be called.
    case notAllowed
}

/// What is sent to an app.
package struct CallbackMessage: Sendable, Equatable {
    /// The same whenever the same object is told of.
    package let id: String
    /// Of the field `Host`; `nil` for that of the URL.
    package let host: String?
    package let contentType: String
    package let content: [UInt8]

    package init(id: String, host: String?, contentType: String, content: [UInt8]) {
        self.id = id
        self.host = host
        self.contentType = contentType
        self.content = content
    }
}

/// What an app answered.
package struct CallbackAnswer: Sendable, Equatable {
    private let status: Int
    /// That it tells.
    private let length: Int64?
    private let body: [UInt8]

    /// Bytes that its content may have ("Callback", OSS documentation).
    package static let maximumBytes = 1 << 20

    package init(status: Int, length: Int64?, body: [UInt8]) {
        self.status = status
        self.length = length
        self.body = body
    }

    /// What the client is answered: JSON.
    ///
    /// - Throws: `.status` unless it is 200, `.noLength`, `.notJSON`.
    func json() throws(CallbackFailure) -> [UInt8] {
        guard status == 200 else { throw .status(status) }
        guard length != nil else { throw .noLength }
        guard JSONSyntax.isValid(body) else { throw .notJSON }
        return body
    }
}

/// Why a callback failed.
package enum CallbackFailure: Error, Sendable, Equatable {
    case timedOut
    /// No connection, or none to the end of the answer.
    case unreachable
    case status(Int)
    case noLength
    case tooLarge
    case notJSON

    /// For the client; beginnings are those that clients of OSS know ("Errors returned with HTTP status code 203", OSS
    /// documentation).
    var message: String {
        switch self {
        case .timedOut: "Error status : -1. The server of the callbackUrl did not answer within 5 seconds."
        case .unreachable: "Error status : -1. The server of the callbackUrl can not be reached, please check it."
        case .status(let status): "Error status : \(status)."
        case .noLength: "Error status : 400. The answer to the callback must have a Content-Length."
        case .tooLarge: "Error status : 400. The answer to the callback has more than 1 MiB."
        case .notJSON: "Response body is not valid json format."
        }
    }
}
