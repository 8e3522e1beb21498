internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import Signing
internal import UploadCore
internal import UploadModel
internal import VODKit

/// The actions of API 3.0 that are served.
struct VODActions: Sendable {
    enum Action: String, Sendable, CaseIterable {
        case applyUpload = "ApplyUpload"
        case commitUpload = "CommitUpload"
        case parseStreamingManifest = "ParseStreamingManifest"
        case describeMediaInfos = "DescribeMediaInfos"
        case searchMedia = "SearchMedia"
        case modifyMediaInfo = "ModifyMediaInfo"
        case deleteMedia = "DeleteMedia"
        case describeSubAppIds = "DescribeSubAppIds"
        case pullUpload = "PullUpload"
        case describeTaskDetail = "DescribeTaskDetail"
        case pullEvents = "PullEvents"
        case confirmEvents = "ConfirmEvents"

        /// The scope that an API key needs.
        var scope: Scope {
            switch self {
            case .applyUpload, .commitUpload, .parseStreamingManifest: .mint
            case .modifyMediaInfo, .pullUpload: .upload
            case .describeMediaInfos, .searchMedia, .describeSubAppIds, .describeTaskDetail, .pullEvents,
                .confirmEvents:
                .read
            case .deleteMedia: .delete
            }
        }

        /// Whether it is about media or events of an application.
        var isOfApplication: Bool { self != .describeSubAppIds && self != .parseStreamingManifest }
    }

    /// A call, for its response.
    struct Context {
        let requestID: String
        let request: Request

        init(_ requestID: String, _ request: Request) {
            self.requestID = requestID
            self.request = request
        }
    }

    /// How long `PullEvents` waits for an event ("PullEvents", VOD documentation).
    private static let longestWait = Duration.seconds(5)
    /// Events of other nodes ring no bell here.
    private static let look = Duration.milliseconds(500)

    let uploads: VODUploads
    let pulls: VODPulls
    let library: VODLibrary
    let events: VODEvents
    let documents: VODDocuments
    /// Whether there is an object endpoint for the bytes.
    let isServed: Bool

    func perform(
        _ action: Action,
        _ parameters: inout VODParameters,
        by caller: VODCaller,
        in context: Context
    ) async throws(VODError) -> Response {
        // As in signatures.
        let named = try parameters.integer("SubAppId", in: 0...Int64.max).flatMap { $0 == 0 ? nil : $0 }
        let application = named ?? uploads.place.appID
        guard uploads.place.has(application) else {
            throw parameters.wrong(
                "SubAppId",
                "must be an application of this server (tencent.vodAppId, tencent.subApplications)"
            )
        }
        guard !action.isOfApplication || uploads.place.allows(caller.limits, application) else {
            throw VODError("UnauthorizedOperation", "The key may not act for this application (SubAppId).")
        }
        let id = context.requestID
        switch action {
        case .applyUpload: return try await applyUpload(&parameters, caller, named, id)
        case .commitUpload: return try await commitUpload(&parameters, caller, named, context)
        case .parseStreamingManifest: return VODDocuments.manifest(try parameters.streamingManifest(), id)
        case .describeMediaInfos: return try await describe(&parameters, caller, application, context)
        case .searchMedia: return try await search(&parameters, caller, application, context)
        case .modifyMediaInfo: return try await modify(&parameters, caller, application, id)
        case .deleteMedia: return try await delete(&parameters, caller, application, id)
        case .describeSubAppIds: return try applications(&parameters, caller, id)
        case .pullUpload: return try await pullUpload(&parameters, caller, named, id)
        case .describeTaskDetail: return try await describeTask(&parameters, caller, application, context)
        case .pullEvents: return try await pullEvents(&parameters, caller, application, context)
        case .confirmEvents: return try await confirmEvents(&parameters, caller, application, id)
        }
    }

    // MARK: Uploads

    private func applyUpload(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64?,
        _ requestID: String
    ) async throws(VODError) -> Response {
        guard isServed else {
            throw VODError(.notServed, "this server has no object endpoint (object.listen), so it takes no uploads")
        }
        guard let type = try parameters.text("MediaType", atMost: 512) else { throw VODParameters.missing("MediaType") }
        guard VODNewFile.isType(type) else {
            throw parameters.wrong("MediaType", "must be 1 to 16 letters and digits, such as mp4")
        }
        let coverType = try parameters.text("CoverType", atMost: 512)
        guard coverType.map(VODNewFile.isType) ?? true else {
            throw parameters.wrong("CoverType", "must be 1 to 16 letters and digits, such as jpg")
        }
        let name = try parameters.text("MediaName", atMost: 512) ?? ""
        guard VODNewFile.isName(name) else {
            throw parameters.wrong("MediaName", "must not contain \\ / : * ? \" < > | or control characters")
        }
        try refuseExpiry(&parameters)
        try Self.checkUser(of: caller)
        let signed = try labels(&parameters, of: application)
        // Reserved by the vendor.
        parameters.drop(["ExtInfo"])
        try parameters.finish()
        let cover = coverType.map { VODNewFile(name: "", type: $0, size: nil) }
        let applied = try await uploads.begin(
            .media(VODNewFile(name: name, type: type, size: nil), cover: cover),
            region: nil,
            by: signer(caller, signed)
        )
        var response = VODDocuments.application(applied, requestID)
        response.trace.mediaID = applied.session.mediaID
        return response
    }

