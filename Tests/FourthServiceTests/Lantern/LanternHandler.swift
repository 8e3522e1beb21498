import Bytes
import CoreMetrics
import Foundation
import HTTPWire
import MetricsKit
import RESTKit
import UploadCore
import UploadModel

/// The calls: who calls, what for, and the document of the response.
struct LanternHandler: Sendable {
    let library: LanternLibrary
    let authenticator: Authenticator
    let locator: UploadLocator
    let publicURL: PublicURL
    let bodyLimit: Int
    let calls: CounterTable
    let report: @Sendable (_ call: String, _ message: String) -> Void

    static let operations: [(method: HTTPMethod, template: String)] = [
        (.post, "/lantern/videos"), (.get, "/lantern/videos"), (.put, "/lantern/videos/{video}"),
        (.get, "/lantern/videos/{video}"), (.delete, "/lantern/videos/{video}"),
    ]

    private struct View: Encodable {
        var id: String
        var title: String
        var tags: [String]
        var size: Int64?
        var user: String?
        var uploadURL: String?

        init(_ video: LanternVideo, uploadURL: String? = nil) {
            (id, title, tags) = (video.id, video.title, video.tags)
            (size, user) = (video.size, video.user)
            self.uploadURL = uploadURL
        }
    }

    private struct Page: Encodable {
        var videos: [View]
        /// For `after`.
        var next: String?
    }

    func respond(to request: Request) async -> Response {
        do throws(LanternFailure) {
            let response = try await serve(request)
            calls["ok"].increment()
            return response
        } catch {
            calls[error.code].increment()
            if error.status.code >= 500 { report("\(request.head.method)", error.message) }
            return error.response
        }
    }

    private func serve(_ request: Request) async throws(LanternFailure) -> Response {
        let path = Array(request.head.target.segments.dropFirst())
        guard path.first == "videos" else { throw .noVideo }
        switch (request.head.method, path.count) {
        case (.post, 1):
            let key = try await key(.upload, request)
            let (video, upload) = try await library.begin(try await content(of: request), by: key)
            let url = publicURL.base(for: request) + "/files/" + locator.token(for: upload)
            return JSONResponse.response(201, View(video, uploadURL: url))
        case (.get, 1): return try await search(request, by: try await key(.read, request))
        case (.put, 2):
            let video = try await library.commit(path[1], by: try await key(.upload, request))
            return JSONResponse.response(200, View(video))
        case (.get, 2):
            return JSONResponse.response(200, View(try await library.video(path[1], by: try await key(.read, request))))
        case (.delete, 2):
            try await library.delete(path[1], by: try await key(.delete, request))
            return Response(204)
        default: throw LanternFailure(405, "no_such_call", "There is no such call.")
        }
    }

    private func search(_ request: Request, by key: APIKey) async throws(LanternFailure) -> Response {
        guard let items = try? request.head.target.queryItems().items else { throw .malformed("The query is wrong.") }
        func value(_ name: String) -> String? { items.first { $0.name == name }?.value }
        var place: DialectPlace?
        if let after = value("after") {
            let parts = after.split(separator: "-", maxSplits: 1)
            guard parts.count == 2, let position = Int64(parts[0]) else { throw .malformed("`after` is no place.") }
            place = DialectPlace(position, String(parts[1]))
        }
        let limit = value("limit").map { Int($0) ?? 0 } ?? 20
        guard (1...100).contains(limit) else { throw .malformed("`limit` must be 1 to 100.") }
        let found = try await library.search(tag: value("tag"), after: place, limit: limit, by: key)
        let next = found.next.map { "\($0.position)-\($0.key)" }
        return JSONResponse.response(200, Page(videos: found.videos.map { View($0) }, next: next))
    }

    private func key(_ scope: Scope, _ request: Request) async throws(LanternFailure) -> APIKey {
        do throws(UploadError) {
            return try await authenticator.require(scope, authorization: request.head.fields["Authorization"])
        } catch {
            throw LanternFailure(error)
        }
    }

    private func content(of request: Request) async throws(LanternFailure) -> LanternVideo.New {
        guard let bytes = try? await request.body.collect(limit: bodyLimit),
            let new = try? JSONDecoder().decode(LanternVideo.New.self, from: Data(bytes)),
            (1...200).contains(new.title.utf8.count), (new.tags ?? []).count <= 16,
            (new.tags ?? []).allSatisfy({ (1...64).contains($0.utf8.count) }), new.size.map({ $0 >= 0 }) ?? true,
            new.user.map(SubjectText.isValid) ?? true
        else { throw .malformed("`title` is missing, or a member is wrong.") }
        return new
    }
}
