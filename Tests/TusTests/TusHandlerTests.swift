import Bytes
import Foundation
import HTTPWire
import SluiceTesting
import Testing
import Tus
import UploadCore
import UploadModel

@Suite("Handler", .timeLimit(.minutes(10)))
struct TusHandlerTests {
    private static let upload: HTTPFields = ["Content-Type": "application/offset+octet-stream"]

    /// Requests that are refused because of their head.
    private static let refused: [(String, HTTPFields)] = [
        ("POST /files", ["Upload-Length": "5", "Content-Type": "application/offset+octet-stream"]),
        ("POST /files", ["Tus-Resumable": "1.0.0", "Upload-Length": "5"]),
        ("POST /files", TusBench.creation(length: 2000, upload)),
        ("POST /files", TusBench.creation(length: 4, upload)),
        ("POST /files", TusBench.creation(length: 5, ["Upload-Metadata": "a b c"])),
        ("PATCH /files/nothing", TusBench.append(at: 0)),
        ("PATCH {upload}", TusBench.append(at: 1)),
        ("PATCH {upload}", TusBench.append(at: 0, ["Upload-Checksum": "rot13 YQ=="])),
        ("PATCH {upload}", ["Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "text/plain"]),
        ("PATCH {small}", TusBench.append(at: 0)),
        ("PUT {upload}", TusBench.version),
    ]

    @Test("a request with an invalid head is refused without reading its body", arguments: refused)
    func refusalBeforeBody(line: String, fields: HTTPFields) async throws {
        // The first pull makes the server send 100 (Continue), and the client would send the body in vain.
        let bench = try TusBench()
        let path = try await bench.create(length: 5)
        let small = try await bench.create(length: 4)
        let body = ScriptedBody([bytes("hello")], announced: 5)
        let response = try await bench.respond(
            line.replacing("{upload}", with: path).replacing("{small}", with: small),
            fields,
            body
        )
        #expect(response.status.code >= 400)
        #expect(body.pulls == 0)
        // No upload was created either, not even temporarily.
        #expect(try await bench.services.uploads.list(UploadQuery(limit: 10)).count == 2)
    }

    @Test("a body with another content type is not read")
    func foreignBodyIsIgnored() async throws {
        let bench = try TusBench()
        let body = ScriptedBody([bytes("hello")], announced: 5)
        let response = try await bench.respond(
            "POST /files",
            TusBench.creation(length: 5, ["Content-Type": "video/mp4"]),
            body
        )
        #expect(response.status == 201)
        #expect(response.offset == nil)
        #expect(body.pulls == 0)
    }

    @Test("Location is absolute and below the URL that the client used")
    func location() async throws {
        let bench = try TusBench { request in "https://\(request.head.fields["Host"] ?? "?")/up/files/" }
        let response = try await bench.respond("POST /files", TusBench.creation(length: 5, ["Host": "a.example"]))
        let location = try #require(response.fields["Location"])
        let upload = try #require(try await bench.liveUploads().first)
        #expect(location == "https://a.example/up/files/\(try TestLocator.make().token(for: upload.id))")
    }

    @Test("metadata is stored as received and decoded if it is UTF-8")
    func metadata() async throws {
        let bench = try TusBench()
        let raw = "filename Z3LDvMOfZS5tcDQ=,filetype dmlkZW8vbXA0,flag,blob AP/+"
        _ = try await bench.respond("POST /files", TusBench.creation(length: 5, ["Upload-Metadata": raw]))
        let upload = try #require(try await bench.liveUploads().first)
        #expect(upload.metadata.raw == raw)
        #expect(upload.metadata.values == ["filename": "grüße.mp4", "filetype": "video/mp4", "flag": ""])
        #expect(upload.dialect == "tus")
        #expect(upload.principal == "key_test")
    }

    @Test("metadata can be as long as the settings allow, and not a byte longer")
    func metadataLimit() async throws {
        let bench = try TusBench(settings: TusSettings(maximumMetadataBytes: 100))
        let fitting = String(repeating: "k", count: 95) + " YQ=="
        let good = try await bench.respond("POST /files", TusBench.creation(length: 5, ["Upload-Metadata": fitting]))
        #expect(good.status == 201)
        let longer = try await bench.respond(
            "POST /files",
            TusBench.creation(length: 5, ["Upload-Metadata": "k" + fitting])
        )
        #expect(longer.status == 400)
        #expect(longer.text == "ERR_INVALID_METADATA: Upload-Metadata is longer than 100 bytes.\n")
        #expect(TusSettings().maximumMetadataBytes == 8192)
    }

    @Test("a metadata key that is not UTF-8 is refused, because it could not be returned")
    func foreignKey() async throws {
        let bench = try TusBench()
        // The parser's result for the bytes of a Latin-1 "ü".
        let raw = String(decoding: [0xFC, 0x20] + bytes("YQ=="), as: UTF8.self)
        let response = try await bench.respond("POST /files", TusBench.creation(length: 5, ["Upload-Metadata": raw]))
        #expect(response.status == 400)
        #expect(response.text.hasPrefix("ERR_INVALID_METADATA: Pair 1 "))
    }

    @Test("an upload of unknown length from another dialect is reported as such")
    func deferredLength() async throws {
        let storage = InMemoryStorage()
        let bench = try TusBench(storage: storage)
        let upload = Upload(
            id: UploadID.generate(at: bench.clock.now),
            dialect: "resumable",
            subject: nil,
            principal: "key_test",
            length: nil,
            createdAt: bench.clock.now
        )
        try await storage.create(upload.id)
        try await bench.state.insert(upload, consuming: nil)
        let path = "/files/" + (try TestLocator.make().token(for: upload.id))
        let patched = try await bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 0),
            ScriptedBody([bytes("hello")], announced: nil)
        )
        #expect(patched.status == 204)
        let response = try await bench.respond("HEAD \(path)", TusBench.version)
        #expect(response.offset == "5")
        #expect(response.fields["Upload-Defer-Length"] == "1")
        #expect(!response.fields.contains("Upload-Length"))
    }