    /// Refuses uploads of a key that is limited to several users: calls name no user, so no user could commit them.
    static func checkUser(of caller: VODCaller) throws(VODError) {
        guard caller.limits.allows(subject: caller.limits.onlySubject) else {
            throw VODError(
                "UnauthorizedOperation",
                "The key is limited to several users, and this call names none; use a key of one user, or without such limits."
            )
        }
    }

    /// What an upload SDK would have in its signature.
    func labels(
        _ parameters: inout VODParameters,
        of application: Int64?
    ) throws(VODError) -> TencentUploadSignature.Parameters {
        let region = try parameters.text("StorageRegion", atMost: 64)
        guard region.map(SignatureRequest.isRegion) ?? true else {
            throw parameters.wrong("StorageRegion", "must be a region such as ap-guangzhou")
        }
        var signed = signed(in: application)
        signed.classID = try parameters.integer("ClassId", in: 0...Int64.max)
        signed.procedure = try parameters.text("Procedure", atMost: SignatureRequest.procedureLength)
        signed.sourceContext = try parameters.text("SourceContext", atMost: SignatureRequest.sourceContextLength)
        signed.sessionContext = try parameters.text(
            "SessionContext",
            atMost: SignatureRequest.sessionContextLength
        )
        signed.storageRegion = region
        return signed
    }

    private func signed(in application: Int64?) -> TencentUploadSignature.Parameters {
        let now = uploads.clock.now.unixSeconds
        return TencentUploadSignature.Parameters(
            secretID: "",
            currentTimeStamp: now,
            expireTime: now,
            random: 0,
            vodSubAppID: application
        )
    }

    /// The time after which the vendor deletes media.
    func refuseExpiry(_ parameters: inout VODParameters) throws(VODError) {
        // In the year 9999 it means never.
        guard let end = try parameters.time("ExpireTime"), end.unixSeconds < 253_370_764_800 else { return }
        throw VODError(
            "UnsupportedOperation",
            "This server does not delete media by itself: leave out `ExpireTime`."
        )
    }

    private func commitUpload(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64?,
        _ context: Context
    ) async throws(VODError) -> Response {
        guard let sessionKey = try parameters.text("VodSessionKey") else {
            throw VODParameters.missing("VodSessionKey")
        }
        try parameters.finish()
        let committed = try await uploads.commit(sessionKey, by: signer(caller, signed(in: application)))
        var response = documents.commitment(committed.media, for: context.request, context.requestID)
        response.note(committed.media)
        return response
    }

    func signer(_ caller: VODCaller, _ parameters: TencentUploadSignature.Parameters) -> VODSigner {
        VODSigner(
            parameters: parameters,
            id: "",
            secretKey: caller.secretKey,
            owner: VODOwner(
                application: parameters.vodSubAppID ?? uploads.place.appID,
                subject: caller.limits.onlySubject
            ),
            issuer: caller.key?.id,
            maximumBytes: nil,
            contentTypes: [],
            serverLimits: caller.limits,
            lastExpiry: caller.key?.end(ofMintedAt: uploads.clock.now)
        )
    }

    // MARK: Media

    private func describe(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64,
        _ context: Context
    ) async throws(VODError) -> Response {
        let ids = try parameters.texts("FileIds", atMost: 20, of: 64)
        guard !ids.isEmpty else { throw VODParameters.missing("FileIds") }
        let filters = Set(try parameters.texts("Filters", atMost: 50))
        try parameters.finish()
        var found: [CodedRecord<VODMedia>] = []
        var missing: [String] = []
        for id in ids {
            if let media = try await core(await library.media(id, of: application)), caller.maySee(media.content),
                let current = try await core(await library.settled(media, telling: events))
            {
                found.append(current)
            } else {
                missing.append(id)
            }
        }
        var response = documents.media(found, missing: missing, filters, for: context.request, context.requestID)
        if ids.count == 1, let only = found.first?.content { response.note(only) }
        return response
    }

