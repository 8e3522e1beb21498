internal import CloudCalls
internal import Foundation
internal import ObjectStore
internal import UploadModel
internal import VODKit

/// Posts events to apps' servers.
struct ApsaraEventPoster: Sendable {
    let callbacks: ApsaraCallbacks
    let sender: any CallbackSender
    /// The URL of an object, for people.
    let objectURL: @Sendable (_ bucket: String, _ key: String) -> String?
    let clock: any WallClock

    /// Posts an event, which the app answers with status 200.
    func post(_ claimed: ApsaraEvents.Claimed) async throws(DeliveryFailure) {
        let (event, target) = (claimed.event, claimed.details)
        if sender.problem(with: target.url) != nil {
            throw DeliveryFailure("the host of a callback URL is not in object.callbackHosts")
        }
        var message = CallbackMessage(
            id: "msg_\(event.mediaID)\(event.kind.rawValue)\(event.at)",
            host: nil,
            contentType: "application/json",
            content: document(of: event).json
        )
        if target.callback.isSigned {
            let key = callbacks.open(target.callback.key)
            message.fields = ApsaraCallback.fields(url: target.url, key: key, at: clock.now.unixSeconds)
        }
        let response: CallbackResponse
        do throws(CallbackFailure) {
            response = try await sender.send(message, to: target.url)
        } catch {
            throw DeliveryFailure(error.message)
        }
        guard response.status == 200 else {
            throw DeliveryFailure("the app answered with status \(response.status)")
        }
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
