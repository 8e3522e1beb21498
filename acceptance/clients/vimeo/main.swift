// Uploads to Vimeo's API as VimeoUpload does on iOS, with plain URLSession: calls as download and data tasks, content as upload
// tasks from files with lengths written as floats. It accepts answers only by the rules of VimeoNetworking.
//
//     vimeo FLOW ROOT TOKEN VIDEO [PICTURE]
//
// FLOW: `new` and `old` upload the video by New and by Old Upload, `suspend` stops in the middle and starts again from 0 on the
// same link, `cancel` stops and deletes the video, `picture` uploads the video and a picture of it. Prints a JSON array with one
// object for each step.

import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// A request and its answer, as printed.
struct Step: Encodable, Sendable {
    var name: String
    /// `nil` for a task that was cancelled.
    var status: Int?
    /// Bytes of content that were reported as sent.
    var sent: Int64?
    /// `Location` of the answer.
    var location: String?
    /// Members of the video or the picture of the answer.
    var uri: String?
    var state: String?
    var label: String?
    var view: String?
    var active: Bool?
    var code: Int?
}

struct Answer: Sendable {
    var status: Int
    var fields: [String: String]
    var content: Data

    /// - Throws: `Failure` for an answer that VimeoNetworking rejects.
    init(_ response: URLResponse?, _ content: Data) throws {
        guard let response = response as? HTTPURLResponse else { throw Failure("there is no answer") }
        status = response.statusCode
        fields = [:]
        for (name, value) in response.allHeaderFields {
            if let name = name as? String, let value = value as? String { fields[name] = value }
        }
        self.content = content
    }

    private static let kinds = [
        "video", "cover", "service", "comment", "user", "picture", "activity", "uploadticket", "error", "trigger",
        "category",
        "channel", "song", "ondemand.page", "ondemand.season", "programmed.cinema", "policydocument", "notification",
        "notification.subscriptions", "product", "stats", "album",
    ]
    private static let types =
        ["application/json", "text/json", "text/html", "text/javascript"]
        + kinds.map { "application/vnd.vimeo.\($0)+json" }

    /// The members of the JSON object; an answer without content has none.
    func members() throws -> [String: Any] {
        if content.isEmpty { return [:] }
        let type = (fields["Content-Type"] ?? "").split(separator: ";").first.map(String.init) ?? ""
        guard Self.types.contains(type) else { throw Failure("an answer of type \(type) is rejected") }
        guard let members = try JSONSerialization.jsonObject(with: content) as? [String: Any] else {
            throw Failure("the answer is no object")
        }
        return members
    }

    func step(_ name: String, sent: Int64? = nil) throws -> Step {
        let members = try members()
        var step = Step(name: name, status: status, sent: sent, location: fields["Location"])
        step.uri = members["uri"] as? String
        step.state = members["status"] as? String
        step.label = members["name"] as? String
        step.view = (members["privacy"] as? [String: Any])?["view"] as? String
        step.active = members["active"] as? Bool
        step.code = members["error_code"] as? Int
        return step
    }
}

/// Of one task that sends content.
final class Transfer: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    // Touched on the queue of the session only.
    private var content = Data()
    private var sent: Int64 = 0
    /// Bytes after which the task is cancelled.
    private let limit: Int64
    private let done: @Sendable (Result<(Answer?, Int64), any Error>) -> Void

    init(limit: Int64, _ done: @escaping @Sendable (Result<(Answer?, Int64), any Error>) -> Void) {
        self.limit = limit
        self.done = done
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) { content += data }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        didSendBodyData bytesSent: Int64,
        totalBytesSent: Int64,
        totalBytesExpectedToSend: Int64
    ) {
        sent = totalBytesSent
        if sent >= limit { task.cancel() }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        session.finishTasksAndInvalidate()
        if let error {
            let isCancelled = (error as? URLError)?.code == .cancelled
            done(isCancelled && sent >= limit ? .success((nil, sent)) : .failure(error))
        } else {
            done(Result { (try Answer(task.response, content), sent) })
        }
    }
}

struct App: Sendable {
    let root: String
    let token: String
    private let session = URLSession(configuration: .ephemeral)

    init(_ root: String, _ token: String) {
        self.root = root
        self.token = token
    }

    private static let old = "3.3.1"
    private static let new = "3.4.2"
    private static let final = [
        "available", "uploading_error", "transcoding_error", "quota_exceeded", "total_cap_exceeded",
    ]

