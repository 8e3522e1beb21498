import Foundation
import Logging
import SluiceTesting
import Testing

@testable import Telemetry

@Suite("the log", .timeLimit(.minutes(10)))
struct LogSinkTests {
    /// A pipe and all its output, once it is read.
    private final class Pipe: Sendable {
        let readEnd: Int32
        let writeEnd: Int32

        init() throws {
            signal(SIGPIPE, SIG_IGN)
            var ends: [Int32] = [-1, -1]
            try #require(pipe(&ends) == 0)
            (readEnd, writeEnd) = (ends[0], ends[1])
        }

        /// Reads to the end, which comes when `writeEnd` is closed, on a thread of its own.
        func read() -> AsyncStream<[String]> {
            let (stream, continuation) = AsyncStream<[String]>.makeStream()
            let readEnd = readEnd
            Thread {
                let handle = FileHandle(fileDescriptor: readEnd, closeOnDealloc: true)
                let data = (try? handle.readToEnd()) ?? Data()
                let text = String(decoding: data, as: UTF8.self)
                continuation.yield(text.split(separator: "\n").map(String.init))
                continuation.finish()
            }
            .start()
            return stream
        }
    }

    /// The tests' threads are few, and this one may wait.
    private static func flush(_ sink: LogSink) async {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                sink.flush(within: .seconds(60))
                continuation.resume()
            }
        }
    }

    @Test(
        "no writer waits for a stalled reader; lines are lost, counted, and reported in their place",
        .timeLimit(.minutes(10))
    )
    func stalled() async throws {
        let pipe = try Pipe()
        let sink = LogSink(descriptor: pipe.writeEnd, room: 20_000) { "\($0) log lines were lost" }
        // The pipe takes 64 KiB, the sink 20,000 bytes on their way and as many that wait: this is ten times that.
        let count = 10_000
        let filler = String(repeating: "x", count: 100)
        for number in 0..<count { sink.append("\(number) \(filler)", isUrgent: number.isMultiple(of: 3)) }
        sink.flush(within: .milliseconds(50))
        #expect(sink.lostCount > UInt64(count / 2))

        let read = pipe.read()
        await Self.flush(sink)
        sink.append("10000 after", isUrgent: true)
        await Self.flush(sink)
        close(pipe.writeEnd)
        let lines = try #require(await read.first { _ in true })
        var next = 0
        var reported: UInt64 = 0
        for line in lines {
            let number = try #require(line.split(separator: " ").first.flatMap { Int($0) })
            if line.hasSuffix("log lines were lost") {
                reported += UInt64(number)
                next += number
            } else {
                #expect(number == next)
                next += 1
            }
        }
        #expect(reported == sink.lostCount)
        #expect(next == count + 1)
        #expect(lines.last == "10000 after")
    }

    @Test("a line beyond the limit is dropped", .timeLimit(.minutes(10)))
    func tooLong() async throws {
        let pipe = try Pipe()
        let sink = LogSink(descriptor: pipe.writeEnd, room: 1000) { "\($0) lost" }
        let read = pipe.read()
        sink.append(String(repeating: "x", count: 1000), isUrgent: false)
        sink.append("first", isUrgent: true)
        await Self.flush(sink)
        sink.append("second\n", isUrgent: false)
        await Self.flush(sink)
        close(pipe.writeEnd)
        let lines = try #require(await read.first { _ in true })
        #expect(lines == ["2 lost", "second"] || lines == ["1 lost", "first", "second"])
    }

    @Test("without a reader the process still exits", .timeLimit(.minutes(10)))
    func broken() async throws {
        let pipe = try Pipe()
        close(pipe.readEnd)
        let sink = LogSink(descriptor: pipe.writeEnd, room: 1000) { "\($0) lost" }
        sink.append("nobody reads this", isUrgent: true)
        await Self.flush(sink)
        #expect(sink.lostCount == 1)
    }

    @Test("the loss line has the format of the others", arguments: [true, false])
    func lossLine(isJSON: Bool) throws {
        let line = LineLogHandler.lossLine(12, isJSON: isJSON)
        #expect(line.contains("12 log lines were lost"))
        if isJSON {
            struct Line: Decodable {
                let level: String
                let lost: Int
            }
            let members = try JSONDecoder().decode(Line.self, from: Data(line.utf8))
            #expect(members.level == "warning" && members.lost == 12)
        } else {
            #expect(line.hasSuffix("warning 12 log lines were lost lost=12"))
        }
    }
}
