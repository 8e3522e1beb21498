import Bytes
import HTTPWire
import SluiceTesting
import Testing
import Tus
import UploadCore
import UploadModel

@Suite("Storage that fails", .timeLimit(.minutes(10)))
struct TusStorageFaultTests {
    private static let full = UploadError(.storageFull, "The storage is full.")
    private static let broken = UploadError(.storageFailure, "The storage failed.")
    private static let upload: HTTPFields = ["Content-Type": "application/offset+octet-stream"]

    private let storage = FaultyStorage(InMemoryStorage())

    private func send(_ text: String, at offset: Int64, to path: String, of bench: TusBench) async throws -> Response {
        try await bench.respond(
            "PATCH \(path)",
            TusBench.append(at: offset),
            ScriptedBody([bytes(text)], announced: Int64(text.utf8.count))
        )
    }

    @Test("a full storage is 507, keeps stored bytes, and the upload continues once there is space")
    func fullDuringPatch() async throws {
        let bench = try TusBench(storage: storage)
        let path = try await bench.create(length: 11)
        storage.failAppend(afterBytes: 4, with: Self.full)
        let refused = try await send("hello world", at: 0, to: path, of: bench)
        #expect(refused.status == 507)
        #expect(refused.text.hasPrefix("ERR_STORAGE_FULL: "))
        #expect(refused.text.contains("ry again later"))
        #expect(refused.offset == nil)
        #expect(try await bench.respond("HEAD \(path)", TusBench.version).offset == "4")
        #expect(try await send("o world", at: 4, to: path, of: bench).offset == "11")
    }

    @Test("without space an upload is not created")
    func fullAtCreation() async throws {
        let bench = try TusBench(storage: storage)
        storage.plan.fail(.create, with: Self.full)
        let refused = try await bench.respond("POST /files", TusBench.creation(length: 11))
        #expect(refused.status == 507)
        #expect(refused.path == nil)
        #expect(try await bench.services.uploads.list(UploadQuery(limit: 10)).isEmpty)
        #expect(try await bench.respond("POST /files", TusBench.creation(length: 11)).status == 201)
    }

    @Test("a creation whose body fails because of the storage still creates the upload", arguments: [full, broken])
    func faultInCreationWithBody(error: UploadError) async throws {
        let bench = try TusBench(storage: storage)
        storage.failAppend(afterBytes: 4, with: error)
        let response = try await bench.respond(
            "POST /files",
            TusBench.creation(length: 11, Self.upload),
            ScriptedBody([bytes("hello world")], announced: 11)
        )
        #expect(response.status == 201)
        #expect(response.offset == "4")
        let path = try #require(response.path)
        #expect(try await send("o world", at: 4, to: path, of: bench).offset == "11")
    }

    @Test("if the offset cannot be read after that, the response is the fault")
    func offsetUnknownAfterFault() async throws {
        let bench = try TusBench(storage: storage)
        storage.plan.fail(.append, with: Self.full)
        // The append reads it once before it begins.
        storage.plan.fail(.durableLength, onCall: 2, with: Self.broken)
        let response = try await bench.respond(
            "POST /files",
            TusBench.creation(length: 11, Self.upload),
            ScriptedBody([bytes("hello world")], announced: 11)
        )
        #expect(response.status == 507)
        #expect(response.path == nil)
        #expect(response.offset == nil)
    }

    @Test("a fault of the storage is 500 without its cause, also on HEAD")
    func fault() async throws {
        let bench = try TusBench(storage: storage)
        let path = try await bench.create(length: 11)
        storage.plan.fail(.durableLength, count: 2, with: Self.broken)
        #expect(try await bench.respond("HEAD \(path)", TusBench.version).status == 500)
        let refused = try await send("hello", at: 0, to: path, of: bench)
        #expect(refused.status == 500)
        #expect(refused.text == "ERR_STORAGE_FAILURE: The storage failed.\n")
        #expect(refused.offset == nil)
    }

    @Test("HEAD is 423 while a completion cannot be recorded, so that clients do not start again")
    func fullOnHead() async throws {
        let bench = try TusBench(storage: storage)
        let path = try await bench.create(length: 5)
        storage.plan.fail(.synchronize, count: 2, with: Self.full)
        #expect(try await send("hello", at: 0, to: path, of: bench).status == 507)
        #expect(try await bench.respond("HEAD \(path)", TusBench.version).status == 423)
        let response = try await bench.respond("HEAD \(path)", TusBench.version)
        #expect(response.status == 200)
        #expect(response.offset == "5")
    }

    @Test("a checksum mismatch undoes a creation even if removing its bytes fails")
    func takingBackFails() async throws {
        let bench = try TusBench(storage: storage)
        storage.plan.fail(.remove, with: Self.broken)
        var fields = TusBench.creation(length: 5, Self.upload)
        fields.append("Upload-Checksum", "crc32c AAAAAA==")
        let response = try await bench.respond("POST /files", fields, ScriptedBody([bytes("hello")], announced: 5))
        #expect(response.status == 460)
        #expect(response.path == nil)
        #expect(try await bench.liveUploads().isEmpty)
    }
}
