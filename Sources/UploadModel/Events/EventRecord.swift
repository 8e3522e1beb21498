package import Foundation

/// An event of an upload, recorded in the same transaction as the change.
package struct EventRecord: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        case created
        /// Bytes arrived; recorded only if a hook wants it. A newer one replaces an undelivered one.
        case progress
        case completed
        case terminated
        case expired
        /// Its metadata changed.
        case updated
    }

    /// The state of delivery to the app's backend.
    package struct Delivery: Sendable, Equatable {
        package enum State: String, Sendable, CaseIterable {
            case pending, delivered
            /// Given up after the last attempt; an operator can make it pending again.
            case dead
        }

        package var state: State
        /// Number of attempts so far.
        package var attempts: Int
        /// When the next attempt is due or, while it is claimed, when the claim ends; `nil` unless it is pending and
        /// the first pending one of its upload.
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

    /// Increases with every event of the server; 0 until it is recorded.
    package var sequence: Int64
    /// A permanent id, the same for every attempt: `msg_…`.
    package let id: String
    package var kind: Kind
    /// The upload at that time.
    package var upload: Upload
    /// The request that caused it, without secrets; `nil` if there was none.
    package var request: RequestInfo?
    package var occurredAt: Date
    /// `nil` if the event is not delivered to the app.
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

/// The outcome of one delivery attempt.
package enum DeliveryOutcome: Sendable, Equatable {
    case delivered
    /// Seconds from now.
    case retry(after: TimeInterval, error: String)
    case dead(error: String)
}

/// Which events to read, in ascending order of sequence numbers.
package struct EventQuery: Sendable, Equatable {
    /// Only events after this sequence number.
    package var after: Int64
    /// Only events up to this sequence number.
    package var through: Int64?
    package var upload: UploadID?
    package var subject: String?
    /// Only events of these kinds; `nil` for all.
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
    /// Only deliveries of events before this sequence number.
    package var before: Int64?
    /// At least 1.
    package var limit: Int

    package init(state: EventRecord.Delivery.State? = nil, before: Int64? = nil, limit: Int = 50) {
        self.state = state
        self.before = before
        self.limit = limit
    }
}
