internal import Bytes
internal import Glibc
internal import HTTPServer
internal import HTTPWire
internal import Logging
internal import Tracing

/// Takes what the log says of a request, by ascending names.
protocol RequestFields: ~Copyable {
    mutating func text(_ name: StaticString, _ value: String)
    mutating func number(_ name: StaticString, _ value: Int64)
    mutating func milliseconds(_ name: StaticString, _ value: Duration)
}

extension RequestSummary {
    /// The message of the line.
    static let message: StaticString = "request"

    /// - Parameter fields: Also gets what the client and others chose, of any length.
    func describe(to fields: inout some RequestFields & ~Copyable) {
        if isBroken { fields.text("broken", "true") }
        if let client = trace.clientAddress { fields.text("client", client) }
        if let code = trace.errorCode { fields.text("code", code) }
        if let dialect = trace.dialect { fields.text("dialect", dialect.name) }
        fields.number("in", bytesReceived)
        if let key = trace.note?.key { fields.text("key", key) }
        if let id = trace.mediaID { fields.text("media", id) }
        if let method { fields.text("method", method.rawValue) }
        fields.milliseconds("ms", duration)
        fields.number("out", bytesSent)
        fields.text("peer", peerAddress)
        if let refusal { fields.text("refusal", refusal) }
        fields.text("request", id)
        // The template, never the path: a path may hold the credential of an upload.
        if let route = trace.route { fields.text("route", route) }
        fields.number("status", Int64(status.code))
        if let subject = trace.note?.subject { fields.text("subject", subject) }
        if let scope = trace.scope { fields.text("trace_id", scope.context.traceID) }
        if let id = trace.uploadID ?? trace.scope?.uploadID { fields.text("upload", id) }
    }
}

/// The fields as metadata, for any handler of the log.
struct MetadataFields: RequestFields {
    var metadata: Logger.Metadata = [:]

    mutating func text(_ name: StaticString, _ value: String) { metadata["\(name)"] = .string(value) }
    mutating func number(_ name: StaticString, _ value: Int64) { metadata["\(name)"] = .number(value) }
    mutating func milliseconds(_ name: StaticString, _ value: Duration) { metadata["\(name)"] = .milliseconds(value) }
}

/// How many bytes a line of JSON needs at most.
private struct JSONLineRoom: RequestFields {
    /// Of the time, level and message.
    var count = 96

    mutating func text(_ name: StaticString, _ value: String) { count += Self.ofText(name, value.utf8.count) }
    mutating func number(_ name: StaticString, _ value: Int64) { count += Self.ofNumber(name) }
    mutating func milliseconds(_ name: StaticString, _ value: Duration) { count += Self.ofNumber(name) }

    /// Four quotation marks, a comma and a colon; a byte that is escaped becomes six.
    static func ofText(_ name: StaticString, _ count: Int) -> Int { 6 + name.utf8CodeUnitCount + 6 * count }

    /// Two quotation marks, a comma, a colon, and 20 digits, a sign or a point among them.
    static func ofNumber(_ name: StaticString) -> Int { 24 + name.utf8CodeUnitCount }
}

/// Writes the line of a request as JSON, byte by byte.
///
/// Each request has one: by way of metadata and strings it cost half as much as a small request itself.
///
/// Invariant for the pointer: it is used only in `write`, and a field is written only if there is room for it. Who sent
/// the request may become known after the room was counted, by a task that outlives it; then the line is without it.
struct JSONLine: RequestFields, ~Copyable {
    private let start: UnsafeMutablePointer<UInt8>
    private var count = 0
    /// How many bytes fields may have.
    private var room: Int
    /// Whether a field was left out.
    private var isShort = false
    /// Bytes on the stack, into which nearly every line fits.
    private static let usual = 1024

    /// Calls `body` with the line, which has no line feed.
    static func withBytes(of summary: RequestSummary, at time: timespec, _ body: (UnsafeBufferPointer<UInt8>) -> Void) {
        if write(summary, at: time, in: usual, mustFit: true, body) { return }
        var room = JSONLineRoom()
        summary.describe(to: &room)
        _ = write(summary, at: time, in: room.count, mustFit: false, body)
    }

