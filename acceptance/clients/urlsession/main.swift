// Uploads a file like an app without knowledge of Sluice: with plain URLSession.
//
//     urlsession METHOD URL MODE FILE [NAME:VALUE ...]
//
// MODE: `data` and `file` are upload tasks from memory and from the file, `stream` is one from a stream, `body` is a data task
// with a body. Prints the statuses that the delegate received, the number of bytes reported as sent, and the content of the
// response, one line each.
//
// On Linux URLSession has no `uploadTask(withResumeData:)` (Swift 6.3): it cannot resume uploads, and does not ask for it. It
// also passes interim responses to the delegate as if they were the response, so it must not receive unrequested ones.

import Foundation

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

final class Delegate: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    // Touched on the queue of the session only, until it has ended.
    private(set) var content = Data()
    private(set) var sent: Int64 = 0
    private(set) var statuses: [Int] = []
    private let file: URL
    private let done: @Sendable (Delegate, URLSessionTask, (any Error)?) -> Void

    init(_ file: URL, _ done: @escaping @Sendable (Delegate, URLSessionTask, (any Error)?) -> Void) {
        self.file = file
        self.done = done
    }

    func urlSession(
        _ session: URLSession,
        dataTask: URLSessionDataTask,
        didReceive response: URLResponse,
        completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
        statuses.append((response as? HTTPURLResponse)?.statusCode ?? 0)
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        content += data
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        didSendBodyData bytesSent: Int64,
        totalBytesSent: Int64,
        totalBytesExpectedToSend: Int64
    ) {
        sent = totalBytesSent
    }

    func urlSession(
        _ session: URLSession,
        task: URLSessionTask,
        needNewBodyStream completionHandler: @escaping (InputStream?) -> Void
    ) {
        completionHandler(InputStream(url: file))
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        done(self, task, error)
    }
}

func fail(_ text: String) -> Never {
    FileHandle.standardError.write(Data((text + "\n").utf8))
    exit(1)
}

let arguments = CommandLine.arguments
guard arguments.count >= 5, let url = URL(string: arguments[2]) else {
    fail("usage: urlsession METHOD URL MODE FILE [NAME:VALUE ...]")
}
let file = URL(fileURLWithPath: arguments[4])
var request = URLRequest(url: url)
request.httpMethod = arguments[1]
for field in arguments.dropFirst(5) {
    let parts = field.split(separator: ":", maxSplits: 1)
    guard parts.count == 2 else { fail("a header is NAME:VALUE, not \(field)") }
    request.setValue(parts[1].trimmingCharacters(in: .whitespaces), forHTTPHeaderField: String(parts[0]))
}

let delegate = Delegate(file) { delegate, task, error in
    if let error { fail("\(error)") }
    guard let response = task.response as? HTTPURLResponse, response.statusCode == delegate.statuses.last else {
        fail("the response is not the last one that the delegate got")
    }
    print(delegate.statuses.map(String.init).joined(separator: " "))
    print(delegate.sent)
    print(String(decoding: delegate.content, as: UTF8.self))
    exit(0)
}
let session = URLSession(configuration: .ephemeral, delegate: delegate, delegateQueue: nil)
let task: URLSessionTask
switch arguments[3] {
case "data":
    guard let data = try? Data(contentsOf: file) else { fail("\(file.path) cannot be read") }
    task = session.uploadTask(with: request, from: data)
case "file": task = session.uploadTask(with: request, fromFile: file)
case "stream": task = session.uploadTask(withStreamedRequest: request)
case "body":
    guard let data = try? Data(contentsOf: file) else { fail("\(file.path) cannot be read") }
    request.httpBody = data
    task = session.dataTask(with: request)
default: fail("the mode is data, file, stream or body")
}
task.resume()
dispatchMain()
