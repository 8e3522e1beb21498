import HTTPClient
import HTTPServer
import HTTPWire
import Synchronization
import SystemIO
import Testing
import Transport
import UploadModel

@testable import Pulls

@Suite("HTTP origins", .timeLimit(.minutes(10)))
struct HTTPOriginTests {
    @Test(
        "Content-Range",
        arguments: [
            ("bytes 5-9/10", 5..<10, 10), ("Bytes 0-0/1", 0..<1, 1), ("bytes 5-9/*", 5..<10, nil),
            ("bytes */10", nil, 10), ("bytes */0", nil, 0),
        ] as [(String, Range<Int64>?, Int64?)]
    )
    func contentRange(_ text: String, _ bytes: Range<Int64>?, _ total: Int64?) throws {
        let range = try #require(ContentRange(text))
        #expect(range.bytes == bytes && range.total == total)
    }

    @Test(
        "text that is not a Content-Range is refused",
        arguments: [
            "", "bytes", "bytes 5-9", "bytes 9-5/10", "bytes 5-10/10", "bytes -5/10", "bytes 5-/10", "items 5-9/10",
            "bytes */*", "bytes 5-9/ten", "bytes 5-9/10/11", "bytes +5-9/10", "bytes 0-9223372036854775807/*",
            "bytes 0-99999999999999999999/*", "bytes 5-9/-1",
        ]
    )
    func noContentRange(_ text: String) {
        #expect(ContentRange(text) == nil)
    }

    /// What an origin that answers so is taken for.
    private func response(
        _ response: Response,
        path: String = "/a/file%20name.bin",
        rest: OriginRest? = nil
    ) async throws -> Result<OriginResponse, PullFailure> {
        let loops = try EventLoopGroup(count: 1)
        let server = try HTTPServer(
            address: SocketAddress(host: "127.0.0.1", port: 0),
            tls: nil,
            configuration: ServerConfiguration(),
            loops: loops,
            pool: BlockingPool(threads: 1, label: "test"),
            handler: Constant(response: response),
            observer: Constant(response: response)
        )
        let running = Task { await server.run() }
        let client = HTTPClient(userAgent: "test", addresses: .any)
        let origin = HTTPOrigin(
            client: client,
            publicClient: client,
            maximumRedirects: 2,
            connectTimeout: .seconds(300),
            stallTimeout: .seconds(300),
            minimumRate: 1,
            clock: SystemClock()
        )
        let result: Result<OriginResponse, PullFailure>
        do throws(PullFailure) {
            let request = PullRequest(url: "http://127.0.0.1:\(server.address.port)\(path)")
            result = .success(try await origin.open(request, rest: rest))
        } catch {
            result = .failure(error)
        }
        client.close()
        await server.shutDown()
        await running.value
        await loops.close()
        return result
    }

    private struct Constant: RequestHandler, ServerObserver {
        let response: Response

        func respond(to request: Request) async -> Response { response }
        func connectionOpened() {}
        func connectionClosed() {}
        func requestFinished(_ summary: RequestSummary) {}
    }

    /// The server sends its own time.
    private static let before = HTTPDate.format(1_750_000_000)
    private static let later = HTTPDate.format(9_000_000_000)

    @Test(
        "only a value that proves unchanged content is a validator",
        arguments: [
            (HTTPFields(["ETag": "\"a\""]), "\"a\""),
            (HTTPFields(["ETag": "W/\"a\""]), nil),
            (HTTPFields(["ETag": "a"]), nil),
            (HTTPFields(["ETag": "\"a\"", "Accept-Ranges": "none"]), nil),
            (HTTPFields(["ETag": "W/\"a\"", "Last-Modified": before]), nil),
            (HTTPFields(["Last-Modified": before]), before),
            (HTTPFields(["Last-Modified": later]), nil),
            (HTTPFields(["Last-Modified": "yesterday"]), nil),
            (HTTPFields(), nil),
        ] as [(HTTPFields, String?)]
    )
    func validators(_ fields: HTTPFields, _ expected: String?) async throws {
        let result = try await response(Response(200, fields, .bytes([1, 2, 3])))
        guard case .success(.whole(let content)) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(content.validator == expected)
        #expect(content.total == 3 && content.filename == "file name.bin" && content.contentType == nil)
    }

    @Test(
        "names that are paths are not accepted",
        arguments: ["/a%2Fb", "/a%5Cb", "/"]
    )
    func names(_ path: String) async throws {
        guard case .success(.whole(let content)) = try await response(Response(200), path: path) else {
            Issue.record("no content")
            return
        }
        #expect(content.filename == nil)
    }

    @Test("statuses are final or not; a part needs a request for it")
    func statuses() async throws {
        for status in [204, 206, 300, 304, 400, 403, 404, 416] as [Status] {
            let fields: HTTPFields = ["Content-Range": "bytes 1-2/3"]
            guard case .failure(let failure) = try await response(Response(status, fields)) else {
                Issue.record("\(status) was taken")
                continue
            }
            #expect(
                failure.consequence == .final
                    && failure.reason.message == "the origin responded with status \(status.code)"
            )
        }
        for status in [408, 429, 500, 503] as [Status] {
            guard case .failure(let failure) = try await response(Response(status, ["Retry-After": "7"])) else {
                Issue.record("\(status) was taken")
                continue
            }
            #expect(failure.consequence == .retry(after: 7))
        }
    }

    @Test("a part needs its position")
    func parts() async throws {
        let rest = OriginRest(offset: 2, validator: "\"a\"")
        let part = Response(206, ["Content-Range": "bytes 2-4/5"], .bytes([3, 4, 5]))
        guard case .success(.part(let content, 2, 5)) = try await response(part, rest: rest) else {
            Issue.record("no part")
            return
        }
        #expect(content.total == 5)
        for field in ["bytes 2-4", "items 1-2/3", "bytes */5"] {
            let result = try await response(Response(206, ["Content-Range": field], .bytes([3])), rest: rest)
            guard case .failure(let failure) = result else {
                Issue.record("\(field) was taken")
                continue
            }
            #expect(failure.reason.code == "range_unclear")
        }
        let beyond = Response(416, ["Content-Range": "bytes */2"])
        guard case .success(.nothing(total: 2)) = try await response(beyond, rest: rest) else {
            Issue.record("not the end")
            return
        }
    }

    @Test("an unexpected content coding is refused")
    func codings() async throws {
        let result = try await response(Response(200, ["Content-Encoding": "gzip"], .bytes([1])))
        guard case .failure(let failure) = result else {
            Issue.record("was taken")
            return
        }
        #expect(failure.reason.code == "content_encoded" && failure.consequence == .final)
    }
}