    private func request(_ method: String, _ url: String, _ version: String) throws -> URLRequest {
        guard let url = URL(string: url.hasPrefix("/") ? root + url : url) else { throw Failure("\(url) is no URL") }
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.setValue("application/vnd.vimeo.*+json; version=\(version)", forHTTPHeaderField: "Accept")
        request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        request.setValue("en;q=1", forHTTPHeaderField: "Accept-Language")
        request.setValue("App/1.0 (iPhone; iOS 15.0; Scale/3.00) VimeoNetworking/5.0", forHTTPHeaderField: "User-Agent")
        return request
    }

    /// A call: as a download task, whose answer is read from a file, or as a data task.
    private func call(
        _ method: String,
        _ url: String,
        _ version: String,
        _ body: [String: Any]? = nil,
        isDownload: Bool = false
    ) async throws -> Answer {
        var request = try request(method, url, version)
        if let body {
            request.httpBody = try JSONSerialization.data(withJSONObject: body)
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        }
        let ready = request
        return try await withCheckedThrowingContinuation { continuation in
            if isDownload {
                session.downloadTask(with: ready) { file, response, error in
                    continuation.resume(
                        with: Result {
                            if let error { throw error }
                            return try Answer(response, try file.map { try Data(contentsOf: $0) } ?? Data())
                        }
                    )
                }.resume()
            } else {
                session.dataTask(with: ready) { data, response, error in
                    continuation.resume(
                        with: Result {
                            if let error { throw error }
                            return try Answer(response, data ?? Data())
                        }
                    )
                }.resume()
            }
        }
    }

    /// Sends a file, as far as `limit`; what is cancelled has no answer.
    ///
    /// A task that can end before its file does must be one from memory: on Linux, Foundation traps if a read of the file ends
    /// after the task (EasyHandle.swift, `try!`; Swift 6.3).
    private func send(
        _ name: String,
        _ file: URL,
        to link: String,
        _ version: String,
        type: String = "video/mp4",
        fromMemory: Bool = false,
        limit: Int64 = .max
    ) async throws -> Step {
        let size = try Self.size(of: file)
        var request = try request("PUT", link, version)
        request.setValue(type, forHTTPHeaderField: "Content-Type")
        request.setValue("\(size)", forHTTPHeaderField: "Content-Length")
        request.setValue("bytes 0-\(size)/\(size)", forHTTPHeaderField: "Content-Range")
        let ready = request
        let data = fromMemory ? try Data(contentsOf: file) : nil
        let (answer, sent) = try await withCheckedThrowingContinuation { continuation in
            let transfer = Transfer(limit: limit) { continuation.resume(with: $0) }
            let session = URLSession(configuration: .ephemeral, delegate: transfer, delegateQueue: nil)
            let task =
                if let data {
                    session.uploadTask(with: ready, from: data)
                } else {
                    session.uploadTask(with: ready, fromFile: file)
                }
            task.resume()
        }
        // The app looks at errors of the transport only; an answer to content may be of any type.
        return Step(name: name, status: answer?.status, sent: sent)
    }

    /// As VimeoUpload has it: the reason for the floats.
    private static func size(of file: URL) throws -> Double {
        let values = try FileManager.default.attributesOfItem(atPath: file.path)
        guard let size = values[.size] as? NSNumber else { throw Failure("\(file.path) has no size") }
        return size.doubleValue
    }

    private static func text(_ members: [String: Any], _ name: String) throws -> String {
        guard let text = members[name] as? String else { throw Failure("\(name) is missing") }
        return text
    }

    /// Asks for a video until its status is final; 404 ends that, too.
    private func poll(_ uri: String) async throws -> Step {
        while true {
            let step = try await call("GET", uri, Self.new).step("poll")
            if step.status == 404 || step.state.map(Self.final.contains) ?? false { return step }
            try await Task.sleep(nanoseconds: 100_000_000)
        }
    }

