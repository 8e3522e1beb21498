internal import Bytes
internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import ObjectGateway
internal import UploadCore
internal import UploadModel
internal import VODKit
internal import XMLText

/// Media at the cloud whose upload was begun here.
struct ApsaraCloudMedia: Sendable, Equatable, Codable {
    var id: String
    var kind: ApsaraMedia.Kind
    var application: String
    var subject: String?
    var issuer: String?
    /// Bytes, as announced.
    var announced: Int64?
    /// As the cloud last said; `Uploading` at first.
    var status = "Uploading"
    /// Bytes, as the cloud last said.
    var size: Int64?

    static let recordKind = "aliyun cloud media"
}

/// `direct` mode: calls are checked here, and performed by the cloud with the account's key.
///
/// The bytes go to the cloud. What was begun here is recorded, so that a caller reaches only the media of its users.
struct ApsaraBroker: ApsaraService {
    let place: ApsaraPlace
    /// Performs an action at the cloud, in the turn of a user.
    let cloud:
        @Sendable (
            _ action: String, _ parameters: [(name: String, value: String)], _ isXML: Bool, _ subject: String?
        ) async throws(CloudForwarder.Failure) -> CloudForwarder.Reply
    let reader: ApsaraUploadReader
    /// What processes media, at the account's cost, and may be chosen by callers with limits.
    let workflows: [String]
    let records: any DialectRecords
    let uploads: UploadService
    let clock: any WallClock

    func perform(_ order: ApsaraOrder, for request: Request) async throws(ApsaraError) -> ApsaraAnswer {
        switch order.action {
        case .createUploadVideo, .createUploadImage, .createUploadAttachedMedia: return try await begin(order)
        case .refreshUploadVideo, .getVideoInfo, .updateVideoInfo, .getMezzanineInfo, .getPlayInfo:
            return try await forward(order, onMedia: ["VideoId"], orElse: .noVideo)
        case .getUploadDetails: return try await forward(order, onMedia: ["MediaIds"], orElse: .noVideo)
        case .deleteMultipartUpload: return try await forward(order, onMedia: ["MediaId"], orElse: .noVideo)
        case .getVideoInfos, .deleteVideo: return try await forward(order, onMedia: ["VideoIds"], orElse: .noVideo)
        case .getImageInfo: return try await forward(order, onMedia: ["ImageId"], orElse: .noImage)
        case .deleteImage:
            // `VideoId` names the video whose snapshots are deleted.
            return try await forward(order, onMedia: ["ImageIds", "VideoId"], orElse: .noImage)
        case .uploadMediaByURL, .getURLUploadInfos, .searchMedia, .setMessageCallback, .getMessageCallback:
            // They concern the whole account.
            guard reachesAll(order) else { throw ApsaraError.forbidden }
            return try await forward(order)
        case .reportUploadProgress, .getUploadProgress: return .document(AliyunDocument())
        }
    }

    func refresh(_ id: String, _ order: ApsaraOrder, for request: Request) async throws(ApsaraError) -> ApsaraAnswer {
        guard try await core(await mayReach(id, order)) else { throw ApsaraError.noMedia }
        return try await forward(order, [(name: "VideoId", value: id)])
    }

    /// SDKs report to the cloud themselves.
    func report(_ parameters: ApsaraParameters, from address: String) async throws(ApsaraError) {}

    func progress(_ parameters: ApsaraParameters) async throws(ApsaraError) -> AliyunDocument { AliyunDocument() }

    // MARK: Whose media

    /// A key without limits acts for the account.
    private func reachesAll(_ order: ApsaraOrder) -> Bool {
        guard case .key(let key) = order.caller.identity else { return false }
        return key.limits.isEmpty && key.allows(order.action.scope)
    }

    private func mayReach(_ id: String, _ order: ApsaraOrder) async throws(UploadError) -> Bool {
        if reachesAll(order) { return true }
        guard DialectRecord.canBeKey(id), id.utf8.count <= 64,
            let record = try await records.record(ApsaraCloudMedia.recordKind, id)
        else { return false }
        let media = try CodedRecord<ApsaraCloudMedia>(record).content
        return order.caller.may(order.action, in: media.application, at: place) && order.caller.owns(media.subject)
    }

    // MARK: Forwarding

