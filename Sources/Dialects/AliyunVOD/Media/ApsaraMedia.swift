internal import Bytes
internal import Foundation
internal import HTTPWire
internal import UploadModel

/// Media of ApsaraVideo VOD: a video, an image or an attached media, from the call that begins its upload on.
struct ApsaraMedia: Sendable, Equatable, Codable {
    enum Kind: String, Sendable, Codable {
        /// Also audio.
        case video
        case image
        case attached
    }

    /// Content that has arrived.
    struct Content: Sendable, Equatable, Codable {
        /// The id of the object in the core: another object with the same key has another one.
        var objectID: String
        /// Bytes.
        var size: Int64
        /// Hexadecimal MD5; `nil` if it came in parts.
        var md5: String?
        /// Unix milliseconds.
        var storedAt: Int64
        /// See `ApsaraMedia.turn`.
        var turn: Int?
    }

    /// What the app says of it.
    struct Labels: Sendable, Equatable, Codable {
        var title = ""
        var description = ""
        var coverURL = ""
        var categoryIDs: [Int64] = []
        var tags: [String] = []
        var templateGroupID: String?
        var workflowID: String?
        var storageLocation: String?
        var userData: String?
        /// Unique within the application.
        var referenceID: String?
    }

    /// What an upload SDK reported of its progress.
    struct Progress: Sendable, Equatable, Codable {
        var uploadedBytes: Int64?
        /// 0 to 1.
        var ratio: Double?
        var deviceModel: String?
        var source: String?
        var address: String?
        /// Key of the last `ApsaraCheckpoint`.
        var checkpoint: String?
    }

    /// 32 hexadecimal digits: the time, and 80 random bits.
    var id: String
    var kind: Kind
    var application: String
    var subject: String?
    /// The API key under which it was begun; `nil` for none.
    var issuer: String?
    var bucket: String
    var key: String
    /// As the client named it, without directories.
    var fileName: String
    /// In lower case.
    var suffix: String
    /// Bytes, as announced.
    var announced: Int64?
    /// The most bytes that it may have, for limits besides what was announced.
    var maximumBytes: Int64?
    /// `default` or `cover` for an image; `watermark`, `subtitle` or `material` for attached media.
    var category: String?
    var labels: Labels
    var content: Content?
    var progress: Progress?
    /// Unix seconds of the last change.
    var modifiedAt: Int64
    /// Unix seconds: until then content may arrive, so readers look for it.
    var openUntil: Int64
    /// How often the right to write was given anew, because content was there; `nil` for never.
    var turn: Int?
    /// Whether it is being deleted, or was: then it is no longer there for anybody.
    var isDeleted = false

    static let recordKind = "aliyun media"

    /// The right to write its object, which ends with that.
    var right: String { WritingRight.End.withObject.grantID(for: id, turn: turn ?? 0) }

    var name: ObjectName { ObjectName(bucket: bucket, key: key) }

    /// What may be sent.
    var largest: Int64? {
        switch (announced, maximumBytes) {
        case (let one?, let other?): min(one, other)
        case (let one, let other): one ?? other
        }
    }

    /// What is kept of deleted media: which it was, and nothing that a user wrote.
    var remains: ApsaraMedia {
        var copy = self
        copy.labels = Labels()
        copy.fileName = ""
        copy.content = nil
        copy.progress = nil
        return copy
    }

    static func newID(at now: Date) -> String {
        let milliseconds = UInt64(min(max(now.unixMilliseconds, 0), 0xFFFF_FFFF_FFFF))
        let high = UInt64.random(in: 0...UInt64(UInt16.max))
        return hexadecimal(milliseconds << 16 | high) + hexadecimal(UInt64.random(in: 0...UInt64.max))
    }

    /// When it was made, in Unix milliseconds.
    static func time(ofID id: String) -> Int64 { Int64(id.prefix(12), radix: 16) ?? 0 }

    private static func hexadecimal(_ number: UInt64) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: 16 - text.utf8.count) + text
    }

    static func isID(_ text: String) -> Bool {
        text.utf8.count == 32
            && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }
}

/// The last segment of a path, with whichever slash.
struct ApsaraFileName: Sendable, Equatable {
    /// Most characters of a parameter with one, counted as Unicode scalars.
    static let longest = 2048

    let name: String
    /// In lower case; `nil` if there is none.
    let suffix: String?

    /// Some SDKs send the whole path on the device.
    init(path: String) {
        let name = path.split(whereSeparator: { $0 == "/" || $0 == "\\" }).last.map(String.init) ?? ""
        self.name = name
        guard let dot = name.lastIndex(of: "."), name.index(after: dot) != name.endIndex else {
            suffix = nil
            return
        }
        let text = name[name.index(after: dot)...].lowercasedASCII()
        suffix = Self.isSuffix(text) ? text : nil
    }

    /// Whether it could have come in a parameter.
    static func isAllowed(_ name: String) -> Bool {
        name.hasScalars(atMost: longest) && ApsaraParameters.isLegal(name)
    }

    static func isSuffix(_ text: String) -> Bool {
        (1...16).contains(text.utf8.count)
            && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) }
    }
}
