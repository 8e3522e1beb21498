import Bytes
import Digests
import HTTPWire
import SluiceTesting
import Testing
import Tus
import UploadCore
import UploadModel

@Suite("Interrupted bodies", .timeLimit(.minutes(10)))
struct TusBreakingOffTests {
    @Test("HEAD ends a stalled PATCH and returns the offset after its bytes")
    func headTakesOver() async throws {
        let bench = try TusBench()
        let path = try await bench.create(length: 11)
        let gate = ScriptedBody.Gate()
        async let first = bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 0),
            ScriptedBody([bytes("hello ")], announced: 11, ending: .stall(gate))
        )
        await gate.waitUntilStalled()
        let response = try await bench.respond("HEAD \(path)", TusBench.version)
        #expect(response.status == 200)
        #expect(response.offset == "6")
        let interrupted = try await first
        #expect(interrupted.status == 423)
        #expect(interrupted.text.hasPrefix("ERR_UPLOAD_INTERRUPTED: "))
        #expect(interrupted.offset == nil)
        #expect(interrupted.closesConnection)
    }

    @Test("a repeated PATCH ends the stalled one, and its 409 has the offset (TUSKit)")
    func repetitionGetsOffset() async throws {
        let bench = try TusBench()
        let path = try await bench.create(length: 11)
        let gate = ScriptedBody.Gate()
        async let first = bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 0),
            ScriptedBody([bytes("hel"), bytes("lo ")], announced: 11, ending: .stall(gate))
        )
        await gate.waitUntilStalled()
        let again = try await bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 0),
            ScriptedBody([bytes("hello world")], announced: 11)
        )
        #expect(again.status == 409)
        #expect(again.offset == "6")
        #expect(try await first.status == 423)
        let rest = try await bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 6),
            ScriptedBody([bytes("world")], announced: 5)
        )
        #expect(rest.status == 204)
        #expect(rest.offset == "11")
    }

    @Test("DELETE ends a stalled PATCH")
    func deleteTakesOver() async throws {
        let bench = try TusBench()
        let path = try await bench.create(length: 11)
        let gate = ScriptedBody.Gate()
        async let first = bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 0),
            ScriptedBody([bytes("hello ")], announced: 11, ending: .stall(gate))
        )
        await gate.waitUntilStalled()
        #expect(try await bench.respond("DELETE \(path)", TusBench.version).status == 204)
        #expect(try await first.status == 423)
        #expect(try await bench.respond("HEAD \(path)", TusBench.version).status == 410)
    }

    @Test("a request whose upload is stopped fails with tusd's code", arguments: [true, false])
    func stopped(isCreation: Bool) async throws {
        let bench = try TusBench()
        let gate = ScriptedBody.Gate()
        let body = ScriptedBody([bytes("hello ")], announced: 11, ending: .stall(gate))
        let path = isCreation ? "" : try await bench.create(length: 11)
        let type: HTTPFields = ["Content-Type": "application/offset+octet-stream"]
        async let first =
            isCreation
            ? bench.respond("POST /files", TusBench.creation(length: 11, type), body)
            : bench.respond("PATCH \(path)", TusBench.append(at: 0), body)
        await gate.waitUntilStalled()
        let upload = try #require(try await bench.liveUploads().first)
        try await bench.services.uploads.stop(upload.id, response: HookResponse(status: nil, body: nil, fields: [:]))
        let response = try await first
        #expect(response.status == 400)
        #expect(response.text.hasPrefix("ERR_UPLOAD_STOPPED: "))
        #expect(!response.fields.contains("Upload-Expires"))
        #expect(try await bench.liveUploads().isEmpty)
    }

    @Test(
        "bytes of an interrupted PATCH are kept",
        arguments: [
            (SourceFailure.disconnected, 400, "ERR_BODY_INCOMPLETE"),
            (.timedOut, 408, "ERR_READ_TIMEOUT"),
            (.shuttingDown, 503, "ERR_UNAVAILABLE"),
            (.malformed("bad chunk"), 400, "ERR_INVALID_REQUEST"),
        ]
    )
    func keepsWhatCame(failure: SourceFailure, status: Int, code: String) async throws {
        let bench = try TusBench()
        let path = try await bench.create(length: 11)
        let broken = try await bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 0),
            ScriptedBody([bytes("hello ")], announced: nil, ending: .failure(failure))
        )
        #expect(broken.status.code == status)
        #expect(broken.text.hasPrefix(code + ": "))
        #expect(broken.offset == nil)
        #expect(try await bench.respond("HEAD \(path)", TusBench.version).offset == "6")
    }

    @Test("with a checksum, no bytes of an interrupted PATCH are kept")
    func checksumKeepsNothing() async throws {
        let bench = try TusBench()
        let path = try await bench.create(length: 11)
        let digest = Base64.encode(Digest.hash("hello world".utf8, .sha1))
        let broken = try await bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 0, ["Upload-Checksum": "sha1 \(digest)"]),
            ScriptedBody([bytes("hello ")], announced: 11, ending: .failure(.disconnected))
        )
        #expect(broken.status == 400)
        #expect(try await bench.respond("HEAD \(path)", TusBench.version).offset == "0")
    }

    @Test("while the server stops, PATCH is refused temporarily and HEAD still works")
    func shutdown() async throws {
        let bench = try TusBench()
        let path = try await bench.create(length: 5)
        bench.services.uploads.interruptAll()
        let refused = try await bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 0),
            ScriptedBody([bytes("hello")], announced: 5)
        )
        #expect(refused.status == 503)
        #expect(refused.fields["Retry-After"] == "1")
        #expect(refused.closesConnection)
        #expect(try await bench.respond("HEAD \(path)", TusBench.version).offset == "0")
    }

    // MARK: Creation with a body

    private static let upload: HTTPFields = ["Content-Type": "application/offset+octet-stream"]

    @Test(
        "a creation with an interrupted body still returns the URL and the offset",
        arguments: [
            SourceFailure.disconnected, .timedOut, .shuttingDown, .interrupted,
        ]
    )
    func creationSurvives(failure: SourceFailure) async throws {
        let bench = try TusBench()
        let response = try await bench.respond(
            "POST /files",
            TusBench.creation(length: 11, Self.upload),
            ScriptedBody([bytes("hello ")], announced: 11, ending: .failure(failure))
        )
        #expect(response.status == 201)
        #expect(response.offset == "6")
        #expect(response.closesConnection)
        let path = try #require(response.path)
        let rest = try await bench.respond(
            "PATCH \(path)",
            TusBench.append(at: 6),
            ScriptedBody([bytes("world")], announced: 5)
        )
        #expect(rest.status == 204)
        #expect(rest.offset == "11")
    }

    @Test("a creation that is interrupted by the end of the server keeps its bytes")
    func creationAtShutdown() async throws {
        let bench = try TusBench()
        let gate = ScriptedBody.Gate()
        async let creation = bench.respond(
            "POST /files",
            TusBench.creation(length: 11, Self.upload),
            ScriptedBody([bytes("hello ")], announced: 11, ending: .stall(gate))
        )
        await gate.waitUntilStalled()
        bench.services.uploads.interruptAll()
        let response = try await creation
        #expect(response.status == 201)
        #expect(response.offset == "6")
        #expect(response.closesConnection)
    }

    @Test("with a checksum, a creation with an interrupted body begins at 0")
    func creationWithChecksum() async throws {
        let bench = try TusBench()
        let digest = Base64.encode(Digest.hash("hello world".utf8, .sha1))
        var fields = TusBench.creation(length: 11, Self.upload)
        fields.append("Upload-Checksum", "sha1 \(digest)")
        let response = try await bench.respond(
            "POST /files",
            fields,
            ScriptedBody([bytes("hello ")], announced: 11, ending: .failure(.disconnected))
        )
        #expect(response.status == 201)
        #expect(response.offset == "0")
    }

    @Test("a creation whose body is malformed leaves no upload")
    func malformedCreation() async throws {
        let bench = try TusBench()
        let response = try await bench.respond(
            "POST /files",
            TusBench.creation(length: 11, Self.upload),
            ScriptedBody([bytes("hello ")], announced: nil, ending: .failure(.malformed("bad chunk")))
        )
        #expect(response.status == 400)
        #expect(response.path == nil)
        #expect(try await bench.liveUploads().isEmpty)
    }

    @Test("an empty upload is not created if its body is incomplete")
    func emptyCreation() async throws {
        let bench = try TusBench()
        let response = try await bench.respond(
            "POST /files",
            TusBench.creation(length: 0, Self.upload),
            ScriptedBody(announced: nil, ending: .failure(.timedOut))
        )
        #expect(response.status == 400)
        #expect(response.text.hasPrefix("ERR_BODY_INCOMPLETE: "))
        #expect(try await bench.services.uploads.list(UploadQuery(limit: 10)).isEmpty)
    }
}
