/// An event of an event stream (WHATWG HTML, "Server-sent events", https://html.spec.whatwg.org/multipage/server-sent-events.html).
package struct ServerSentEvent: Sendable, Equatable {
    /// The event type, one line; `nil` means `message`.
    package var name: String?
    /// The value that the client sends as `Last-Event-ID` when it reconnects, one line; `nil` keeps the previous id.
    package var id: String?
    /// Milliseconds before the client reconnects after the stream ends; `nil` keeps the previous value.
    package var retry: Int?
    /// Any text; the client receives each line end as a line feed.
    package var data: String

    package init(name: String? = nil, id: String? = nil, retry: Int? = nil, data: String) {
        self.name = name
        self.id = id
        self.retry = retry
        self.data = data
    }

    /// The event as sent, including the empty line that dispatches it.
    package var bytes: [UInt8] {
        var text = ""
        if let retry { text += "retry: \(retry)\n" }
        if let id { text += "id: \(Self.line(id))\n" }
        if let name { text += "event: \(Self.line(name))\n" }
        // CR LF is one Character.
        for line in data.split(omittingEmptySubsequences: false, whereSeparator: Self.isLineEnd) {
            text += "data: \(line)\n"
        }
        return Array((text + "\n").utf8)
    }

    /// A line that clients ignore; not followed by an empty line, which some clients treat as the end of an event.
    package static func comment(_ text: String) -> [UInt8] { Array(": \(line(text))\n".utf8) }

    private static func isLineEnd(_ character: Character) -> Bool {
        character == "\n" || character == "\r" || character == "\r\n"
    }

    /// A line end would start another field, and NUL would make clients ignore an id.
    private static func line(_ text: String) -> String { text.filter { !isLineEnd($0) && $0 != "\0" } }
}