    @Test("every listed route is served, and every served method is listed")
    func routes() async throws {
        let bench = try TusBench()
        let methods: [HTTPMethod] = [.get, .head, .post, .put, .patch, .delete, .options]
        for template in ["/files", "/files/{upload}"] {
            for method in methods {
                let path = template == "/files" ? template : try await bench.create(length: 5)
                let response = try await bench.respond("\(method) \(path)", TusBench.version)
                let isListed = TusHandler.routes.contains { $0 == (method, template) }
                if response.status != 405 { #expect(isListed, "\(method) \(template) answers \(response.status.code)") }
                // POST to an upload is listed for the override, GET for the format of its 405.
                if isListed, template == "/files" || method != .post && method != .get {
                    #expect(response.status != 405, "\(method) \(template)")
                }
            }
        }
    }

    @Test(
        "every response except to a preflight has the version",
        arguments: [
            "OPTIONS /files", "POST /files", "GET /files", "HEAD /files/x", "PATCH /files/x", "DELETE /files/x",
            "PUT /files/x/y",
        ]
    )
    func everyResponseNamesVersion(line: String) async throws {
        let bench = try TusBench()
        #expect(try await bench.respond(line, [:]).fields["Tus-Resumable"] == "1.0.0")
        #expect(try await bench.respond(line, TusBench.version).fields["Tus-Resumable"] == "1.0.0")
    }

    @Test("an upload whose completion was not recorded because of a crash is complete on HEAD")
    func recoversAfterCrash() async throws {
        let storage = InMemoryStorage()
        let bench = try TusBench(storage: storage)
        let path = try await bench.create(length: 5)
        let id = try #require(try await bench.liveUploads().first).id
        _ = await storage.append(to: id, at: 0, from: ArraySource(bytes("hello")), limit: 5, expecting: nil)
        let response = try await bench.respond("HEAD \(path)", TusBench.version)
        #expect(response.offset == "5")
        #expect(!response.fields.contains("Upload-Expires"))
        #expect(try await bench.services.media.media(id).size == 5)
    }
}
