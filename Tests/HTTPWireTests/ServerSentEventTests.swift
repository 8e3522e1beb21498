import HTTPWire
import Testing

@Suite("Server-sent events", .timeLimit(.minutes(10)))
struct ServerSentEventTests {
    private func text(_ event: ServerSentEvent) -> String { String(decoding: event.bytes, as: UTF8.self) }

    @Test("an event has its fields, each on a line, followed by an empty line")
    func fields() {
        #expect(text(ServerSentEvent(data: "{}")) == "data: {}\n\n")
        let whole = ServerSentEvent(name: "upload.created", id: "17", retry: 2000, data: "x")
        #expect(text(whole) == "retry: 2000\nid: 17\nevent: upload.created\ndata: x\n\n")
        #expect(text(ServerSentEvent(data: "")) == "data: \n\n")
    }

    @Test("each line of the data becomes a line of the stream", arguments: ["a\nb", "a\rb", "a\r\nb"])
    func lines(data: String) {
        #expect(text(ServerSentEvent(data: data)) == "data: a\ndata: b\n\n")
        #expect(text(ServerSentEvent(data: data + "\n")) == "data: a\ndata: b\ndata: \n\n")
    }

    @Test("a value of one line cannot begin another line")
    func injection() {
        let event = ServerSentEvent(name: "a\ndata: b", id: "1\r\nid: 2\0", data: "c")
        #expect(text(event) == "id: 1id: 2\nevent: adata: b\ndata: c\n\n")
        #expect(ServerSentEvent.comment("keep\n\nalive") == Array(": keepalive\n".utf8))
    }
}
