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
    /// The last one is where an SDK of Tencent VOD for iOS puts its JSON, with the signature.
    private static let secrets: Set<String> = ["authorization", "proxy-authorization", "cookie", "originalbody"]

    package func make(for request: Request) -> RequestContext {
        let head = request.head
        var fields: [RequestInfo.Field] = []
        for index in head.fields.entries.indices {
            let name = head.fields.name(at: index)
            if Self.secrets.contains(name.lowercased()) { continue }
            var value = head.fields.value(at: index)
            if name.lowercased() == "upload-concat" { value = withoutTokens(value, separator: " ") }
            fields.append(RequestInfo.Field(name: name, value: value))
        }
        let host = request.clientAddress
        let isPeer = host == request.peerAddress
        let info = RequestInfo(
            method: head.method.rawValue,
            uri: uri(of: head.target),
            remoteAddress: (host.contains(":") ? "[\(host)]" : host) + (isPeer ? ":\(request.peerPort)" : ":0"),
            fields: fields,
            trace: TraceScope.current?.context.parent
        )
        return RequestContext(info) { name in FieldName(name).map { head.fields.all($0) } ?? [] }
    }

    private func uri(of target: RequestTarget) -> String {
        let path = withoutTokens(target.rawPath, separator: "/")
        return target.rawQuery.map { path + "?" + $0 } ?? path
    }

    /// A path, or the URLs of a concatenation, with ids in place of the last segments of upload URLs, which give access.
    private func withoutTokens(_ text: String, separator: Character) -> String {
        if separator == " " {
            return text.split(separator: " ", omittingEmptySubsequences: false)
                .map { withoutTokens(String($0), separator: "/") }.joined(separator: " ")
        }
        return text.split(separator: "/", omittingEmptySubsequences: false).map { segment in
            // A bare token may follow `final;`, without any path.
            let start = segment.lastIndex(of: ";").map { segment.index(after: $0) } ?? segment.startIndex
            guard let decoded = PercentEncoding.decode(segment[start...].utf8),
                let id = locator.id(in: String(decoding: decoded, as: UTF8.self))
            else { return String(segment) }
            return segment[..<start] + id.text
        }.joined(separator: "/")
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
