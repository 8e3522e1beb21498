import Foundation
import Testing
import UploadModel

@Suite("Upload", .timeLimit(.minutes(10)))
struct UploadTests {
    @Test("a change of a copy does not reach the original, and makes them unequal")
    func copies() {
        let now = Date()
        let id = UploadID.generate(at: now)
        let upload = Upload(id: id, dialect: "tus", subject: "u", principal: "key_1", length: 5, createdAt: now)
        var copy = upload
        #expect(copy == upload)
        copy.offset = 5
        copy.metadata.values["filename"] = "a"
        #expect(upload.offset == 0 && upload.metadata.values.isEmpty)
        #expect(copy.offset == 5 && copy.metadata.values == ["filename": "a"] && copy != upload)
        copy.offset = 0
        copy.metadata = UploadMetadata()
        #expect(copy == upload)
    }

    @Test("the blob of an object gets a key of its own, since the object can be replaced while its bytes are read")
    func keys() {
        let now = Date()
        let id = UploadID.generate(at: now)
        var upload = Upload(id: id, dialect: "tus", subject: "u", principal: "key_1", length: 5, createdAt: now)
        upload.key = "a/b"
        #expect(NewBlob(of: upload).key == "a/b")
        upload.bucket = "media"
        #expect(NewBlob(of: upload).key == nil)
    }

    @Test("an id has the digits of Crockford's base32 only, in lower case, and at most 48 bits of time")
    func ids() throws {
        let digits = Array("0123456789abcdefghjkmnpqrstvwxyz".utf8)
        let plain = Array("01jxqfv2w8000000000000xyz7".utf8)
        for place in plain.indices {
            for byte in UInt8.min...UInt8.max {
                var changed = plain
                changed[place] = byte
                let text = String(decoding: changed, as: UTF8.self)
                let isID = digits.contains(byte) && (place > 0 || byte <= UInt8(ascii: "7"))
                #expect((UploadID(text)?.text == text) == isID, "\(place), \(byte)")
                #expect((UploadID(text[...]) != nil) == isID)
            }
        }
        #expect(UploadID(String(decoding: plain + [48], as: UTF8.self)) == nil)
    }

    @Test("a change of a usage and its opposite are none")
    func usages() {
        var change = UsageChange()
        (change.storedBytes, change.reservedBytes, change.openUploads) = (1, 2, 3)
        (change.periodBytes, change.periodUploads) = (4, 5)
        let opposite = change.negated
        #expect([opposite.storedBytes, opposite.reservedBytes, opposite.openUploads] == [-1, -2, -3])
        #expect([opposite.periodBytes, opposite.periodUploads] == [-4, -5])
    }

    @Test("when parts are not joined after all, only a checksum that the client asked for stays")
    func takenBack() {
        let checksum = ObjectChecksum(.crc32, value: [1, 2, 3, 4])
        for isUsual in [true, false, nil] {
            var attributes = ObjectAttributes(checksum: checksum)
            attributes.isChecksumUsual = isUsual
            attributes.takeBackCompletion()
            #expect(attributes.checksum == (isUsual == true ? nil : checksum) && attributes.isChecksumUsual == nil)
        }
    }
}
