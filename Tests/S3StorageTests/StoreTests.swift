import Bytes
import Foundation
import SluiceTesting
import Testing
import UploadModel

@testable import S3Storage

@Suite("The mark of a store, and objects without records", .timeLimit(.minutes(10)))
struct StoreTests {
    private let written = Date(timeIntervalSince1970: 1_749_945_600)

    @Test("a mark is read back, and is neither a blob nor a key for one")
    func mark() async throws {
        let store = try FakeStore()
        let storage = store.storage()
        #expect(try await storage.storedMark() == nil)
        let mark = StoreMark(id: "0123456789abcdef0123456789abcdef", epoch: .max)
        try await storage.storeMark(mark)
        #expect(try await storage.storedMark() == mark)
        #expect(Array(store.objects.keys) == [".sluice.store"])
        #expect(try await !storage.hasBlobs())
        try await storage.findBlobs { Issue.record("\($0)") }
        var blob = NewBlob(UploadID.generate(at: written), createdAt: written)
        blob.key = ".sluice.store"
        let new = blob
        #expect(await errorCode { () async throws(UploadError) in try await storage.create(new) } == .rejected)
        store.put("{", at: ".sluice.store", owner: nil)
        #expect(await errorCode { () async throws(UploadError) in try await storage.storedMark() } == .storageFailure)
        await store.shutDown()
    }

    @Test(
        "objects are found by the upload that they name or the id in their key, and can be read once they are adopted"
    )
    func adopts() async throws {
        let store = try FakeStore()
        let storage = store.storage()
        let (named, inKey) = (UploadID.generate(at: written), UploadID.generate(at: written))
        store.put("chosen", at: "a/chosen.mp4", owner: named)
        store.put("template", at: "2025/\(inKey).mp4", owner: nil)
        store.put("somebody else's", at: "index.html", owner: nil)
        store.put("tail", at: ".sluice/\(UploadID.generate(at: written))/00", owner: nil)
        #expect(try await storage.hasBlobs())
        var found: [FoundBlob] = []
        try await storage.findBlobs { found.append($0) }
        #expect(Set(found.map(\.id)) == [named, inKey])
        for blob in found {
            #expect(blob.content == .whole)
            try await storage.adopt(blob)
            try await storage.adopt(blob)
        }
        #expect(try await storage.head(of: named, length: 10) == Array("chosen".utf8))
        #expect(try await storage.open(inKey).size == 8)
        await store.shutDown()
    }

    @Test("tail objects of blobs without a record are kept longer than others")
    func unknownTails() async throws {
        let store = try FakeStore()
        let storage = store.storage()
        store.put("tail", at: ".sluice/\(UploadID.generate(at: written))/00", owner: nil)
        let later = written.addingTimeInterval(3600)
        #expect(try await storage.removeLeftovers(from: later, ofUnknownFrom: written) == 0)
        #expect(try await storage.removeLeftovers(from: later, ofUnknownFrom: later) == 1)
        #expect(store.objects.isEmpty)
        await store.shutDown()
    }
}
