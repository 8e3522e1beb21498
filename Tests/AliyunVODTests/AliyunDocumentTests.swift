import Foundation
import Testing

@testable import CloudCalls

@Suite("Responses of Alibaba Cloud's OpenAPI", .timeLimit(.minutes(10)))
struct AliyunDocumentTests {
    private func json(_ document: AliyunDocument) -> String { String(decoding: document.json, as: UTF8.self) }

    private func xml(_ document: AliyunDocument, _ root: String = "R") -> String {
        String(decoding: document.xml(root), as: UTF8.self)
    }

    private static let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"

    @Test("an empty document is an object and an element")
    func empty() {
        #expect(json(AliyunDocument()) == "{}")
        #expect(xml(AliyunDocument()) == Self.head + "<R></R>\n")
    }

    @Test("each kind of value has its form in JSON and in XML")
    func values() {
        let inner = AliyunDocument([("A", .text("x")), ("B", .integer(1))])
        for (value, json, xml) in [
            (.text("a"), #""a""#, "<V>a</V>"), (.text(""), #""""#, "<V></V>"),
            (.integer(-5), "-5", "<V>-5</V>"), (.integer(.max), "9223372036854775807", "<V>9223372036854775807</V>"),
            (.number(0.5), "0.5", "<V>0.5</V>"), (.flag(true), "true", "<V>true</V>"),
            (.flag(false), "false", "<V>false</V>"),
            (.object(inner), #"{"A":"x","B":1}"#, "<V><A>x</A><B>1</B></V>"),
            (.list(of: "M", [.text("a"), .text("b")]), #"["a","b"]"#, "<V><M>a</M><M>b</M></V>"),
            (.list(of: "M", []), "[]", "<V></V>"),
            (.list(of: "M", [.object(inner)]), #"[{"A":"x","B":1}]"#, "<V><M><A>x</A><B>1</B></M></V>"),
            (.named("M", [.text("a")]), #"{"M":["a"]}"#, "<V><M>a</M></V>"),
            (.named("M", []), #"{"M":[]}"#, "<V></V>"),
        ] as [(AliyunDocument.Value, String, String)] {
            let document = AliyunDocument([("V", value)])
            #expect(self.json(document) == #"{"V":\#(json)}"#)
            #expect(self.xml(document) == Self.head + "<R>\(xml)</R>\n")
        }
    }

    @Test("texts are escaped")
    func escaping() {
        let document = AliyunDocument([("V", .text("<a href=\"x\">&'/ü\u{1}\n\u{2028}</a>"))])
        let parsed = try? JSONDecoder().decode([String: String].self, from: Data(document.json))
        #expect(parsed == ["V": "<a href=\"x\">&'/ü\u{1}\n\u{2028}</a>"])
        #expect(!json(document).contains(#"\/"#))
        let text = xml(document)
        #expect(text.contains("&lt;a href=") && text.contains("&amp;") && !text.contains("<a"))
        #expect(text.contains("ü\u{FFFD}\n\u{2028}"))
    }

    @Test("members stand in their order in XML, by name in JSON, and texts that are missing are left out")
    func members() {
        var document = AliyunDocument([("B", .text("1"))])
        document.add("A", "2")
        document.add("C", nil as String?)
        document.add("D", .flag(true))
        #expect(json(document) == #"{"A":"2","B":"1","D":true}"#)
        #expect(xml(document) == Self.head + "<R><B>1</B><A>2</A><D>true</D></R>\n")
    }

    @Test("a refusal has the members of the vendor")
    func failure() {
        let failure = AliyunCallFailure(400, "InvalidParameter", "`A` is <wrong>.")
        let document = failure.document(requestID: "r", host: "vod.example")
        #expect(
            json(document)
                == #"{"Code":"InvalidParameter","HostId":"vod.example","Message":"`A` is <wrong>.","RequestId":"r"}"#
        )
        #expect(
            xml(document, "Error")
                == Self.head
                + "<Error><RequestId>r</RequestId><HostId>vod.example</HostId><Code>InvalidParameter</Code><Message>`A` is &lt;wrong&gt;.</Message></Error>\n"
        )
    }
}