    /// Creates a video by New Upload.
    ///
    /// - Returns: The step, and the link for its content.
    private func create(_ file: URL) async throws -> (Step, uri: String, link: String) {
        let body: [String: Any] = [
            "name": "By URLSession", "privacy": ["view": "nobody"],
            "upload": ["approach": "streaming", "size": try Self.size(of: file), "mime_type": "video/mp4"],
        ]
        let answer = try await call("POST", "/me/videos", Self.new, body)
        let members = try answer.members()
        _ = try Self.text(members, "resource_key")
        guard let upload = members["upload"] as? [String: Any], upload["approach"] as? String == "streaming" else {
            throw Failure("the approach is wrong: \(String(decoding: answer.content, as: UTF8.self))")
        }
        return (try answer.step("create"), try Self.text(members, "uri"), try Self.text(upload, "upload_link"))
    }

    func new(_ file: URL) async throws -> [Step] {
        let (created, uri, link) = try await create(file)
        return [created, try await send("content", file, to: link, Self.new), try await poll(uri)]
    }

    func old(_ file: URL) async throws -> [Step] {
        let body: [String: Any] = ["type": "streaming", "size": try Self.size(of: file)]
        let ticket = try await call("POST", "/me/videos", Self.old, body, isDownload: true)
        let members = try ticket.members()
        var steps = [try ticket.step("create")]
        steps.append(try await send("content", file, to: try Self.text(members, "upload_link_secure"), Self.old))
        let uri = try Self.text(members, "complete_uri")
        let activated = try await call("DELETE", uri, Self.old, isDownload: true)
        steps.append(try activated.step("activate"))
        guard let video = activated.fields["Location"] else { return steps }
        let settings: [String: Any] = ["name": "Settings", "description": "D", "privacy": ["view": "nobody"]]
        steps.append(try await call("PATCH", video, Self.old, settings, isDownload: true).step("settings"))
        return steps + [try await poll(video)]
    }

    /// Sends about half of a file.
    private func half(_ file: URL, to link: String) async throws -> Step {
        try await send("stopped", file, to: link, Self.new, fromMemory: true, limit: Int64(try Self.size(of: file) / 2))
    }

    func suspend(_ file: URL) async throws -> [Step] {
        let (created, uri, link) = try await create(file)
        var steps = [created, try await half(file, to: link)]
        steps.append(try await call("GET", uri, Self.new).step("status"))
        steps.append(try await send("content", file, to: link, Self.new))
        return steps + [try await poll(uri)]
    }

    func cancel(_ file: URL) async throws -> [Step] {
        let (created, uri, link) = try await create(file)
        var steps = [created, try await half(file, to: link)]
        for name in ["delete", "repeated"] { steps.append(try await call("DELETE", uri, Self.new).step(name)) }
        steps.append(try await send("content", file, to: link, Self.new, fromMemory: true))
        return steps + [try await poll(uri)]
    }

    func picture(_ file: URL, _ image: URL) async throws -> [Step] {
        let (created, uri, link) = try await create(file)
        var steps = [created, try await send("content", file, to: link, Self.new)]
        let made = try await call("POST", "\(uri)/pictures", Self.new, isDownload: true)
        let members = try made.members()
        _ = try Self.text(members, "resource_key")
        steps.append(try made.step("thumbnail"))
        let place = try Self.text(members, "link")
        steps.append(try await send("image", image, to: place, Self.new, type: "image/jpeg"))
        let thumbnail = try Self.text(members, "uri")
        steps.append(
            try await call("PATCH", thumbnail, Self.new, ["active": "true"], isDownload: true).step("activate")
        )
        return steps + [try await poll(uri)]
    }
}

func fail(_ text: String) -> Never {
    FileHandle.standardError.write(Data((text + "\n").utf8))
    exit(1)
}

let arguments = CommandLine.arguments
guard arguments.count == (arguments.dropFirst().first == "picture" ? 6 : 5) else {
    fail("usage: vimeo new|old|suspend|cancel ROOT TOKEN VIDEO, or vimeo picture ROOT TOKEN VIDEO PICTURE")
}
let app = App(arguments[2], arguments[3])
let video = URL(fileURLWithPath: arguments[4])
do {
    let steps: [Step]
    switch arguments[1] {
    case "new": steps = try await app.new(video)
    case "old": steps = try await app.old(video)
    case "suspend": steps = try await app.suspend(video)
    case "cancel": steps = try await app.cancel(video)
    case "picture": steps = try await app.picture(video, URL(fileURLWithPath: arguments[5]))
    default: fail("there is no flow \(arguments[1])")
    }
    print(String(decoding: try JSONEncoder().encode(steps), as: UTF8.self))
} catch {
    fail("\(error)")
}
