internal import Callbacks
internal import CloudCalls
internal import CoreMetrics
internal import Foundation
internal import MetricsKit
internal import ObjectStore
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Posts events to apps' servers, each until it was answered with status 200.
///
/// An event is claimed before it is sent, so that only one of several nodes sends it; the claim of a node that dies ends by
/// itself.
struct ApsaraEventDelivery: Sendable {
    /// Milliseconds; longer than an attempt takes.
    private static let claim: Int64 = 15_000
    private static let atOnce = 16

    let events: ApsaraEvents
    let callbacks: ApsaraCallbacks
    let sender: any CallbackSender
    /// The URL of an object, for people.
    let objectURL: @Sendable (_ bucket: String, _ key: String) -> String?
    /// By outcome.
    let counters: CounterTable
    let failing: FailingRecords
    let report: @Sendable (_ message: String) -> Void

    /// Sends until the task is cancelled.
    func run() async {
        let posting = EventPosting<ApsaraEvents.Claimed>(
            places: Self.atOnce,
            bell: events.bell,
            host: { $0.host },
            report: { report($0.message) }
        )
        await posting.run { (limit, last, running) throws(UploadError) in
            try await events.look(
                after: last,
                limit: limit,
                of: Self.atOnce,
                beside: running,
                for: Self.claim,
                failing: failing
            )
        } send: { (claimed) throws(UploadError) in
            try await send(claimed)
        }
    }

    private func send(_ claimed: ApsaraEvents.Claimed) async throws(UploadError) {
        let event = claimed.record.content
        if let problem = await attempt(event, claimed.url, claimed.callback) {
            // The process is stopping: the claim ends by itself.
            if Task.isCancelled { return }
            counters["failed"].increment()
            report(problem)
            try await events.postpone(claimed, by: Self.pause(after: event.attempts))
            // Another event of this node may be due before the next look.
            if event.attempts < 3 { ringLater() }
        } else {
            counters["delivered"].increment()
            // Then the next event of the same media is sent.
            try await events.remove(claimed.record.record.key)
        }
    }

    private func ringLater() {
        Task { [bell = events.bell] in
            try? await Task.sleep(for: .milliseconds(Self.pause(after: 1)))
            bell.ring()
        }
    }

    /// - Returns: What went wrong; `nil` if nothing did.
    private func attempt(_ event: ApsaraEvent, _ url: String, _ callback: ApsaraCallback) async -> String? {
        if sender.problem(with: url) != nil {
            return "the host of a callback URL is not in object.callbackHosts"
        }
        var message = CallbackMessage(
            id: "msg_\(event.mediaID)\(event.kind.rawValue)\(event.at)",
            host: nil,
            contentType: "application/json",
            content: document(of: event).json
        )
        if callback.isSigned {
            let key = callbacks.open(callback.key)
            message.fields = ApsaraCallback.fields(url: url, key: key, at: events.clock.now.unixSeconds)
        }
        do throws(CallbackFailure) {
            let response = try await sender.send(message, to: url)
            return response.status == 200 ? nil : "the app answered with status \(response.status)"
        } catch {
            return error.message
        }
    }

    /// Milliseconds before the next attempt: the vendor's three are a second apart; then 2, 4, 8 seconds, up to an hour.
    static func pause(after attempts: Int) -> Int64 {
        attempts < 3 ? 1000 : min(1000 << Int64(min(attempts - 2, 12)), 3_600_000)
    }

    /// Names as in the documentation; they differ between media.
    func document(of event: ApsaraEvent) -> AliyunDocument {
        let time = Date(timeIntervalSince1970: Double(event.at) / 1000)
        var document = AliyunDocument([
            ("EventTime", .text(ApsaraDocuments.time(time))), ("EventType", .text(event.type)),
        ])
        let url = objectURL(event.bucket, event.key)
        switch (event.kind, event.mediaKind) {
        case (.stored, .video):
            document.add("VideoId", event.mediaID)
            document.add("Size", .integer(event.size))
            document.add("FileUrl", url)
            document.add("Status", "success")
        case (.stored, let kind):
            document.add(kind == .image ? "ImageId" : "AttachedMediaId", event.mediaID)
            document.add("Size", .integer(event.size))
            document.add("FileURL", url)
            document.add("Status", "success")
        case (.pulled, _):
            document.add("JobId", event.pull?.jobID)
            document.add("SourceURL", event.pull?.url)
            document.add("Status", event.pull?.failure == nil ? "success" : "fail")
            if event.pull?.failure == nil { document.add("VideoId", event.mediaID) }
            document.add("ErrorCode", event.pull?.failure?.code)
            document.add("ErrorMessage", event.pull?.failure?.message)
        case (.deleted, let kind):
            document.add("MediaId", event.mediaID)
            document.add("MediaType", ApsaraDocuments.mediaType(kind))
            document.add("DeleteType", "all")
            document.add("Status", "success")
        }
        document.add("AppId", event.application)
        document.add("Extend", event.extend)
        return document
    }
}
