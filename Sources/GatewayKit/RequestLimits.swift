internal import CoreMetrics
package import HTTPWire
package import MetricsKit
package import RESTKit
internal import Synchronization
internal import Telemetry
internal import Transport
internal import UploadCore
package import UploadModel

/// Limits of client addresses, API keys and subjects, for all listeners of this process (docs/limits.md).
package final class RequestLimits: Sendable {
    /// What one value of the settings made; a request ends with the tables with which it began.
    private final class Tables: Sendable {
        let settings: LimitSettings
        let addresses: ClientLimits<AddressBlock>
        let keys: ClientLimits<String>
        let subjects: ClientLimits<SubjectName>
        let exempt: [PeerRange]

        init(
            _ settings: LimitSettings,
            _ addresses: ClientLimits<AddressBlock>,
            _ keys: ClientLimits<String>,
            _ subjects: ClientLimits<SubjectName>
        ) {
            self.settings = settings
            (self.addresses, self.keys, self.subjects) = (addresses, keys, subjects)
            exempt = settings.address.exempt
        }
    }

    private let tables: Mutex<Tables>
    private let publicURL: PublicURL
    private let count: @Sendable (_ limit: String) -> Void
    private let isStopping: @Sendable () -> Bool
    private let wasCutOff: CutOff

    /// Whether the grace time of a shutdown is over.
    private final class CutOff: Sendable {
        let isOver = Atomic<Bool>(false)
    }

    package init(_ settings: LimitSettings, _ publicURL: PublicURL, _ metrics: MetricsRegistry) {
        self.publicURL = publicURL
        let limited = metrics.limitedCounters
        let count: @Sendable (String) -> Void = { limited[$0].increment() }
        self.count = count
        let cutOff = CutOff()
        wasCutOff = cutOff
        // Made once: a closure for each request is allocated.
        isStopping = { cutOff.isOver.load(ordering: .relaxed) }
        tables = Mutex(
            Tables(
                settings,
                ClientLimits(.address, settings.address.rates, refused: count),
                ClientLimits(.key, settings.key, refused: count),
                ClientLimits(.subject, settings.subject, refused: count)
            )
        )
    }

    /// Limits later requests by other settings.
    ///
    /// What clients have used up stays counted, unless its limit changes.
    package func follow(_ settings: LimitSettings) {
        tables.withLock { tables in
            let old = tables.settings
            tables = Tables(
                settings,
                settings.address.rates == old.address.rates
                    ? tables.addresses : ClientLimits(.address, settings.address.rates, refused: count),
                settings.key == old.key ? tables.keys : ClientLimits(.key, settings.key, refused: count),
                settings.subject == old.subject
                    ? tables.subjects : ClientLimits(.subject, settings.subject, refused: count)
            )
        }
    }

    /// The grace time of a shutdown is over: no request waits for a rate any more.
    package func cutOff() { wasCutOff.isOver.store(true, ordering: .relaxed) }

    /// Handles a request, unless its client exceeds a limit.
    ///
    /// A proxy that is trusted has no limit for what it asks by itself, because its address is that of many clients. What
    /// such proxies pass on for clients whose addresses cannot be read counts as one client. Nothing here is a closure that is
    /// made for each request: those are allocated.
    fileprivate func respond(
        to request: Request,
        by handler: any RequestHandler,
        refuse: RequestLimitHandler.Refusal
    ) async -> Response {
        let bringsContent = request.head.bringsContent
        let tables = tables.withLock { $0 }
        let (addresses, keys, subjects) = (tables.addresses, tables.keys, tables.subjects)
        let client = addresses.isLimited ? limitedClient(of: request, exempt: tables.exempt) : nil
        if let client {
            do throws(UploadError) {
                try addresses.begin(client, bringsContent: bringsContent)
            } catch {
                return refuse(error, request)
            }
        }
        defer { if let client, bringsContent { addresses.end(client) } }
        let pacer = client.flatMap { bringsContent ? addresses.pacer(of: $0) : nil }
        guard keys.isLimited || subjects.isLimited || pacer != nil else { return await handler.respond(to: request) }
        let meter = RequestMeter(
            keys: keys,
            subjects: subjects,
            pacer: pacer,
            bringsContent: bringsContent,
            isStopping: isStopping
        )
        defer { meter.end() }
        let metered = meter.isPaced ? request.with(PacedBody(request.body, meter)) : request
        let response = await RequestMeter.$current.with(meter) { await handler.respond(to: metered) }
        if meter.isPaced { await meter.settle() }
        return response
    }

    private func limitedClient(of request: Request, exempt: [PeerRange]) -> AddressBlock? {
        if publicURL.hidesClient(of: request) { return .unknown }
        guard let address = IPAddress(request.clientAddress) else { return nil }
        let isExempt = publicURL.trusts(request.clientAddress) || exempt.contains { $0.contains(address) }
        return isExempt ? nil : AddressBlock(address)
    }
}

extension Request {
    fileprivate func with(_ body: any RequestBody) -> Request {
        var request = self
        request.body = body
        return request
    }
}

extension RequestHead {
    /// Whether content follows; the framing was checked before.
    fileprivate var bringsContent: Bool {
        if let length = fields["Content-Length"] { return length != "0" }
        return fields.contains("Transfer-Encoding")
    }
}

/// Applies the limits of clients before another handler, says which requests free space, and has sign-ins logged.
package struct RequestLimitHandler: RequestHandler {
    package typealias Refusal = @Sendable (UploadError, Request) -> Response

    private let handler: any RequestHandler
    private let limits: RequestLimits
    private let signIns: SignInLog
    private let refuse: Refusal

    /// - Parameters:
    ///   - handler: Gets requests that are within the limits.
    ///   - limits: The limits.
    ///   - signIns: Told the outcome of each request.
    ///   - refuse: The response to others, in the form of the listener's clients.
    package init(
        _ handler: any RequestHandler,
        _ limits: RequestLimits,
        _ signIns: SignInLog,
        refuse: @escaping Refusal
    ) {
        self.handler = handler
        self.limits = limits
        self.signIns = signIns
        self.refuse = refuse
    }

    package func respond(to request: Request) async -> Response {
        let note = signIns.concerns(request.head) ? SignInNote() : nil
        let isFreeing = request.head.method == .delete
        // Most requests are neither, and need no value of their task.
        let response =
            note == nil && !isFreeing
            ? await limits.respond(to: request, by: handler, refuse: refuse)
            : await FreeingWork.$isRunning.with(isFreeing) {
                await SignInNote.$current.with(note) {
                    await limits.respond(to: request, by: handler, refuse: refuse)
                }
            }
        if note != nil || response.trace.errorCode != nil { signIns.ended(request, response, note) }
        return response
    }
}
