internal import Bytes
internal import CloudCalls
internal import CoreMetrics
internal import Foundation
internal import GatewayKit
internal import HTTPWire
internal import ObjectGateway
internal import RESTKit
internal import UploadCore
internal import UploadModel

/// `/v1/aliyun/uploads`: an app's backend begins and refreshes uploads without the vendor's SDK for servers.
///
/// Responses are those of the vendor's API, unchanged: apps give them to the upload SDK.
struct AliyunAPI: Sendable {
    let service: any ApsaraService
    let access: Access
    let minted: Counter
    let bodyLimit: Int
    let maximumBytes: Int64
    /// Whether uploads go to the real cloud.
    let isDirect: Bool

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

    /// The member that stands for a parameter.
    fileprivate static func member(of parameter: String) -> String? {
        switch parameter {
        case "FileSize": "fileSize"
        case "CateId": "cateId"
        default: texts.first { $0.value == parameter }?.key
        }
    }

    private func key(of request: Request) async throws(Problem) -> APIKey {
        let key = try await access.limitedKey(.mint, request)
        if isDirect, key.user != nil { throw Access.notDirect }
        try access.requireExpressible([.maximumBytes], of: key, in: "an upload to ApsaraVideo VOD")
        return key
    }

    private func begin(_ request: Request) async throws(Problem) -> Response {
        let key = try await key(of: request)
        var fields = try await JSONFields(readingFrom: request, limit: bodyLimit)
        let types = ["video", "image", "attachedMedia"]
        let type = fields.string("type", maximumLength: 16) ?? "video"
        if !types.contains(type) { fields.reject("type", "must be \(types.joined(separator: ", "))") }
        var values: [(name: String, value: String)] = []
        for (member, name) in Self.texts.sorted(by: { $0.key < $1.key }) {
            if let text = fields.string(member, maximumLength: 8192) { values.append((name, text)) }
        }
        if let size = fields.integer("fileSize", in: 0...ApsaraUploadReader.largestFile) {
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
        let order = ApsaraOrder(
            action: action,
            parameters: ApsaraParameters(distinct: values),
            caller: ApsaraCaller(identity: .key(key)),
            subject: subject,
            maximumBytes: most
        )
        return try await answering(201, request) { () async throws(ApsaraError) in
            try await service.perform(order, for: request)
        }
    }

    private func refresh(_ id: String, _ request: Request) async throws(Problem) -> Response {
        let key = try await key(of: request)
        let order = ApsaraOrder(
            action: .refreshUploadVideo,
            parameters: ApsaraParameters(distinct: []),
            caller: ApsaraCaller(identity: .key(key))
        )
        return try await answering(200, request) { () async throws(ApsaraError) in
            try await service.refresh(id, order, for: request)
        }
    }

    private func answering(
        _ status: Status,
        _ request: Request,
        _ body: () async throws(ApsaraError) -> ApsaraAnswer
    ) async throws(Problem) -> Response {
        let content: [UInt8]
        var refused: CloudForwarder.Reply?
        do throws(ApsaraError) {
            switch try await body() {
            case .document(var document):
                document.add("RequestId", request.id)
                content = document.json + [UInt8(ascii: "\n")]
            case .forwarded(let answer):
                refused = answer.status == 200 ? nil : answer
                content = answer.content
            }
        } catch {
            switch error {
            case .refused(let failure): throw Problem(failure)
            case .core(let error): throw RESTErrors.problem(error)
            }
        }
        if let refused { throw Problem(refused) }
        minted.increment()
        return Response(status, ["Content-Type": "application/json", "Cache-Control": "no-store"], .bytes(content))
    }
}

extension Problem {
    /// The vendor's refusal as a problem document, with the name of the parameter as members are named.
    fileprivate init(_ failure: AliyunCallFailure) {
        let message = "\(failure.code): \(failure.message)"
        if failure.status == 503 {
            self.init(503, "cloud_unavailable", message)
            fields["Retry-After"] = "5"
        } else if failure.status == 502 {
            self.init(502, "cloud_failed", message)
        } else if failure == .noMedia {
            self.init(404, "not_found", message)
        } else if failure.code == "Throttling.User" {
            self.init(429, "too_many_requests", message)
            fields["Retry-After"] = "60"
        } else if failure.status == 403 {
            self.init(403, "forbidden", message)
        } else {
            // Messages name the parameter.
            let parts = failure.message.split(separator: "`", maxSplits: 2, omittingEmptySubsequences: false)
            let member = parts.count > 1 ? AliyunAPI.member(of: String(parts[1])) : nil
            self =
                member.map { .invalidFields([.init(field: $0, message: message)]) }
                ?? Problem(422, "invalid_field", message)
        }
    }

    /// What the cloud refused.
    fileprivate init(_ answer: CloudForwarder.Reply) {
        var text = "the cloud answered with status \(answer.status)"
        if let members = JSONValue(json: answer.content)?.members,
            case .string(let code)? = members["Code"], code.utf8.count <= 100, ApsaraParameters.isLegal(code)
        {
            text = "the cloud refused this: \(code)"
            // With such codes the message contains what was signed.
            if !code.contains("Signature"), case .string(let message)? = members["Message"] {
                text += " (\(message.first(scalars: 300)))"
            }
        }
        self.init(502, "cloud_failed", text)
    }
}
