internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// Serialises events for streams, each with one line of JSON.
enum EventText {
    private struct Event: Encodable {
        var id: String
        var type: String
        var time: String
        var upload: UploadView
    }

    private struct Snapshot: Encodable {
        var type: String
        var time: String
        var upload: UploadView
    }

    private struct Notice: Encodable {
        var type: String
        var time: String
    }

    private struct Progress: Encodable {
        struct Upload: Encodable {
            var id: String
            var subject: String?
            var offset: Int64
            var length: Int64?
        }

        var type = EventRecord.Kind.progress.eventName
        var time: String
        var upload: Upload
        var bytesPerSecond: Int64
        var secondsLeft: Int64?
    }

    static func event(_ event: EventRecord) -> [UInt8] {
        let name = event.kind.eventName
        let content = Event(
            id: event.id,
            type: name,
            time: JSONResponse.timestamp(event.occurredAt),
            upload: UploadView(event.upload)
        )
        return ServerSentEvent(name: name, id: String(event.sequence), data: json(content)).bytes
    }

    /// The current state of an upload: it includes everything up to `sequence`, later events follow.
    static func snapshot(_ upload: Upload, at now: Date, sequence: Int64) -> [UInt8] {
        let content = Snapshot(type: "snapshot", time: JSONResponse.timestamp(now), upload: UploadView(upload))
        return ServerSentEvent(name: "snapshot", id: String(sequence), retry: retry, data: json(content)).bytes
    }

    /// Announces that later events follow; `reset` means that the client has missed some.
    static func notice(_ name: String, at now: Date, sequence: Int64) -> [UInt8] {
        let content = Notice(type: name, time: JSONResponse.timestamp(now))
        return ServerSentEvent(name: name, id: String(sequence), retry: retry, data: json(content)).bytes
    }

    /// Without an id: progress is not recorded, so a reconnecting client does not get it again.
    static func progress(of upload: Upload, by meter: ProgressMeter, at now: Date) -> [UInt8] {
        let content = Progress(
            time: JSONResponse.timestamp(now),
            upload: Progress.Upload(
                id: upload.id.text,
                subject: upload.subject,
                offset: meter.offset,
                length: upload.length
            ),
            bytesPerSecond: meter.bytesPerSecond,
            secondsLeft: upload.length.flatMap(meter.secondsLeft(until:))
        )
        return ServerSentEvent(name: content.type, data: json(content)).bytes
    }

    private static func json(_ value: some Encodable) -> String {
        String(decoding: JSONResponse.encode(value).dropLast(), as: UTF8.self)
    }

    /// Milliseconds.
    private static let retry = 2000
}
