package import Bytes
package import Foundation

/// Fetches content for pulls; the gateway does it by HTTP.
package protocol PullOrigin: Sendable {
    /// Asks for the content, or for its rest.
    ///
    /// - Parameters:
    ///   - request: Where, and with what.
    ///   - rest: The bytes before it are stored; `nil` for the whole.
    /// - Returns: Once it is known what comes; the content itself comes as it is pulled.
    /// - Throws: Why there is none.
    func open(_ request: PullRequest, rest: OriginRest?) async throws(PullFailure) -> OriginAnswer
}

/// The rest of a content that was fetched in part.
package struct OriginRest: Sendable, Equatable {
    /// Bytes before it.
    package var offset: Int64
    /// See `PullJob.validator`.
    package var validator: String

    package init(offset: Int64, validator: String) {
        self.offset = offset
        self.validator = validator
    }
}

package enum OriginAnswer {
    /// All of it, from the first byte on, whatever was asked for.
    case whole(OriginContent)
    /// The bytes from `offset` on.
    case part(OriginContent, offset: Int64, end: Int64)
    /// There is nothing from there on: the content has `total` bytes, if that is told.
    case nothing(total: Int64?)
}

/// A content on its way; it belongs to the task that pulls it.
package struct OriginContent {
    /// See `PullJob.validator`.
    package var validator: String?
    /// Bytes of the whole content, if known.
    package var total: Int64?
    package var filename: String?
    package var contentType: String?
    package var source: any ByteSource
    /// Why `source` has failed, in more words than a `SourceFailure` has.
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

/// Why an attempt to fetch did not bring everything.
package struct PullFailure: Error, Equatable, Sendable {
    package enum Consequence: Equatable, Sendable {
        /// Another attempt would fail, too.
        case final
        /// To be tried again, not before so many seconds if that is told.
        case retry(after: TimeInterval?)
        /// To be tried again as often as it takes: the fault is here, not there.
        case wait
        /// Nobody's fault: the process is stopping, or the upload was ended.
        case none
    }

    package var reason: PullJob.Reason
    package var consequence: Consequence

    package init(_ code: String, _ message: String, _ consequence: Consequence = .retry(after: nil)) {
        reason = PullJob.Reason(code: code, message: message)
        self.consequence = consequence
    }
}
