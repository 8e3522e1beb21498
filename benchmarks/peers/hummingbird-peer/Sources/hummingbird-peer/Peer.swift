import Foundation
import Hummingbird
import Logging

/// What an ordinary application would do with an upload: write each buffer in the handler, in its turn, by pwrite.
///
///     hummingbird-peer DIRECTORY ANSWER
///
/// Listens on a free port of 127.0.0.1 and prints it. `PUT /up/NAME` is stored as DIRECTORY/NAME and never forced to disk;
/// `GET` and `POST /constant` answer the text ANSWER, as JSON.
@main
struct Peer {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3 else { throw Failure(text: "usage: hummingbird-peer DIRECTORY ANSWER") }
        let router = Router()
        router.put("/up/:name") { request, context in
            let name = try context.parameters.require("name")
            guard !name.hasPrefix("."), !name.contains("/") else { throw HTTPError(.badRequest) }
            try await store(request.body, at: arguments[1] + "/" + name)
            return HTTPResponse.Status.created
        }
        let response = ByteBuffer(string: arguments[2])
        for method in [HTTPRequest.Method.get, .post] {
            router.on("/constant", method: method) { _, _ in
                Response(
                    status: .ok,
                    headers: [.contentType: "application/json"],
                    body: ResponseBody(byteBuffer: response)
                )
            }
        }
        var logger = Logger(label: "peer")
        logger.logLevel = .error
        let application = Application(
            router: router,
            configuration: .init(address: .hostname("127.0.0.1", port: 0), reuseAddress: true),
            onServerRunning: { channel in
                // Not by print: its buffer would keep the line.
                let line = "\(channel.localAddress?.port ?? 0)\n"
                FileHandle.standardOutput.write(Data(line.utf8))
            },
            logger: logger
        )
        try await application.runService()
    }

    static func store(_ body: RequestBody, at path: String) async throws {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Failure(text: "\(path): \(String(cString: strerror(errno)))") }
        defer { close(file) }
        var offset: off_t = 0
        for try await buffer in body {
            try buffer.withUnsafeReadableBytes { bytes in
                var done = 0
                while done < bytes.count {
                    let rest = UnsafeRawBufferPointer(rebasing: bytes[done...])
                    let written = pwrite(file, rest.baseAddress, rest.count, offset)
                    guard written > 0 else { throw Failure(text: "pwrite: \(String(cString: strerror(errno)))") }
                    done += written
                    offset += off_t(written)
                }
            }
        }
    }
}

struct Failure: Error {
    var text: String
}
