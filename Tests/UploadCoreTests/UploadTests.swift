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
}
