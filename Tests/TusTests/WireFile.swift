import Foundation

/// A golden file: requests as clients send them, each with the expected response.
///
///     # What this shows, and where the requests come from.
///
///     @advance 3600                    something that happens before the request: see `TusWireTests`
///     PATCH /files/{upload} HTTP/1.1   lines end with CR LF on the wire; a chunked body is written as its lines
///     Upload-Offset: 0
///
///     hello
///     ---
///     HTTP/1.1 204 No Content          all fields of the response, in any order
///     Upload-Offset: 5
///     ===
///     …                                the next request
///
/// `{upload}` is the locator of the latest upload, `{id}` its id, and `{upload-1}` the locator of the first upload. A
/// line of a response's content can end with `…` for any further text.
struct WireFile: Sendable {
    struct Exchange: Sendable {
        var line: Int
        var directives: [[String]]
        var request: [String]
        var requestBody: [String]
        var responseHead: [String]
        var responseBody: [String]
    }

    struct Malformed: Error, CustomStringConvertible {
        let description: String
    }

    let exchanges: [Exchange]

    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fixtures/tus")

    /// Names of all files, without extension.
    static var names: [String] {
        let files = (try? FileManager.default.contentsOfDirectory(atPath: folder.path())) ?? []
        return files.filter { $0.hasSuffix(".wire") }.map { String($0.dropLast(5)) }.sorted()
    }

    init(name: String) throws {
        let text = try String(contentsOf: Self.folder.appending(path: name + ".wire"), encoding: .utf8)
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if lines.last == "" { lines.removeLast() }
        var exchanges: [Exchange] = []
        var index = 0
        while index < lines.count {
            var exchange = Exchange(
                line: index + 1,
                directives: [],
                request: [],
                requestBody: [],
                responseHead: [],
                responseBody: []
            )
            while index < lines.count, lines[index].isEmpty || lines[index].first == "#" || lines[index].first == "@" {
                if lines[index].first == "@" {
                    exchange.directives.append(lines[index].dropFirst().split(separator: " ").map(String.init))
                }
                index += 1
            }
            exchange.line = index + 1
            (exchange.request, exchange.requestBody) = Self.message(lines, &index, end: "---")
            (exchange.responseHead, exchange.responseBody) = Self.message(lines, &index, end: "===")
            guard !exchange.request.isEmpty, !exchange.responseHead.isEmpty else {
                throw Malformed(description: "\(name).wire:\(exchange.line): request or answer is missing")
            }
            exchanges.append(exchange)
        }
        self.exchanges = exchanges
    }

    private static func message(_ lines: [String], _ index: inout Int, end: String) -> ([String], [String]) {
        var head: [String] = []
        var body: [String] = []
        var inBody = false
        while index < lines.count, lines[index] != end {
            if inBody {
                body.append(lines[index])
            } else if lines[index].isEmpty {
                inBody = true
            } else {
                head.append(lines[index])
            }
            index += 1
        }
        index += 1
        return (head, body)
    }
}
