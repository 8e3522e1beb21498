internal import Bytes
internal import CloudCalls
internal import CoreMetrics
internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import RESTKit
internal import UploadCore
internal import VODKit

/// `/v1/aliyun/uploads`: an app's backend begins and refreshes uploads without the vendor's SDK for servers.
///
/// Responses are those of the vendor's API, unchanged: apps give them to the upload SDK.
struct AliyunAPI: Sendable {
    let actions: ApsaraActions
    let links: ApsaraLinks
    let access: Access
    let minted: Counter
    let bodyLimit: Int
    let maximumBytes: Int64

    var routes: [Route] {
        [
            Route(.post, "/v1/aliyun/uploads") { request, _ in
                await responding(request) { () throws(Problem) in try await begin(request) }
            },
            Route(.post, "/v1/aliyun/uploads/{media}/refresh") { request, parameters in
                await responding(request) { () throws(Problem) in
                    try await refresh(parameters["media"], request)
                }
            },
        ]
    }

    /// Members of the request, and the parameters that they stand for.
    private static let texts = [
        "title": "Title", "fileName": "FileName", "imageType": "ImageType", "imageExt": "ImageExt",
        "originalFileName": "OriginalFileName", "businessType": "BusinessType", "mediaExt": "MediaExt",
        "description": "Description", "coverURL": "CoverURL", "tags": "Tags", "cateIds": "CateIds",
        "templateGroupId": "TemplateGroupId", "workflowId": "WorkflowId", "storageLocation": "StorageLocation",
        "userData": "UserData", "appId": "AppId", "referenceId": "ReferenceId",
    ]

    private func begin(_ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.mint, request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let types = ["video", "image", "attachedMedia"]
        let type = fields.string("type", maximumLength: 16) ?? "video"
        if !types.contains(type) { fields.reject("type", "must be \(types.joined(separator: ", "))") }
        var values: [(name: String, value: String)] = []
        for (member, name) in Self.texts.sorted(by: { $0.key < $1.key }) {
            if let text = fields.string(member, maximumLength: 8192) { values.append((name, text)) }
        }
        if let size = fields.integer("fileSize", in: 0...ApsaraActions.largestFile) {
            values.append(("FileSize", String(size)))
        }
        if let category = fields.integer("cateId", in: -1...Int64.max) { values.append(("CateId", String(category))) }
        let subject = fields.subject()
        let most = fields.integer("maxBytes", in: 0...maximumBytes)
        try fields.finish()
        let action: ApsaraAction =
            switch type {
            case "image": .createUploadImage
            case "attachedMedia": .createUploadAttachedMedia
            default: .createUploadVideo
            }
        let call = try call(action, values, key, request)
        let begun = try await answering { () async throws in
            var new = try actions.newUpload(call)
            new.subject = subject
            new.maximumBytes = most
            return call.documents.begun(try await actions.uploads.begin(new, by: call.caller))
        }
        minted.increment()
        return Self.response(201, begun, request)
    }

    private func refresh(_ id: String, _ request: Request) async throws(Problem) -> Response {
        let key = try await access.limitedKey(.mint, request)
        let call = try call(.refreshUploadVideo, [], key, request)
        let begun = try await answering { () async throws in
            guard let found = try await actions.library.media(id), actions.allows(call, found.content),
                let issued = try await actions.uploads.refresh(found.content, by: call.caller)
            else { throw AliyunCallFailure.noMedia }
            return call.documents.begun(issued)
        }
        minted.increment()
        return Self.response(200, begun, request)
    }

    private func call(
        _ action: ApsaraAction,
        _ values: [(name: String, value: String)],
        _ key: APIKey,
        _ request: Request
    ) throws(Problem) -> ApsaraActions.Call {
        let parameters: ApsaraParameters
        do throws(AliyunCallFailure) {
            parameters = try ApsaraParameters(values)
        } catch {
            throw Problem(error)
        }
        return ApsaraActions.Call(
            action: action,
            parameters: parameters,
            caller: ApsaraCaller(identity: .key(key)),
            documents: try links.documents(for: request, at: actions.place)
        )
    }

    private func answering(_ body: () async throws -> AliyunDocument) async throws(Problem) -> AliyunDocument {
        do {
            return try await body()
        } catch let failure as AliyunCallFailure {
            throw Problem(failure)
        } catch let error as UploadError {
            throw RESTErrors.problem(error)
        } catch {
            throw Problem(500, "internal", "an internal error occurred; try again")
        }
    }

    private static func response(_ status: Status, _ document: AliyunDocument, _ request: Request) -> Response {
        var document = document
        document.add("RequestId", request.id)
        return Response(
            status,
            ["Content-Type": "application/json", "Cache-Control": "no-store"],
            .bytes(document.json + [UInt8(ascii: "\n")])
        )
    }
}

extension Problem {
    /// The vendor's refusal as a problem document, with the name of the parameter as members are named.
    fileprivate init(_ failure: AliyunCallFailure) {
        let message = "\(failure.code): \(failure.message)"
        if failure == .noMedia {
            self.init(404, "not_found", message)
        } else if failure.status == 403 {
            self.init(403, "forbidden", message)
        } else {
            self.init(422, "invalid_fields", message)
        }
    }
}