    /// Forwards a call that names media.
    ///
    /// - Throws: `missing` if the caller may not reach one of them.
    private func forward(
        _ order: ApsaraOrder,
        onMedia names: [String],
        orElse missing: ApsaraError
    ) async throws(ApsaraError) -> ApsaraAnswer {
        let ids = names.flatMap { order.parameters.list($0) }
        // Reference ids and URLs also name media, which are not known here.
        if ids.isEmpty, !reachesAll(order) { throw ApsaraError.missing(names[0]) }
        for id in ids where try await !core(await mayReach(id, order)) { throw missing }
        let others = ["ReferenceId", "ReferenceIds", "ImageURLs"].filter { order.parameters[$0] != nil }
        if let other = others.first, !reachesAll(order), order.action != .updateVideoInfo {
            throw ApsaraError.invalid(other, "must be left out by a caller with limits")
        }
        let answer = try await forward(order)
        if case .forwarded(let answer) = answer, answer.status == 200 { await learn(from: answer) }
        return answer
    }

    private func forward(_ order: ApsaraOrder, _ more: [(name: String, value: String)] = []) async throws(ApsaraError)
        -> ApsaraAnswer
    {
        let parameters = try bounded(try await parameters(of: order), of: order)
        return .forwarded(try await called(order, parameters + more))
    }

    /// What is passed on, under the account's signature.
    ///
    /// - Throws: If a caller with limits names media of others, whom the cloud is to call back, or how it is to process media.
    private func parameters(of order: ApsaraOrder) async throws(ApsaraError) -> [(name: String, value: String)] {
        let all = order.parameters.forCloud
        if reachesAll(order) { return all }
        if let text = order.parameters["UserData"], !ApsaraForwarded.isHarmless(userData: text) {
            throw ApsaraError.invalid(
                "UserData",
                "must be a JSON object with Extend and AccelerateConfig at most, for a caller with limits"
            )
        }
        // It is a bucket of the account, whatever the limits of the caller say.
        if order.parameters["StorageLocation"] != nil {
            throw ApsaraError.invalid("StorageLocation", "must be left out by a caller with limits")
        }
        // They spend the account's money, and write their results where the account says.
        for name in ["TemplateGroupId", "WorkflowId"] {
            guard let id = order.parameters[name], !workflows.contains(where: { $0.isExactly(id) }) else { continue }
            throw ApsaraError.invalid(name, "must be one of aliyun.vod.workflows for a caller with limits")
        }
        if order.action == .createUploadAttachedMedia {
            for id in order.parameters.list("MediaIds") where try await !core(await mayReach(id, order)) {
                throw ApsaraError.noMedia
            }
        }
        let names = ApsaraForwarded.names(order.action)
        return all.filter { names.contains($0.name) }
    }

    /// The parameters with an `AuthTimeout` that ends with the caller's session or key at the latest.
    ///
    /// The vendor signs links for an hour, or for as long as it is told ("GetPlayInfo", "GetMezzanineInfo", "GetImageInfo",
    /// ApsaraVideo VOD documentation). How long an UploadAuth lasts cannot be chosen.
    private func bounded(
        _ parameters: [(name: String, value: String)],
        of order: ApsaraOrder
    ) throws(ApsaraError) -> [(name: String, value: String)] {
        guard [.getPlayInfo, .getMezzanineInfo, .getImageInfo].contains(order.action) else { return parameters }
        let now = clock.now
        let name = "AuthTimeout"
        let wanted = try order.parameters.integer(name, in: 1...2_592_000)
        let usual = now.addingTimeInterval(Double(wanted ?? 3600))
        let end = order.caller.lastExpiry(usual, at: now)
        guard end < usual else { return parameters }
        let seconds = max(1, Int64(end.timeIntervalSince(now)))
        return parameters.filter { $0.name != name } + [(name: name, value: String(seconds))]
    }

    private func called(
        _ order: ApsaraOrder,
        _ parameters: [(name: String, value: String)]
    ) async throws(ApsaraError) -> CloudForwarder.Reply {
        do throws(CloudForwarder.Failure) {
            return try await cloud(
                order.action.rawValue,
                parameters,
                order.wantsXML,
                order.subject ?? order.caller.subject
            )
        } catch {
            throw ApsaraError(error.isRefusal ? 502 : 503, "ServiceUnAvailable", "\(error.message).")
        }
    }

    // MARK: Beginning

