import Bytes
import SluiceTesting
import Synchronization
import UploadModel

/// An origin with one content that follows a script.
final class ScriptedOrigin: PullOrigin {
    struct Script: Sendable {
        var bytes: [UInt8] = []
        var validator: String? = "\"one\""
        /// Whether it supports ranges.
        var hasRanges = true
        var isTotalKnown = true
        var filename: String?
        var contentType: String?
        /// Number of bytes after which the n-th response breaks off.
        var cuts: [Int?] = []
        /// The error of the n-th request.
        var failures: [PullFailure?] = []
        /// Maximum size of a part in bytes.
        var largestPart = Int.max
        /// The ranges that were requested.
        var requests: [OriginRest?] = []
        /// Where the requests might connect to.
        var reaches: [PullReach?] = []
        /// Called before the n-th response, counted from 1.
        var before: (@Sendable (Int, inout Script) -> Void)?
        /// Sends nothing until it is interrupted.
        var stalls = false
    }

    private let script: Mutex<Script>

    init(_ script: Script) { self.script = Mutex(script) }

    var requests: [OriginRest?] { script.withLock { $0.requests } }
    var reaches: [PullReach?] { script.withLock { $0.reaches } }

    func open(_ request: PullRequest, rest: OriginRest?) async throws(PullFailure) -> OriginResponse {
        let (now, number) = script.withLock { script in
            script.requests.append(rest)
            script.reaches.append(request.reach)
            let number = script.requests.count
            script.before?(number, &script)
            return (script, number)
        }
        if number <= now.failures.count, let failure = now.failures[number - 1] { throw failure }
        guard let rest, rest.validator == now.validator, now.hasRanges else {
            return .whole(content(now, now.bytes[...], number))
        }
        guard rest.offset < now.bytes.count else { return .nothing(total: Int64(now.bytes.count)) }
        let part = now.bytes.dropFirst(Int(rest.offset)).prefix(now.largestPart)
        return .part(content(now, part, number), offset: rest.offset, end: Int64(part.endIndex))
    }

    private func content(_ script: Script, _ bytes: ArraySlice<UInt8>, _ number: Int) -> OriginContent {
        let cut = number <= script.cuts.count ? script.cuts[number - 1] : nil
        let steps: [ScriptedSource.Step] =
            if script.stalls {
                [.stall]
            } else if let cut {
                [.bytes(Array(bytes.prefix(cut))), .fail(.disconnected)]
            } else {
                [.bytes(Array(bytes))]
            }
        return OriginContent(
            validator: script.validator,
            total: script.isTotalKnown ? Int64(script.bytes.count) : nil,
            filename: script.filename,
            contentType: script.contentType,
            source: ScriptedSource(steps),
            failure: { cut == nil ? nil : PullFailure("disconnected", "cut") }
        )
    }
}
