import HTTPWire
import ResumableHTTP
import Testing
import UploadCore
import UploadModel

@Suite("Handler of Resumable Uploads", .timeLimit(.minutes(10)))
struct ResumableHTTPHandlerTests {
    private static let versions: [Int?] = [3, 4, 5, 6, 7, 8, nil]

    private static let badAppends: [(HTTPFields, Int)] = [
        (["Upload-Complete": "?0", "Upload-Offset": "0"], 415),
        (["Content-Type": "text/plain", "Upload-Complete": "?0", "Upload-Offset": "0"], 415),
        (["Content-Type": "application/partial-upload", "Upload-Complete": "?0"], 400),
        (["Content-Type": "application/partial-upload", "Upload-Complete": "?0", "Upload-Offset": "-1"], 400),
        (["Content-Type": "application/partial-upload", "Upload-Complete": "?0", "Upload-Offset": "x"], 400),
        (["Content-Type": "application/partial-upload", "Upload-Offset": "0"], 400),
        (["Content-Type": "application/partial-upload", "Upload-Complete": "1", "Upload-Offset": "0"], 400),
        (ResumableHTTPBench.append(nil, at: 0, isLast: false, ["Content-Digest": "sha-256=:YQ==:"]), 400),
        (ResumableHTTPBench.append(nil, at: 0, isLast: false, ["Content-Digest": "sha-256"]), 400),
    ]

    private static let badCreations: [(HTTPFields, Int)] = [
        (["Content-Type": "multipart/form-data; boundary=a"], 415),
        (["Content-Encoding": "gzip"], 415),
        (["Upload-Length": "6", "Upload-Complete": "?1"], 400),
        (["Upload-Length": "4", "Upload-Complete": "?0"], 400),
        (["Upload-Length": "2000", "Upload-Complete": "?0"], 413),
        (["Repr-Digest": "sha-256=:YQ==:"], 400),
    ]

    private static let recognized: [(HTTPMethod, HTTPFields, Bool)] = [
        (.post, ["Tus-Resumable": "1.0.0", "Upload-Complete": "?1"], false),
        (.options, ["Upload-Complete": "?1"], false),
        (.post, ["Upload-Complete": "?1", "Upload-Length": "1"], true),
        (.post, ["Upload-Incomplete": "?1"], true),
        (.post, ["Upload-Draft-Interop-Version": "6"], true),
        (.post, [:], true),
        (.post, ["Upload-Length": "1"], false),
        (.post, ["X-HTTP-Method-Override": "PATCH"], false),
        (.patch, ["Content-Type": "application/offset+octet-stream"], false),
        (.patch, ["Content-Type": "application/partial-upload"], true),
        (.head, [:], true),
    ]

    /// The field that says whether an upload is complete, as a text.
    private func isComplete(_ response: Response, _ version: Int?) -> Bool? {
        switch response.fields[version == 3 ? "Upload-Incomplete" : "Upload-Complete"] {
        case "?1": version != 3
        case "?0": version == 3
        default: nil
        }
    }

    @Test("an upload is completed in two requests", arguments: versions)
    func twoRequests(version: Int?) async throws {
        let bench = try ResumableHTTPBench()
        let upload = try await bench.create(version)
        let first = try await bench.respond(
            .patch,
            upload: upload,
            ResumableHTTPBench.append(version, at: 0, isLast: false),
            "hello"
        )
        #expect(first.status == (version.map { $0 <= 6 } ?? false ? 201 : 204))
        #expect(first.fields["Upload-Offset"] == "5")
        #expect(isComplete(first, version) == false)
        let head = try await bench.respond(
            .head,
            upload: upload,
            version.map { ["Upload-Draft-Interop-Version": "\($0)"] } ?? [:]
        )
        #expect(head.status == 204)
        #expect(head.fields["Upload-Offset"] == "5")
        #expect(head.fields["Cache-Control"] == "no-store")
        let last = try await bench.respond(
            .patch,
            upload: upload,
            ResumableHTTPBench.append(version, at: 5, isLast: true),
            " world"
        )
        #expect(last.status == 201)
        #expect(last.fields["X-State"] == "completed")
        #expect(last.fields["Upload-Offset"] == "11")
        #expect(isComplete(last, version) == true)
        #expect(last.fields["Upload-Draft-Interop-Version"] == version.map(String.init))
    }