    private func begin(_ order: ApsaraOrder) async throws(ApsaraError) -> ApsaraAnswer {
        let new = try reader.newUpload(order)
        let subject = order.subject ?? order.caller.subject
        guard order.caller.mayBegin(for: subject, in: new.application, at: place) else {
            throw ApsaraError.forbidden
        }
        if let most = order.caller.limit(order.maximumBytes) {
            guard let size = new.size else {
                throw ApsaraError.invalid("FileSize", "is required where the size is limited")
            }
            guard size <= most else { throw ApsaraError.invalid("FileSize", "must be at most \(most)") }
        }
        let parameters = try await parameters(of: order)
        let admission = try await admit(new, subject, order.caller)
        let answer: CloudForwarder.Reply
        do throws(ApsaraError) {
            answer = try await called(order, parameters)
        } catch {
            await withdraw(admission)
            throw error
        }
        if answer.status != 200 { await withdraw(admission) }
        if answer.status == 200, let id = Self.id(in: answer, order.wantsXML) {
            let media = ApsaraCloudMedia(
                id: id,
                kind: new.kind,
                application: new.application,
                subject: subject,
                issuer: order.caller.issuer,
                announced: new.size
            )
            let now = clock.now
            let record = CodedRecord(ApsaraCloudMedia.recordKind, id, media, at: now, until: nil)
            _ = try await core(await records.insert(record.record, at: now))
        }
        return .forwarded(answer)
    }

    /// Takes back what was counted: without credentials the client cannot upload.
    private func withdraw(_ admission: ElsewhereAdmission) async {
        // If this fails, which is logged, the upload counts until the period ends.
        try? await uploads.withdraw(admission)
    }

    /// Checks limits, counts the upload in the quotas of the period, and asks the app.
    private func admit(
        _ new: ApsaraNewUpload,
        _ subject: String?,
        _ caller: ApsaraCaller
    ) async throws(ApsaraError) -> ElsewhereAdmission {
        var values = ["filename": new.fileName]
        values["filetype"] = MediaTypes.type(ofExtension: new.suffix)
        let upload = NewUpload(dialect: "oss", length: new.size, metadata: UploadMetadata(describing: values))
        let grant = Grant(
            id: Grant.newID(at: clock.now),
            issuer: caller.issuer,
            subject: subject,
            expiresAt: .distantFuture,
            issuedAt: clock.now
        )
        do throws(UploadError) {
            // A context of its own, so that a hook does not change the cloud's response.
            let own = RequestContext.current.map { RequestContext($0.info, fields: $0.fields) }
            return try await RequestContext.$current.with(own) { () async throws(UploadError) in
                try await uploads.admitElsewhere([upload], under: grant)
            }
        } catch {
            throw AliyunCallFailure(refusal: error).map(ApsaraError.refused) ?? .core(error)
        }
    }

    /// The id of new media in the cloud's answer.
    static func id(in answer: CloudForwarder.Reply, _ isXML: Bool) -> String? {
        let names = ["VideoId", "ImageId", "MediaId"]
        let ids: [String?]
        if isXML {
            let root = XMLNode.parse(answer.content)
            ids = names.map { root?[$0] }
        } else {
            guard let members = JSONValue(json: answer.content)?.members else { return nil }
            ids = names.map { name in
                if case .string(let text)? = members[name] { text } else { nil }
            }
        }
        return ids.compactMap { $0 }.first { !$0.isEmpty && $0.utf8.count <= 64 && DialectRecord.canBeKey($0) }
    }

    // MARK: Learning

    /// Records status and size, as the cloud returns them, of media that was created here.
    private func learn(from answer: CloudForwarder.Reply) async {
        guard let members = JSONValue(json: answer.content)?.members else { return }
        var returned: [JSONMembers] = []
        if case .object(let video)? = members["Video"] { returned.append(video) }
        for name in ["UploadDetails", "VideoList"] {
            guard case .array(let elements)? = members[name] else { continue }
            for case .object(let element) in elements { returned.append(element) }
        }
        for one in returned {
            guard case .string(let id)? = one["VideoId"] ?? one["MediaId"], DialectRecord.canBeKey(id),
                case .string(let status)? = one["Status"], status.utf8.count <= 32
            else { continue }
            var size: Int64?
            if case .integer(let number)? = one["Size"] ?? one["FileSize"] { size = number }
            // On a failure, the next response of the cloud has the same facts.
            guard let record = try? await records.record(ApsaraCloudMedia.recordKind, id),
                let found = try? CodedRecord<ApsaraCloudMedia>(record)
            else { continue }
            var media = found.content
            media.status = status
            media.size = size ?? media.size
            if !found.has(media) { _ = try? await records.replace(found.replaced(by: media, until: nil).record) }
        }
    }
}