    /// - Returns: Whether `body` was called.
    private static func write(
        _ summary: RequestSummary,
        at time: timespec,
        in size: Int,
        mustFit: Bool,
        _ body: (UnsafeBufferPointer<UInt8>) -> Void
    ) -> Bool {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: size) { bytes in
            guard let start = bytes.baseAddress else { return false }
            var line = JSONLine(start: start, room: bytes.count - JSONLineRoom().count)
            line.put("{\"time\":\"")
            line.put(time)
            line.put("\",\"level\":\"info\",\"message\":\"")
            line.put(RequestSummary.message)
            line.put("\"")
            summary.describe(to: &line)
            line.put("}")
            if line.isShort && mustFit { return false }
            body(UnsafeBufferPointer(start: start, count: line.count))
            return true
        }
    }

    private init(start: UnsafeMutablePointer<UInt8>, room: Int) {
        self.start = start
        self.room = room
    }

    mutating func text(_ name: StaticString, _ value: String) {
        guard begin(name, JSONLineRoom.ofText(name, value.utf8.count)) else { return }
        put(UInt8(ascii: "\""))
        var value = value
        value.withUTF8 { bytes in
            guard let first = bytes.baseAddress else { return }
            if JSONObjectWriter.isPlain(bytes) {
                (start + count).update(from: first, count: bytes.count)
                count += bytes.count
            } else {
                for byte in bytes { JSONObjectWriter.escape(byte) { put($0) } }
            }
        }
        put(UInt8(ascii: "\""))
    }

    mutating func number(_ name: StaticString, _ value: Int64) {
        guard begin(name, JSONLineRoom.ofNumber(name)) else { return }
        if value < 0 { put(UInt8(ascii: "-")) }
        put(value.magnitude)
    }

    mutating func milliseconds(_ name: StaticString, _ value: Duration) {
        guard begin(name, JSONLineRoom.ofNumber(name)) else { return }
        let microseconds = UInt64(clamping: value.microseconds)
        put(microseconds / 1000)
        put(UInt8(ascii: "."))
        put(microseconds % 1000, digits: 3)
    }

    /// - Parameters:
    ///   - name: The name of the member.
    ///   - size: How many bytes the member needs.
    /// - Returns: Whether there is room for it.
    private mutating func begin(_ name: StaticString, _ size: Int) -> Bool {
        guard size <= room else {
            isShort = true
            return false
        }
        room -= size
        put(UInt8(ascii: ","))
        put(UInt8(ascii: "\""))
        put(name)
        put(UInt8(ascii: "\""))
        put(UInt8(ascii: ":"))
        return true
    }

    private mutating func put(_ byte: UInt8) {
        start[count] = byte
        count += 1
    }

    private mutating func put(_ text: StaticString) {
        (start + count).update(from: text.utf8Start, count: text.utf8CodeUnitCount)
        count += text.utf8CodeUnitCount
    }

    private mutating func put(_ number: UInt64) {
        var digits = 1
        var rest = number
        while rest >= 10 {
            rest /= 10
            digits += 1
        }
        put(number, digits: digits)
    }

    /// The last `digits` digits of a number.
    private mutating func put(_ number: UInt64, digits: Int) {
        var rest = number
        for index in (count..<count + digits).reversed() {
            start[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        }
        count += digits
    }

    /// RFC 3339, to the millisecond, in UTC.
    private mutating func put(_ time: timespec) {
        let (days, second) = CivilCalendar.split(Int64(time.tv_sec))
        let date = CivilCalendar.date(fromDays: days)
        put(UInt64(clamping: date.year), digits: 4)
        put(UInt8(ascii: "-"))
        put(UInt64(clamping: date.month), digits: 2)
        put(UInt8(ascii: "-"))
        put(UInt64(clamping: date.day), digits: 2)
        put(UInt8(ascii: "T"))
        put(UInt64(clamping: second / 3600), digits: 2)
        put(UInt8(ascii: ":"))
        put(UInt64(clamping: second / 60 % 60), digits: 2)
        put(UInt8(ascii: ":"))
        put(UInt64(clamping: second % 60), digits: 2)
        put(UInt8(ascii: "."))
        put(UInt64(clamping: time.tv_nsec / 1_000_000), digits: 3)
        put(UInt8(ascii: "Z"))
    }
}
