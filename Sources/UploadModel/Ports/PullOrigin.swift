package import Bytes
package import Foundation

/// Fetches content for pulls; the gateway implements it over HTTP.
package protocol PullOrigin: Sendable {
    /// Requests the content, or the rest of it.
    ///
    /// - Parameters:
    ///   - request: The URL and the header fields to send.
    ///   - rest: The part that is still missing; `nil` for the whole content.
    /// - Returns: The response, as soon as its kind is known; the content itself arrives as it is pulled.
    /// - Throws: The reason why there is no content.
    func open(_ request: PullRequest, rest: OriginRest?) async throws(PullFailure) -> OriginResponse
}

/// The rest of partly fetched content.
package struct OriginRest: Sendable, Equatable {
    /// Bytes already stored.
    package var offset: Int64
    /// See `PullJob.validator`.
    package var validator: String

    package init(offset: Int64, validator: String) {
        self.offset = offset
        self.validator = validator
    }
}

package enum OriginResponse {
    /// The whole content from its first byte, even if a rest was requested.
    case whole(OriginContent)
    /// The bytes from `offset` on.
    case part(OriginContent, offset: Int64, end: Int64)
    /// There are no bytes from that offset on: the content has `total` bytes, if the origin says so.
    case nothing(total: Int64?)
}

/// Content that is being received; it belongs to the task that pulls it.
package struct OriginContent {
    /// See `PullJob.validator`.
    package var validator: String?
    /// Size of the whole content in bytes, if known.
    package var total: Int64?
    package var filename: String?
    package var contentType: String?
    package var source: any ByteSource
    /// Why `source` failed, in more detail than `SourceFailure`.
    package var failure: () -> PullFailure?

    package init(
        validator: String?,
        total: Int64?,
        filename: String?,
        contentType: String?,
        source: any ByteSource,
        failure: @escaping () -> PullFailure?
    ) {
        self.validator = validator
        self.total = total
        self.filename = filename
        self.contentType = contentType
        self.source = source
        self.failure = failure
    }
}

/// Why an attempt did not fetch everything.
package struct PullFailure: Error, Equatable, Sendable {
    package enum Consequence: Equatable, Sendable {
        /// Another attempt would fail too.
        case final
        /// Try again, not before this many seconds if the origin gave a time.
        case retry(after: TimeInterval?)
        /// Try again without a limit on attempts: the fault is local, not at the origin.
        case wait
        /// No fault: the process is stopping, or the upload has ended.
        case none
    }

    /// The code of a failure whose cause is an address to which the pull may not connect.
    package static let refusedAddress = "address_refused"

    package var reason: PullJob.Reason
    package var consequence: Consequence

    package init(_ code: String, _ message: String, _ consequence: Consequence = .retry(after: nil)) {
        reason = PullJob.Reason(code: code, message: message)
        self.consequence = consequence
    }
}
