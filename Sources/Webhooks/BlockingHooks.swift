internal import Foundation
internal import UploadCore
package import UploadModel

/// Asks the app before something happens to an upload.
package struct BlockingHooks: UploadHooks {
    private let caller: HookCaller
    private let clock: any WallClock
    private let onFailure: @Sendable (HookName, UploadID, String) -> Void

    /// - Parameters:
    ///   - caller: Sends hooks.
    ///   - clock: For their timestamps.
    ///   - onFailure: Called with the reason if a hook call fails.
    package init(
        _ caller: HookCaller,
        clock: any WallClock,
        onFailure: @escaping @Sendable (HookName, UploadID, String) -> Void
    ) {
        self.caller = caller
        self.clock = clock
        self.onFailure = onFailure
    }

    package func wants(_ kind: EventRecord.Kind) -> Bool {
        HookName(kind).map(caller.settings.events.contains) ?? false
    }

    package var decidesUploads: Bool { !caller.settings.events.isDisjoint(with: [.preCreate, .preFinish]) }

    package func willCreate(_ upload: Upload) async throws(UploadError) -> CreationChanges {
        guard let reply = try await ask(.preCreate, upload) else { return CreationChanges() }
        if reply.rejectsUpload == true {
            refuse(reply)
            throw UploadError(.rejected, "The app does not accept this upload.")
        }
        use(reply)
        return reply.creationChanges
    }

    package func willFinish(_ upload: Upload) async throws(UploadError) {
        if let reply = try await ask(.preFinish, upload) { use(reply) }
    }

    package func willTerminate(_ upload: Upload) async throws(UploadError) {
        guard let reply = try await ask(.preTerminate, upload) else { return }
        if reply.rejectsTermination == true {
            refuse(reply)
            throw UploadError(.rejected, "The app does not allow this upload to be terminated.")
        }
        use(reply)
    }

    private func use(_ reply: HookReply) {
        if let response = reply.hookResponse { RequestContext.current?.add(response) }
    }

    private func refuse(_ reply: HookReply) {
        RequestContext.current?.refuse(with: reply.hookResponse ?? HookResponse())
    }

    /// - Returns: `nil` if the hook is not enabled, or if its call failed and the settings allow to continue.
    private func ask(_ name: HookName, _ upload: Upload) async throws(UploadError) -> HookReply? {
        let settings = caller.settings
        guard settings.events.contains(name) else { return nil }
        try RequestMeter.hold()
        let context = RequestContext.current
        var payload = HookPayload(name, upload, context?.info)
        var forwarded: [(name: String, value: String)] = []
        for name in settings.forwardedFields {
            guard let values = context?.fields(name), !values.isEmpty else { continue }
            payload.event.request.setHeader(name, values)
            forwarded += values.map { (name: name, value: $0) }
        }
        // They cannot be left out, because the app may decide by them.
        guard forwarded.reduce(0, { $0 + $1.name.utf8.count + $1.value.utf8.count }) <= Self.mostForwarded else {
            let names = settings.forwardedFields.joined(separator: ", ")
            throw UploadError(.invalidRequest, "The header fields \(names) must have at most 32 KiB in all.")
        }
        let id = "msg_" + UploadID.generate(at: clock.now).text
        let call = { @Sendable [payload, forwarded] (timeout: Duration) async throws(HookFailure) -> HookReply in
            try await caller.call(
                name,
                upload,
                payload,
                id: id,
                at: clock.now,
                timeout: timeout,
                fields: forwarded
            )
        }
        let (turns, subject) = (caller.turns, upload.subject)
        let (outcome, isCutOff) = await caller.whileServing { () -> (Result<HookReply, HookFailure>, Bool) in
            do throws(UserTurns.Refusal) {
                try await turns.begin(subject, within: settings.timeout)
            } catch {
                return (.failure(Self.failure(error)), Task.isCancelled)
            }
            defer { turns.end(subject) }
            // The time that others took is not the app's.
            return (await Self.repeated(within: settings.timeout, call), Task.isCancelled)
        }
        switch outcome {
        case .success(let reply): return reply
        case .failure(let error):
            onFailure(name, upload.id, error.description)
            // Whatever the settings say: the app may be well.
            if isCutOff { throw UploadError(.unavailable, "The server is stopping; try again.") }
            if settings.isFailOpen, error.isOutage { return nil }
            throw error.refusal
                ?? UploadError(
                    .unavailable,
                    error.isOutage
                        ? "The app that approves uploads cannot be reached; try again later."
                        : "The app that approves uploads gave no answer that can be used; try again later."
                )
        }
    }

    /// Bytes; receivers refuse larger header fields, or close the connection.
    private static let mostForwarded = 32 << 10

    private static func failure(_ refusal: UserTurns.Refusal) -> HookFailure {
        switch refusal {
        case .tooLate: return .noTurn("the call had no turn in time, because others ran")
        case .tooMany:
            var failure = HookFailure("too many calls for the same user wait")
            failure.refusal = UploadError(
                .tooManyRequests(RateRefusal(.subject, seconds: 1)),
                "Too many of your uploads wait for the app's approval."
            )
            return failure
        }
    }

    /// Repeats a call after failures that pass.
    ///
    /// What the app answered to one attempt is not undone by an outage in a later one.
    private static func repeated(
        within timeout: Duration,
        _ call: @Sendable (_ timeout: Duration) async throws(HookFailure) -> HookReply
    ) async -> Result<HookReply, HookFailure> {
        let deadline = ContinuousClock.now + timeout
        var pause = Duration.milliseconds(100)
        var answered: HookFailure?
        while true {
            do throws(HookFailure) {
                return .success(try await call(deadline - .now))
            } catch {
                if !error.isOutage { answered = error }
                // A receiver that is being restarted is back in a moment.
                if error.isTransient, .now + pause < deadline, (try? await Task.sleep(for: pause)) != nil {
                    pause *= 2
                    continue
                }
                return .failure(answered ?? error)
            }
        }
    }
}
