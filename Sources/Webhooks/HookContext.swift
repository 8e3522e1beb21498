internal import Bytes
internal import Foundation
package import HTTPWire
internal import SettingsKit
internal import Tracing
package import UploadCore
package import UploadModel

/// What hooks learn about a request, and how they change its response.
package struct HookContext: Sendable {
    package let locator: UploadLocator

    package init(locator: UploadLocator) { self.locator = locator }

    /// Fields that are credentials, or may hold some; hooks get them only where the settings name them.
    ///
    /// `originalBody` is where an SDK of Tencent VOD for iOS puts its JSON, with the signature.
    private static let secrets: Set<String> = [
        "authorization", "proxy-authorization", "cookie", "originalbody", "x-amz-security-token",
        "x-oss-security-token", "x-cos-security-token",
    ]

    /// Bytes of one field in JSON; larger ones are left out.
    ///
    /// The URI is cut off. Receivers refuse large payloads, which a client could bring about.
    private static let mostBytesOfField = 4096
    /// Of all fields; the largest are left out.
    ///
    /// So a client's padding does not take the place of what a proxy adds: a request has at most 100 fields, and those of 160 bytes
    /// always find room.
    private static let mostBytesOfFields = 16 << 10

    package func make(for request: Request) -> RequestContext {
        let head = request.head
        var fields: [RequestInfo.Field] = []
        for index in head.fields.entries.indices {
            let name = head.fields.name(at: index)
            if Self.secrets.contains(name.lowercased()) { continue }
            let value = head.fields.value(at: index)
            fields.append(RequestInfo.Field(name: name, value: value))
        }
        // Before the time is spent on them, too: whoever sends them may have no credential.
        fields = Self.bounded(fields).map { RequestInfo.Field(name: $0.name, value: withoutCredentials($0.value)) }
        let host = request.clientAddress
        let isPeer = host == request.peerAddress
        let info = RequestInfo(
            method: head.method.rawValue,
            uri: uri(of: head.target),
            remoteAddress: (host.contains(":") ? "[\(host)]" : host) + (isPeer ? ":\(request.peerPort)" : ":0"),
            fields: Self.bounded(fields),
            trace: TraceScope.current?.context.parent
        )
        return RequestContext(info) { name in FieldName(name).map { head.fields.all($0) } ?? [] }
    }

    /// Those that receivers get, in the order of the request.
    static func bounded(_ fields: [RequestInfo.Field]) -> [RequestInfo.Field] {
        let sizes = fields.map { bytesInJSON($0.name) + bytesInJSON($0.value) }
        var (kept, left) = (Set<Int>(), mostBytesOfFields)
        for index in sizes.indices.sorted(by: { (sizes[$0], $0) < (sizes[$1], $1) }) {
            guard sizes[index] <= mostBytesOfField, sizes[index] <= left else { break }
            left -= sizes[index]
            kept.insert(index)
        }
        return fields.indices.filter(kept.contains).map { fields[$0] }
    }

    /// At most; `\u0001` for a control character.
    private static func bytesInJSON(_ text: some StringProtocol) -> Int {
        text.utf8.reduce(0) { $0 + ($1 < 0x20 ? 6 : $1 == UInt8(ascii: "\"") || $1 == UInt8(ascii: "\\") ? 2 : 1) }
    }

    /// As much of a URI as receivers get.
    static func cut(_ uri: String) -> String {
        guard bytesInJSON(uri) > mostBytesOfField else { return uri }
        var left = mostBytesOfField
        return String(
            uri.prefix { character in
                left -= bytesInJSON(String(character))
                return left >= 0
            }
        )
    }

    private func uri(of target: RequestTarget) -> String {
        Self.cut(withoutCredentials(target.rawQuery.map { target.rawPath + "?" + $0 } ?? target.rawPath))
    }

    /// Any text, with ids in place of the last segments of upload URLs in it, which give access.
    private func withoutCredentials(_ text: String) -> String {
        let end = text.utf8.firstIndex(where: HookRedaction.isStartOfParameters) ?? text.endIndex
        return HookRedaction.text(withoutTokens(text[..<end]) + text[end...])
    }

    /// A path, or the URLs of a concatenation, with ids in place of upload tokens; other links lose their codes.
    private func withoutTokens(_ text: Substring) -> String {
        guard text.utf8.contains(where: { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "%") }) else {
            return String(text)
        }
        let hasPath = HookRedaction.hasPath(String(text))
        return text.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false).map { url in
            url.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
                .map { withoutToken(Substring($0), isOfPath: hasPath) }.joined(separator: "/")
        }.joined(separator: " ")
    }

    private func withoutToken(_ segment: Substring, isOfPath: Bool) -> String {
        // A bare token may follow `final;`, without any path.
        let start =
            segment.utf8.lastIndex(of: UInt8(ascii: ";")).map { segment.utf8.index(after: $0) } ?? segment.startIndex
        guard let text = PercentEncoding.text(segment[start...].utf8) else { return String(segment) }
        if let id = locator.id(in: text) { return segment[..<start] + id.text }
        guard isOfPath, let rest = HookRedaction.withoutCode(text) else { return String(segment) }
        return segment[..<start] + PercentEncoding.encode(rest)
    }

    /// Applies the changes of hooks to a response.
    package func apply(_ context: RequestContext, to response: inout Response, for method: HTTPMethod) {
        // An error of ours must not look like the success that a hook expected.
        let isSuccess = response.status.code < 400
        guard let wanted = isSuccess ? context.response : context.refusal else { return }
        if let status = wanted.status { response.status = Status(status) }
        if let body = wanted.body {
            response.content = .bytes(Array(body.utf8))
            response.fields["Content-Type"] = "text/plain; charset=utf-8"
        }
        for (name, value) in wanted.fields.sorted(by: { $0.key < $1.key }) {
            guard let field = FieldName(name), !Self.framing.contains(name.lowercased()),
                value.utf8.allSatisfy({ $0 == 9 || ($0 >= 0x20 && $0 != 0x7F) })
            else { continue }
            response.fields[field] = value
        }
        if response.status.forbidsContent || method == .head { response.content = .empty }
    }

    /// Fields that the server itself has to set.
    private static let framing: Set<String> = ["content-length", "transfer-encoding", "connection", "date", "upgrade"]
}
