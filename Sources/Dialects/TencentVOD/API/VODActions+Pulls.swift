internal import Bytes
internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import Pulls
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

extension VODActions {
    func pullUpload(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64?,
        _ requestID: String
    ) async throws(VODError) -> Response {
        guard let url = try parameters.text("MediaUrl", atMost: 8192) else { throw VODParameters.missing("MediaUrl") }
        // Sluice's own pair may do everything.
        let reach = caller.key.map(pulls.starter.reach) ?? .allowedRanges
        if let problem = pulls.starter.problem(with: url, within: reach) { throw parameters.wrong("MediaUrl", problem) }
        let last = Self.lastSegment(of: url)
        let type = try parameters.text("MediaType", atMost: 512) ?? last.type
        guard let type, VODNewFile.isType(type) else {
            throw parameters.wrong(
                "MediaType",
                "must be 1 to 16 letters and digits, such as mp4, if the URL ends in no type"
            )
        }
        let name = try parameters.text("MediaName", atMost: 512) ?? last.name
        guard VODNewFile.isName(name) else {
            throw parameters.wrong("MediaName", "must not contain \\ / : * ? \" < > | or control characters")
        }
        try refuseExpiry(&parameters)
        try Self.checkUser(of: caller)
        let sessionID = try parameters.text("SessionId", atMost: 50)
        let signed = try labels(&parameters, of: application)
        // Reserved by the vendor, or for tasks that this server does not have.
        parameters.drop(["ExtInfo", "TasksPriority"])
        try parameters.finish()
        let task = try await pulls.begin(
            VODNewFile(name: name, type: type, size: nil),
            from: url,
            within: reach,
            sessionID: sessionID,
            by: signer(caller, signed)
        )
        return VODDocuments.task(task, requestID)
    }

    /// Name and type in the path of a URL.
    static func lastSegment(of url: String) -> (name: String, type: String?) {
        let path = url.prefix { $0 != "?" && $0 != "#" }
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        // Scheme, nothing and host come first.
        guard segments.count > 3, let text = segments.last.flatMap({ PercentEncoding.text($0.utf8) }) else {
            return ("", nil)
        }
        guard let dot = text.lastIndex(of: "."), dot != text.startIndex else { return (plain(text), nil) }
        return (plain(String(text[..<dot])), String(text[text.index(after: dot)...]))
    }

    /// A text that can be a name.
    private static func plain(_ text: String) -> String { VODNewFile.isName(text) ? text.first(scalars: 128) : "" }

    func describeTask(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64,
        _ context: Context
    ) async throws(VODError) -> Response {
        guard let id = try parameters.text("TaskId", atMost: 128) else { throw VODParameters.missing("TaskId") }
        try parameters.finish()
        guard let found = try await core(await pulls.task(id, of: application)),
            caller.limits.allows(subject: found.task.content.owner.subject)
        else {
            throw VODError("ResourceNotFound", "There is no task with this `TaskId` in this application.")
        }
        return documents.task(found.task, found.media, for: context.request, context.requestID)
    }
}
