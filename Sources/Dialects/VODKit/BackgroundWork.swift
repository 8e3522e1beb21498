internal import CoreMetrics
package import GatewayKit
internal import Logging
package import MetricsKit
package import UploadCore
package import UploadModel

/// What a video service does in the background, again and again.
///
/// A record that fails delays no other one: it is put off, counted, and reported by one line of each look at the most.
package struct BackgroundWork: Sendable {
    /// Looks at all records of a kind, or at those that are due, and leaves out what is put off.
    ///
    /// Returns whether there may be more to do soon; throws the first failure, at its end.
    package typealias Step = @Sendable (_ failing: FailingRecords) async throws(UploadError) -> Bool

    package let failing: FailingRecords
    private let report: @Sendable (_ error: UploadError, _ failing: Int) -> Void

    /// - Parameters:
    ///   - context: What every module receives.
    ///   - service: Its name, for the log.
    package init(_ context: GatewayContext, of service: String) {
        let logger = context.logger
        let failures = context.metrics.counters(
            "sluice_video_work_failures_total",
            "Records of video services with which background work has failed; it is tried again.",
            by: "work"
        )
        self.init(failing: FailingRecords(clock: context.clock) { failures[$0].increment() }) { error, failing in
            logger.warning(
                "background work of a video service has failed; it will be tried again",
                metadata: ["service": "\(service)", "error": "\(error.message)", "records": "\(failing)"]
            )
        }
    }

    /// - Parameters:
    ///   - failing: What is put off.
    ///   - report: Called once for each step that has failed, with the number of records that are put off.
    package init(
        failing: FailingRecords,
        report: @escaping @Sendable (_ error: UploadError, _ failing: Int) -> Void
    ) {
        self.failing = failing
        self.report = report
    }

    /// - Parameters:
    ///   - pause: Between two looks; longer after a long look, so that it takes a tenth of the time at most.
    ///   - isFreeing: Whether it may use what a full disk keeps for deletions.
    ///   - bell: Wakes work of which there was none; `nil` looks after each pause.
    ///   - steps: What to do, one after the other, whatever fails.
    /// - Returns: What runs it.
    package func loop(
        every pause: Duration,
        isFreeing: Bool = false,
        wokenBy bell: EventBell? = nil,
        _ steps: Step...
    ) -> BackgroundLoop {
        BackgroundLoop {
            while !Task.isCancelled {
                let rings = bell?.count ?? 0
                let start = ContinuousClock.now
                let hasMore = await FreeingWork.$isRunning.with(isFreeing) { await look(steps) }
                // Who did not answer has cost the state nothing.
                let time = .now - start - failing.takeLostTime()
                try? await Task.sleep(for: Polling.pause(after: time, atLeast: pause))
                // What a node that has died has left can wait.
                if let bell, !hasMore { await bell.wait(after: rings, timeout: .seconds(60)) }
            }
        }
    }

    /// - Returns: Whether there may be more to do soon.
    func look(_ steps: [Step]) async -> Bool {
        var hasMore = false
        for step in steps {
            do throws(UploadError) {
                if try await step(failing) { hasMore = true }
            } catch {
                report(error, failing.count)
                hasMore = true
            }
        }
        return hasMore
    }
}

extension BackgroundWork {
    /// - Parameters:
    ///   - context: What every module receives.
    ///   - service: The name of the video service, for people.
    ///   - name: Of the metric.
    /// - Returns: What counts attempts to post its events; of documented metrics, it is there even if none is posted.
    package static func attempts(_ context: GatewayContext, of service: String, as name: String) -> CounterTable {
        context.metrics.counters(name, "Attempts to post an event of \(service) to the app.", by: "outcome")
    }
}

extension EventDelivery {
    /// - Parameters:
    ///   - context: What every module receives.
    ///   - service: The name of the video service, for people.
    ///   - outbox: The outbox.
    ///   - attempts: Counts attempts; see `BackgroundWork.attempts`.
    ///   - failing: Events that cannot be read.
    ///   - details: What else the delivery of an event needs; `nil` if it is not to be delivered now.
    ///   - post: Posts an event.
    package init(
        _ context: GatewayContext,
        of service: String,
        from outbox: MediaOutbox<Event>,
        counting attempts: CounterTable,
        failing: FailingRecords,
        details: @escaping @Sendable (CodedRecord<Event>) async throws(UploadError) -> Details?,
        post: @escaping @Sendable (Claimed) async throws(DeliveryFailure) -> Void
    ) {
        let logger = context.logger
        self.init(
            outbox: outbox,
            failing: failing,
            count: { attempts[$0 ? "delivered" : "failed"].increment() },
            report: { message in
                logger.warning(
                    "an event of \(service) was not delivered; it will be tried again",
                    metadata: ["error": "\(message)"]
                )
            },
            details: details,
            post: post
        )
    }

    /// What runs it.
    package var loop: BackgroundLoop { BackgroundLoop { await run() } }
}