    @Test("a client that supports interim responses gets the URL first", arguments: versions, [true, false])
    func interim(version: Int?, canInform: Bool) async throws {
        let bench = try ResumableHTTPBench(canInform: canInform)
        let response = try await bench.respond(.post, ResumableHTTPBench.fields(version, isLast: true), "hello")
        #expect(response.fields["X-State"] == "completed")
        let heads = bench.interim.all
        #expect(heads.isEmpty == (version == nil || !canInform))
        for head in heads { #expect(head.status == 104) }
        #expect(heads.isEmpty || heads[0].fields["Location"]?.hasPrefix("https://uploads.example/files/") == true)
    }

    @Test("a plain upload is complete at once", arguments: [HTTPMethod.post, .put])
    func plain(method: HTTPMethod) async throws {
        let bench = try ResumableHTTPBench()
        let response = try await bench.respond(method, [:], "hello")
        #expect(response.status == 201)
        #expect(response.fields["X-State"] == "completed")
        #expect(bench.interim.all.isEmpty)
    }

    @Test("the refusal of a wrong offset has the right one", arguments: versions)
    func wrongOffset(version: Int?) async throws {
        let bench = try ResumableHTTPBench()
        let upload = try await bench.create(version)
        let response = try await bench.respond(
            .patch,
            upload: upload,
            ResumableHTTPBench.append(version, at: 7, isLast: false),
            "hello"
        )
        #expect(response.status == 409)
        #expect(response.fields["Upload-Offset"] == "0")
        #expect(isComplete(response, version) == false)
        let problem = try response.problem
        #expect(problem["expected-offset"] as? Int == 0)
        #expect(problem["provided-offset"] as? Int == 7)
    }

    @Test(
        "an invalid append is refused, and changes nothing",
        arguments: badAppends
    )
    func badAppend(fields: HTTPFields, status: Int) async throws {
        let bench = try ResumableHTTPBench()
        let upload = try await bench.create()
        let response = try await bench.respond(.patch, upload: upload, fields, "hello")
        #expect(response.status.code == status)
        if status == 415 { #expect(response.fields["Accept-Patch"] == "application/partial-upload") }
        let head = try await bench.respond(.head, upload: upload)
        #expect(head.fields["Upload-Offset"] == "0")
    }

    @Test(
        "an invalid creation is refused, and leaves no upload",
        arguments: badCreations
    )
    func badCreation(fields: HTTPFields, status: Int) async throws {
        let bench = try ResumableHTTPBench()
        let response = try await bench.respond(.post, fields, "hello")
        #expect(response.status.code == status)
        #expect((response.fields["Upload-Limit"] != nil) == (status == 413))
        #expect(try await bench.services.uploads.list(UploadQuery(limit: 10)).isEmpty)
    }

    @Test("content beyond the length ends the upload since version 7", arguments: [6, 7])
    func overlength(version: Int) async throws {
        let bench = try ResumableHTTPBench()
        let upload = try await bench.create(version, length: 3)
        let response = try await bench.respond(
            .patch,
            upload: upload,
            ResumableHTTPBench.append(version, at: 0, isLast: false),
            "hello"
        )
        #expect(response.status == 400)
        let head = try await bench.respond(.head, upload: upload, ["Upload-Draft-Interop-Version": "\(version)"])
        #expect((head.status == 204) == (version == 6))
    }

    @Test("an upload that was deleted is gone, or not there for older versions", arguments: [6, 7])
    func deleted(version: Int) async throws {
        let bench = try ResumableHTTPBench()
        let upload = try await bench.create(version)
        let fields: HTTPFields = ["Upload-Draft-Interop-Version": "\(version)"]
        #expect(try await bench.respond(.delete, upload: upload, fields).status == 204)
        #expect(try await bench.respond(.head, upload: upload, fields).status == (version == 6 ? 404 : 410))
    }

    @Test("HEAD and DELETE with fields of an append are refused until version 6", arguments: [6, 7])
    func strayFields(version: Int) async throws {
        let bench = try ResumableHTTPBench()
        let upload = try await bench.create(version)
        for method in [HTTPMethod.head, .delete] {
            let response = try await bench.respond(
                method,
                upload: upload,
                ["Upload-Draft-Interop-Version": "\(version)", "Upload-Offset": "0"]
            )
            #expect(response.status == (version == 6 ? 400 : 204))
        }
    }

    @Test("other methods are refused with a list of the supported ones")
    func methods() async throws {
        let bench = try ResumableHTTPBench()
        let upload = try await bench.create()
        #expect(try await bench.respond(.get).fields["Allow"] == "OPTIONS, POST, PUT, PATCH")
        #expect(try await bench.respond(.put, upload: upload).fields["Allow"] == "OPTIONS, HEAD, GET, PATCH, DELETE")
        #expect(try await bench.respond(.head, upload: "nothing").status == 404)
    }

    @Test("a request without a key creates nothing")
    func unauthenticated() async throws {
        let bench = try ResumableHTTPBench()
        let response = try await bench.respond(.post, ["Authorization": "Bearer other"], "hello")
        #expect(response.status == 401)
    }

    @Test(
        "a request is recognized by its fields",
        arguments: recognized
    )
    func isMeant(method: HTTPMethod, fields: HTTPFields, isMeant: Bool) throws {
        let head = RequestHead(method: method, target: try RequestTarget(parsing: "/files"), fields: fields)
        #expect(ResumableHTTPHandler.isMeant(by: head) == isMeant)
    }
}
