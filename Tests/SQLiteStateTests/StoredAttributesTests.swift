import Foundation
import SluiceTesting
import StateRecords
import Testing
import UploadModel

@Suite("Attributes of objects, as they are stored", .timeLimit(.minutes(10)))
struct StoredAttributesTests {
    private static let names = ["cache-control", "x-amz-meta-name", "a\"b", "ä\u{1}", "", "/"]

    @Test("each has the members that its encoder writes, and is decoded as it was", arguments: UInt64(0)..<200)
    func roundTrip(_ seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let attributes = Self.attributes(&generator)
        let stored = try JSONText(attributes)
        #expect(try stored.decoded(as: ObjectAttributes.self) == attributes)
        #expect(try stored.attributes() == attributes)
        // Not as text: an encoder may escape control characters in another way.
        let members = try JSONSerialization.jsonObject(with: Data(stored.text.utf8)) as? NSDictionary
        let encoded = try JSONSerialization.jsonObject(with: JSONEncoder().encode(attributes)) as? NSDictionary
        #expect(members != nil && members == encoded)
    }

    @Test(
        "text that an encoder would not write is read as a decoder reads it, or refused as it refuses it",
        arguments: [
            #"{"headers":{},"tags":{}}"#, #"{"headers":{}}"#, #"{"tags":{}}"#, "{}", "[]", "",
            #"{"headers":{"a":"b","a":"c"},"tags":{}}"#, #"{"headers":{},"tags":{},"tags":{"a":"b"}}"#,
            #"{"headers":{},"tags":{},"more":1}"#, #"{"headers":{},"tags":{}} "#, #"{"headers":{},"tags":{}}x"#,
            #"{"headers":{},"tags":{},"crc64":18446744073709551615}"#,
            #"{"headers":{},"tags":{},"crc64":18446744073709551616}"#, #"{"headers":{},"tags":{},"crc64":01}"#,
            #"{"headers":{},"tags":{},"crc64":1.0}"#, #"{"headers":{},"tags":{},"crc64":-1}"#,
            #"{"headers":{},"tags":{},"crc64":null}"#, #"{"headers":{},"tags":{},"isHeld":tru}"#,
            #"{"headers":{},"tags":{},"checksum":{"algorithm":"crc32","isComposite":false,"value":[256]}}"#,
            #"{"headers":{},"tags":{},"checksum":{"algorithm":"crc32","isComposite":false,"value":[]}}"#,
            #"{"headers":{},"tags":{},"checksum":{"algorithm":"md4","isComposite":false}}"#,
            #"{"headers":{},"tags":{},"checksum":{"algorithm":"sha1"}}"#,
            #"{"headers":{},"tags":{},"entityTag":"a\u0041"}"#,
            #"{"headers":{},"tags":{},}"#, #"{"headers":{}"tags":{}}"#, #"{"headers":{},"tags":{},"entityTag":"a"#,
        ]
    )
    func otherText(_ text: String) {
        let stored = JSONText(stored: text)
        let decoded = Result { try stored.decoded(as: ObjectAttributes.self) }
        let read = Result { try stored.attributes() }
        #expect((try? read.get()) == (try? decoded.get()))
    }

    private static func attributes(_ generator: inout SeededGenerator) -> ObjectAttributes {
        func texts() -> [String: String] {
            var texts: [String: String] = [:]
            for name in names where Bool.random(using: &generator) {
                texts[name] = names.randomElement(using: &generator)
            }
            return texts
        }
        func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in .random(in: 0...255, using: &generator) } }
        func perhaps<Value>(_ value: @autoclosure () -> Value) -> Value? {
            Bool.random(using: &generator) ? value() : nil
        }
        var attributes = ObjectAttributes(headers: texts(), tags: texts())
        attributes.entityTag = perhaps("d41d8cd98f00b204e9800998ecf8427e-3")
        attributes.crc64 = perhaps(UInt64.random(in: 0...UInt64.max, using: &generator))
        attributes.checksum = perhaps(
            ObjectChecksum(
                ObjectChecksum.Algorithm.allCases.randomElement(using: &generator) ?? .sha256,
                isComposite: Bool.random(using: &generator),
                value: perhaps(bytes(32))
            )
        )
        attributes.isChecksumUsual = perhaps(Bool.random(using: &generator))
        attributes.partChecksums = perhaps(Data(bytes(64)))
        attributes.partSizes = perhaps(PartSizes([5, 5, 3]))
        attributes.isAppendable = perhaps(Bool.random(using: &generator))
        attributes.completing = perhaps(PartNumbers([1, 2, 7]))
        attributes.isHeld = perhaps(Bool.random(using: &generator))
        attributes.condition = perhaps(Bool.random(using: &generator) ? .hasTag("a\"b") : .isAbsent)
        return attributes
    }
}
