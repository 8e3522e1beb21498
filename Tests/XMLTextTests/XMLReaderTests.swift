internal import Bytes
import Foundation
import Testing

@testable import XMLText

@Suite("Small XML documents", .timeLimit(.minutes(10)))
struct XMLReaderTests {
    private func failure(_ text: String, _ limits: XMLReader.Limits = .init()) -> XMLReader.Failure? {
        failure(Array(text.utf8), limits)
    }

    private func failure(_ bytes: [UInt8], _ limits: XMLReader.Limits = .init()) -> XMLReader.Failure? {
        var reader = XMLReader(bytes, limits: limits)
        do throws(XMLReader.Failure) {
            _ = try reader.read()
            return nil
        } catch {
            return error
        }
    }

    private func read(_ text: String) throws -> XMLNode {
        try #require(XMLNode.parse(Array(text.utf8)))
    }

    @Test("elements, text and everything between them are parsed")
    func document() throws {
        let root = try read(
            """
             \n<?xml version="1.0" encoding="UTF-8"?><!-- a <b> & c --><?x y?>
            <s:List xmlns:s="urn:x" xmlns='http://s3.amazonaws.com/doc/2006-03-01/' a = "&lt;>" >
              <Key>a&amp;b&lt;&gt;&quot;&apos;&#10;&#x1F600;</Key><s:Key>ü<!-- no -->1<![CDATA[<&]]]>2</s:Key><Empty/><Empty />
            </s:List >
            <!-- end -->

            """
        )
        #expect(root.name == "List" && root.children.map(\.name) == ["Key", "Key", "Empty", "Empty"])
        #expect(root.all("Key").map(\.text) == ["a&b<>\"'\n\u{1F600}", "ü1<&]2"])
        #expect(root["Empty"]?.isEmpty == true && root["None"] == nil)
        #expect(try read("\u{FEFF}<a>1</a>").text == "1")
    }

    @Test("line ends become one character in any form; references stay unchanged")
    func lines() throws {
        #expect(try read("<a>1\r\n2\r3\n4\r</a>").text == "1\n2\n3\n4\n")
        #expect(try read("<a>1&#13;&#10;2</a>").text == "1\r\n2")
        #expect(try read("<a><![CDATA[1\r\n2]]></a>").text == "1\n2")
    }

    @Test(
        "text that is not a document is refused",
        arguments: [
            "", " ", "x", "<", "<a", "<a>", "<a/", "</a>", "<a></b>", "<a></a", "<a/><b/>", "<a/>x", "x<a/>",
            "<a b></a>",
            "<a b=c></a>", "<a b=\"c></a>", "<a b='1' b='2'/>", "<a b='1'c='2'/>", "<a b='<'/>", "<a>&b;</a>",
            "<a>&lt</a>",
            "<a>&</a>", "<a>&#0;</a>", "<a>&#xD800;</a>", "<a>&#xFFFE;</a>", "<a>&#+1;</a>", "<a>&#x110000;</a>",
            "<a>&#;</a>",
            "<a>\u{1}</a>", "<a b='\u{0}'/>", "<a>\u{0}</a>", "<1/>", "<-a/>", "<a:/>", "< a/>", "<a><!-- -- --></a>",
            "<a><!-- </a>", "<a><![CDATA[ </a>", "<![CDATA[x]]><a/>", "<?x", "<a><b></a></b>", "&lt;<a/>", "<!-- -->",
        ]
    )
    func malformed(_ text: String) {
        #expect(failure(text) == .malformed)
    }

    @Test("a document type is refused, so that no entity can be declared")
    func entities() {
        for text in [
            "<!DOCTYPE a><a/>", "<!DOCTYPE a [<!ENTITY b \"bbbb\">]><a>&b;</a>", "<a><!ENTITY b \"b\"></a>",
            "<a><!doctype html></a>",
        ] {
            #expect(failure(text) == .refused, "\(text)")
        }
        #expect(failure([0x3C, 0x61, 0x3E, 0xFF, 0x3C, 0x2F, 0x61, 0x3E]) == .notUTF8)
    }

    @Test("documents beyond the limits are refused")
    func limits() {
        func attributes(_ count: Int) -> String { "<a " + (0..<count).map { "b\($0)='' " }.joined() + "/>" }
        #expect(failure(attributes(32)) == nil && failure(attributes(33)) == .refused)
        func deep(_ count: Int) -> String {
            String(repeating: "<a>", count: count) + String(repeating: "</a>", count: count)
        }
        #expect(failure(deep(16)) == nil && failure(deep(17)) == .refused)
        var few = XMLReader.Limits()
        few.elements = 3
        #expect(failure("<a><b/><b/></a>", few) == nil && failure("<a><b/><b/><b/></a>", few) == .refused)
        few.text = 4
        #expect(failure("<a>12<b>3456</b>&lt;4</a>", few) == nil)
        for text in ["<a>12345</a>", "<a>12<b/>34&lt;</a>", "<a>1234<![CDATA[5]]></a>"] {
            #expect(failure(text, few) == .refused, "\(text)")
        }
    }

    @Test("of 80,000 attributes only the allowed number is examined")
    func manyAttributes() {
        let text = "<a " + (0..<80_000).map { "attribute\($0)='1' " }.joined() + "/>"
        var reader = XMLReader(Array(text.utf8))
        #expect(throws: XMLReader.Failure.refused) { _ = try reader.read() }
        #expect(reader.position < 33 * 24)
    }

    @Test(
        "time is linear in the size",
        arguments: [
            "<e \(String(repeating: "x", count: 400))='1'/>", "<e>&amp;&amp;&#10;</e>", "<e><![CDATA[]]]]></e>",
            "<e b0='' b1='' b2='' b3='' b4='' b5='' b6='' b7='' b8=''/>", "<!-- - -->", "<e/>", "text &lt; ", "<?x ??>",
        ]
    )
    func linear(_ piece: String) throws {
        func seconds(_ bytes: Int) -> Double {
            let body = String(repeating: piece, count: max(1, bytes / piece.utf8.count))
            let document = Array("<a>\(body)</a>".utf8)
            var limits = XMLReader.Limits()
            limits.elements = .max
            limits.text = .max
            // CPU time, because other tests run at the same time; the minimum of several runs.
            func now() -> Double {
                var time = timespec()
                clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
                return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
            }
            return (0..<3).map { _ in
                let begin = now()
                #expect(failure(document, limits) == nil)
                return now() - begin
            }.min() ?? 0
        }
        // 16 times the bytes: with quadratic cost, 256 times the time.
        let isLinear = (0..<5).contains { _ in seconds(1 << 17) < 80 * max(seconds(1 << 13), 1e-4) }
        #expect(isLinear)
    }
}
