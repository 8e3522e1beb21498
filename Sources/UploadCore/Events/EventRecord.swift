package import Foundation

/// Something that happened to an upload, recorded in the transaction in which it happened.
package struct EventRecord: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        case created
        /// Bytes came; recorded only where a hook wants it, and one that was not told yet gives way to a newer one.
        case progress
        case completed
        case terminated
        case expired
        /// Its metadata were changed.
        case updated
    }

    /// Whether the app's backend was told.
    package struct Delivery: Sendable, Equatable {
        package enum State: String, Sendable, CaseIterable {
            case pending, delivered
            /// Given up after the last attempt; can be taken up again by an operator.
            case dead
        }

        package var state: State
        /// Attempts so far.
        package var attempts: Int
        /// `nil` unless it is pending and no earlier one of its upload is; while somebody tells it, when that is given up.
        package var nextAttemptAt: Date?
        package var settledAt: Date?
        /// Why the last attempt failed.
        package var lastError: String?

        package init(
            state: State = .pending,
            attempts: Int = 0,
            nextAttemptAt: Date?,
            settledAt: Date? = nil,
            lastError: String? = nil
        ) {
            self.state = state
            self.attempts = attempts
            self.nextAttemptAt = nextAttemptAt
            self.settledAt = settledAt
            self.lastError = lastError
        }
    }

    /// Grows with every event of the server; 0 until it is recorded.
    package var sequence: Int64
    /// Names it for ever, also when it is told again: `msg_…`.
    package let id: String
    package var kind: Kind
    /// As it was then.
    package var upload: Upload
    /// The request that caused it, without secrets; `nil` if none did.
    package var request: RequestInfo?
    package var occurredAt: Date
    /// `nil` if nobody is to be told.
    package var delivery: Delivery?

    package init(
        sequence: Int64 = 0,
        id: String,
        kind: Kind,
        upload: Upload,
        request: RequestInfo?,
        occurredAt: Date,
        delivery: Delivery?
    ) {
        self.sequence = sequence
        self.id = id
        self.kind = kind
        self.upload = upload
        self.request = request
        self.occurredAt = occurredAt
        self.delivery = delivery
    }
}

/// What became of one attempt to tell an event.
package enum DeliveryOutcome: Sendable, Equatable {
    case delivered
    /// Seconds from now.
    case retry(after: TimeInterval, error: String)
    case dead(error: String)
}

/// Which events to read, in the order of their sequence.
package struct EventQuery: Sendable, Equatable {
    /// Only later ones.
    package var after: Int64
    /// None later than this one.
    package var through: Int64?
    package var upload: UploadID?
    package var subject: String?
    /// Only these; `nil` for all.
    package var kinds: Set<EventRecord.Kind>?
    /// At least 1.
    package var limit: Int

    package init(
        after: Int64,
        through: Int64? = nil,
        upload: UploadID? = nil,
        subject: String? = nil,
        kinds: Set<EventRecord.Kind>? = nil,
        limit: Int = 100
    ) {
        self.after = after
        self.through = through
        self.upload = upload
        self.subject = subject
        self.kinds = kinds
        self.limit = limit
    }
}

/// Which deliveries to list, newest first.
package struct DeliveryQuery: Sendable, Equatable {
    package var state: EventRecord.Delivery.State?
    /// Only those of earlier events.
    package var before: Int64?
    /// At least 1.
    package var limit: Int

    package init(state: EventRecord.Delivery.State? = nil, before: Int64? = nil, limit: Int = 50) {
        self.state = state
        self.before = before
        self.limit = limit
    }
}
