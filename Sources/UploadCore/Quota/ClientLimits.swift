package import SystemIO
package import UploadModel

/// What one client, or each of many, may use up.
package struct ClientRates: Sendable, Equatable {
    /// Requests; 0 for no limit.
    package var requestsPerSecond = 0
    /// Requests that may come at once; 0 for those of ten seconds.
    package var burst = 0
    /// Requests with content at the same time; 0 for no limit.
    package var uploads = 0
    /// Bytes of content; beyond it, they are read later; 0 for no limit.
    package var bytesPerSecond: Int64 = 0

    package init() {}

    /// Requests that may come at once.
    package var fullBurst: Int { burst > 0 ? burst : 10 * requestsPerSecond }
}

/// The limits of all clients of a kind, in this process.
package final class ClientLimits<Client: Hashable & Sendable>: Sendable {
    package let kind: RateRefusal.Client
    private let rates: ClientRates
    private let requests: RateTable<Client>?
    private let uploads: RunningTable<Client>?
    private let bytes: RateTable<Client>?
    private let refused: @Sendable (_ limit: String) -> Void

    /// - Parameters:
    ///   - kind: Whom the limits count.
    ///   - rates: The limits.
    ///   - refused: Told the name of a limit that refuses something.
    package init(
        _ kind: RateRefusal.Client,
        _ rates: ClientRates,
        refused: @escaping @Sendable (_ limit: String) -> Void = { _ in }
    ) {
        self.kind = kind
        self.rates = rates
        self.refused = refused
        requests =
            rates.requestsPerSecond > 0 ? RateTable(perSecond: rates.requestsPerSecond, burst: rates.fullBurst) : nil
        uploads = rates.uploads > 0 ? RunningTable(maximum: rates.uploads) : nil
        // A burst of one second.
        let perSecond = Int(clamping: rates.bytesPerSecond)
        bytes = perSecond > 0 ? RateTable(perSecond: perSecond, burst: perSecond) : nil
    }

    /// Whether there is any limit.
    package var isLimited: Bool { requests != nil || uploads != nil || bytes != nil }
    package var limitsBytes: Bool { bytes != nil }

    /// Counts a request.
    ///
    /// - Parameters:
    ///   - client: Who sends it.
    ///   - bringsContent: Whether it occupies an upload; then call `end` once.
    /// - Throws: `.tooManyRequests`; nothing is counted then.
    package func begin(_ client: Client, bringsContent: Bool) throws(UploadError) {
        if let wait = requests?.take(client, at: MonotonicClock.now) {
            refused("\(kind.rawValue)_requests")
            throw UploadError(
                tooManyRequestsOf: kind,
                perSecond: rates.requestsPerSecond,
                burst: rates.fullBurst,
                seconds: Int64(clamping: (wait + 999_999_999) / 1_000_000_000)
            )
        }
        if bringsContent { try beginUpload(client) }
    }

    /// Counts a running request like one that brings content, until `end`.
    ///
    /// - Throws: `.tooManyRequests`.
    package func beginUpload(_ client: Client) throws(UploadError) {
        guard let uploads, !uploads.begin(client) else { return }
        refused("\(kind.rawValue)_uploads")
        throw UploadError(tooManyUploadsOf: kind, maximum: rates.uploads)
    }

    package func end(_ client: Client) { uploads?.end(client) }

    /// What slows down the content of a client; `nil` if nothing does.
    package func pacer(of client: Client) -> Pacer? {
        bytes.map { bytes in
            Pacer(bytesPerSecond: rates.bytesPerSecond) { bytes.charge(client, Int(clamping: $0), at: $1) }
        }
    }

    /// Bytes of content to take at once; `nil` without a limit of them.
    var slice: Int64? { bytes == nil ? nil : Pacer.slice(of: rates.bytesPerSecond) }
}

/// Slows down content to a rate that one client's requests share.
package struct Pacer: Sendable {
    /// Bytes to take at once, so that requests of one client take turns.
    package let slice: Int64
    /// Counts bytes at a time, and returns how long to wait until they and those before them are paid.
    package let charge: @Sendable (Int64, Nanoseconds) -> Nanoseconds

    init(bytesPerSecond: Int64, charge: @escaping @Sendable (Int64, Nanoseconds) -> Nanoseconds) {
        slice = Self.slice(of: bytesPerSecond)
        self.charge = charge
    }

    static func slice(of bytesPerSecond: Int64) -> Int64 { min(max(bytesPerSecond / 8, 1024), 1 << 20) }
}
