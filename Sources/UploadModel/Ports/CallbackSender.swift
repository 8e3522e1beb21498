/// Sends callbacks to apps.
package protocol CallbackSender: Sendable {
    /// Why a URL given by a client must not be called; `nil` if it may be.
    func problem(with url: String) -> CallbackURLProblem?

    /// Whether a callback may have this value in its `Host` field.
    func mayName(host: String) -> Bool

    /// Sends a callback once; follows no redirects.
    ///
    /// - Parameters:
    ///   - message: The callback message.
    ///   - url: A URL that was accepted by `problem(with:)`.
    /// - Returns: The response, whatever its status.
    /// - Throws: `.busy`, `.timedOut`, `.unreachable`, `.noResponse`, `.tooLarge`.
    func send(_ message: CallbackMessage, to url: String) async throws(CallbackFailure) -> CallbackResponse

    /// Reports the outcome of a callback, over all its URLs; `nil` means success.
    func ended(_ failure: CallbackFailure?)
}

package enum CallbackURLProblem: Sendable, Equatable {
    case malformed
    /// The operator forbids calling it.
    case notAllowed
}

/// A message to an app.
package struct CallbackMessage: Sendable, Equatable {
    /// Stays the same each time the same object is reported.
    package let id: String
    /// Value of the `Host` field; `nil` uses the URL's.
    package let host: String?
    package let contentType: String
    package let content: [UInt8]
    /// Further header fields.
    package var fields: [Field] = []
    /// The user whose request waits for the response; users have turns.
    package var subject: String?

    package struct Field: Sendable, Equatable {
        package let name: String
        package let value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    package init(id: String, host: String?, contentType: String, content: [UInt8]) {
        self.id = id
        self.host = host
        self.contentType = contentType
        self.content = content
    }
}

/// An app's response.
package struct CallbackResponse: Sendable, Equatable {
    package let status: Int
    /// The announced content length.
    package let length: Int64?
    package let body: [UInt8]

    /// Maximum content of the response, in bytes ("Callback", OSS documentation).
    package static let maximumBytes = 1 << 20

    package init(status: Int, length: Int64?, body: [UInt8]) {
        self.status = status
        self.length = length
        self.body = body
    }
}

/// Why a callback failed.
package enum CallbackFailure: Error, Sendable, Equatable {
    /// Too many others of the same user, or of all, are under way.
    case busy
    case timedOut
    /// No connection.
    case unreachable
    /// A connection, but no complete response; the text says why, without anything that is secret.
    case noResponse(String)
    case status(Int)
    case noLength
    case tooLarge
    case notJSON
}
