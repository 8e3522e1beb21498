/// An event of an event stream (WHATWG HTML, "Server-sent events", https://html.spec.whatwg.org/multipage/server-sent-events.html).
package struct ServerSentEvent: Sendable, Equatable {
    /// The type of the event, one line; `nil` is `message`.
    package var name: String?
    /// What the client names as `Last-Event-ID` when it comes back, one line; `nil` leaves the one of before.
    package var id: String?
    /// Milliseconds after which the client is to come back when the stream ends; `nil` leaves that as it was.
    package var retry: Int?
    /// Any text; a client sees each line end as a line feed.
    package var data: String

    package init(name: String? = nil, id: String? = nil, retry: Int? = nil, data: String) {
        self.name = name
        self.id = id
        self.retry = retry
        self.data = data
    }

    /// The event as it is sent, with the empty line that dispatches it.
    package var bytes: [UInt8] {
        var text = ""
        if let retry { text += "retry: \(retry)\n" }
        if let id { text += "id: \(Self.line(id))\n" }
        if let name { text += "event: \(Self.line(name))\n" }
        // CR LF is one character.
        for line in data.split(omittingEmptySubsequences: false, whereSeparator: Self.isLineEnd) {
            text += "data: \(line)\n"
        }
        return Array((text + "\n").utf8)
    }

    /// A line that every client ignores; without an empty line behind it, which some take for the end of an event.
    package static func comment(_ text: String) -> [UInt8] { Array(": \(line(text))\n".utf8) }

    private static func isLineEnd(_ character: Character) -> Bool {
        character == "\n" || character == "\r" || character == "\r\n"
    }

    /// A value of one line must not begin another; with a NUL an id would be ignored.
    private static func line(_ text: String) -> String { text.filter { !isLineEnd($0) && $0 != "\0" } }
}
