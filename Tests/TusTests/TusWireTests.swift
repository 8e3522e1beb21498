import Bytes
import Foundation
import HTTPWire
import SluiceTesting
import Testing
import Tus
import UploadCore
import UploadModel

@Suite("Golden wire files", .timeLimit(.minutes(10)))
struct TusWireTests {
    @Test("the responses match the golden file", arguments: WireFile.names)
    func responses(name: String) async throws {
        let file = try WireFile(name: name)
        let bench = try Self.bench(file.exchanges[0].directives)
        var locators: [String] = []
        for exchange in file.exchanges {
            let place: Comment = "\(name).wire:\(exchange.line)"
            for directive in exchange.directives { try await Self.perform(directive, on: bench, place) }
            let response = try await Self.send(exchange, to: bench, locators)
            if response.status == 201, let token = response.path?.split(separator: "/").last {
                locators.append(String(token))
            }
            Self.compare(response, exchange, locators, place)
        }
    }

    @Test("there are golden files")
    func filesExist() {
        #expect(WireFile.names.contains("core"))
        #expect(WireFile.names.filter { $0.hasPrefix("client-") }.count == 5)
    }

    // MARK: Directives

    private static func bench(_ directives: [[String]]) throws -> TusBench {
        var settings = TusSettings()
        // Like tusd, whose responses these are.
        settings.deletesComplete = true
        var lifetime: TimeInterval? = 86400
        for words in directives {
            switch words[0] {
            case "cors" where words[1] == "off": settings.cors = .disabled
            case "cors": settings.cors = CORSPolicy(origins: try CORSPolicy.Origins(Array(words.dropFirst())))
            case "lifetime": lifetime = TimeInterval(words[1])
            case "gone": settings.goneIsNotFound = words[1] == "notFound"
            default: break
            }
        }
        return try TusBench(settings: settings, lifetime: lifetime)
    }

    private static func perform(_ words: [String], on bench: TusBench, _ place: Comment) async throws {
        switch words[0] {
        case "cors", "lifetime", "gone": break
        case "advance": bench.clock.advance(by: try #require(TimeInterval(words[1]), place))
        case "sweep": #expect(await bench.services.sweep.run().failures == 0, place)
        case "uploads": #expect(try await bench.liveUploads().count == Int(words[1]), place)
        default: throw WireFile.Malformed(description: "\(place): unknown directive \(words[0])")
        }
    }

    // MARK: Exchange

    private static func send(_ exchange: WireFile.Exchange, to bench: TusBench, _ locators: [String]) async throws
        -> Response
    {
        let locator = locators.last ?? "none"
        let id = locator.prefix { $0 != "." }
        var head = (exchange.request + ["", ""]).joined(separator: "\r\n")
            .replacing("{upload}", with: locator).replacing("{id}", with: id)
        for (index, locator) in locators.enumerated() {
            head = head.replacing("{upload-\(index + 1)}", with: locator)
        }
        var parser = RequestHeadParser()
        let parsed = try #require(try parser.parse(Array(head.utf8).span), "line \(exchange.line)")
        let content: [UInt8]
        var trailers = HTTPFields()
        var announced: Int64? = 0
        switch parsed.framing {
        case .none: content = []
        case .length(let length):
            content = bytes(exchange.requestBody.joined(separator: "\n"))
            announced = length
            try #require(Int64(content.count) == length, "line \(exchange.line): Content-Length")
        case .chunked:
            (content, trailers) = try decode(bytes((exchange.requestBody + ["", ""]).joined(separator: "\r\n")))
            announced = nil
        }
        return await bench.respond(
            to: parsed.head,
            ScriptedBody(content.isEmpty ? [] : [content], announced: announced, trailers: trailers)
        )
    }

    private static func decode(_ coded: [UInt8]) throws -> ([UInt8], HTTPFields) {
        var decoder = ChunkedDecoder()
        var rest = coded
        var content: [UInt8] = []
        while true {
            switch try decoder.next(rest.span) {
            case .needMore: throw WireFile.Malformed(description: "the chunked body has no end")
            case .data(let skip, let count):
                content += rest[skip..<skip + count]
                decoder.tookData(count)
                rest.removeFirst(skip + count)
            case .end(_, let trailers): return (content, trailers)
            }
        }
    }

    private static func compare(
        _ response: Response,
        _ exchange: WireFile.Exchange,
        _ locators: [String],
        _ place: Comment
    ) {
        var head = String(
            decoding: ResponseHeadWriter.bytes(ResponseHead(response.status, response.fields)),
            as: UTF8.self
        )
        for (index, locator) in locators.enumerated() {
            let name = locator == locators.last ? "{upload}" : "{upload-\(index + 1)}"
            head = head.replacing(locator, with: name)
        }
        let lines = head.split(separator: "\r\n").map(String.init)
        #expect(lines.first == exchange.responseHead.first, "\(place): \(response.text)")
        #expect(lines.dropFirst().sorted() == exchange.responseHead.dropFirst().sorted(), place)
        let body = response.text.split(separator: "\n").map(String.init)
        guard body.count == exchange.responseBody.count else {
            #expect(body == exchange.responseBody, place)
            return
        }
        for (line, expected) in zip(body, exchange.responseBody) {
            if expected.hasSuffix("…") {
                #expect(line.hasPrefix(expected.dropLast()) && line.count >= expected.count, "\(place): \(line)")
            } else {
                #expect(line == expected, place)
            }
        }
    }
}