    private func search(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64,
        _ context: Context
    ) async throws(VODError) -> Response {
        let query = try VODQuery(&parameters)
        let filters = Set(try parameters.texts("Filters", atMost: 50))
        try parameters.finish()
        let found = try await core(await library.search(application, query, under: caller.limits))
        return documents.found(found, filters, for: context.request, context.requestID)
    }

    private func modify(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64,
        _ requestID: String
    ) async throws(VODError) -> Response {
        let id = try Self.fileID(&parameters)
        let edit = try VODEdit(&parameters, at: uploads.clock.now)
        try refuseExpiry(&parameters)
        try parameters.finish()
        let changed = try await library.change(id, of: application, where: caller.maySee) { (media) throws(VODError) in
            try edit.apply(to: &media)
        }
        guard changed != nil else { throw Self.noMedia }
        var response = VODDocuments.nothing(requestID)
        response.trace.mediaID = id
        return response
    }

    private func delete(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64,
        _ requestID: String
    ) async throws(VODError) -> Response {
        let id = try Self.fileID(&parameters)
        guard !parameters.has("DeleteParts") else {
            throw VODError(
                "UnsupportedOperation",
                "Parts of media cannot be deleted: leave out `DeleteParts`."
            )
        }
        try parameters.finish()
        let isDeleted: Bool
        do throws(UploadError) {
            isDeleted = try await library.delete(id, of: application, where: caller.maySee)
        } catch {
            throw Self.refusal(ofDeletion: error)
        }
        guard isDeleted else { throw Self.noMedia }
        var response = VODDocuments.nothing(requestID)
        response.trace.mediaID = id
        return response
    }

    static func refusal(ofDeletion error: UploadError) -> VODError {
        // The app keeps it.
        error.code == .rejected ? VODError("UnauthorizedOperation", error.message) : .core(error)
    }

    private static func fileID(_ parameters: inout VODParameters) throws(VODError) -> String {
        guard let id = try parameters.text("FileId", atMost: 64) else { throw VODParameters.missing("FileId") }
        return id
    }

    private static let noMedia = VODError(
        "ResourceNotFound.FileNotExist",
        "There is no media with this `FileId` in this application."
    )

    private func applications(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ requestID: String
    ) throws(VODError) -> Response {
        let name = try parameters.text("Name")
        let offset = try parameters.integer("Offset", in: 0...Int64.max) ?? 0
        let limit = try parameters.integer("Limit", in: 1...200) ?? 200
        try parameters.finish()
        let all = uploads.place.applications.filter { id in
            uploads.place.allows(caller.limits, id) && (name.map { $0 == String(id) } ?? true)
        }
        let page = all.dropFirst(Int(clamping: offset)).prefix(Int(limit))
        return VODDocuments.applications(Array(page), of: all.count, requestID)
    }

    // MARK: Events

    private func pullEvents(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64,
        _ context: Context
    ) async throws(VODError) -> Response {
        parameters.drop(["ExtInfo"])
        try parameters.finish()
        try checkEvents()
        let end = ContinuousClock.now + Self.longestWait
        while true {
            let count = events.bell.count
            let start = ContinuousClock.now
            let claimed = try await core(
                await events.claim(of: application, limit: 16, where: caller.maySee)
            )
            if !claimed.isEmpty || .now >= end {
                return documents.events(claimed, for: context.request, context.requestID)
            }
            let pause = Polling.pause(after: .now - start, atLeast: .zero)
            try? await Task.sleep(for: min(pause, max(.zero, end - .now)))
            await events.bell.wait(after: count, timeout: Self.look)
        }
    }

    private func confirmEvents(
        _ parameters: inout VODParameters,
        _ caller: VODCaller,
        _ application: Int64,
        _ requestID: String
    ) async throws(VODError) -> Response {
        let handles = try parameters.texts("EventHandles", atMost: 16)
        parameters.drop(["ExtInfo"])
        try parameters.finish()
        guard !handles.isEmpty else { throw VODParameters.missing("EventHandles") }
        try checkEvents()
        var refused = false
        for handle in handles
        where try await !core(await events.confirm(handle, of: application, where: caller.maySee)) { refused = true }
        guard !refused else {
            throw parameters.wrong(
                "EventHandles",
                "has a handle that is unknown, or that came too late: its event comes again"
            )
        }
        return VODDocuments.nothing(requestID)
    }

    private func checkEvents() throws(VODError) {
        guard events.mode == .pull else {
            throw VODError("UnsupportedOperation", "Events are not kept for this call (tencent.events).")
        }
    }
}

extension Response {
    /// Notes for the log which media a call was about.
    mutating func note(_ media: VODMedia) {
        trace.mediaID = media.fileID
        trace.uploadID = media.contentID
    }
}

extension VODCaller {
    func maySee(_ media: VODMedia) -> Bool { limits.allows(subject: media.owner.subject) }
}
