internal import Bytes
internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Performs the actions of ApsaraVideo VOD, API version 2017-03-21.
struct ApsaraActions: Sendable {
    let uploads: ApsaraUploads
    let pulls: ApsaraPulls
    let callbacks: ApsaraCallbacks
    let reader: ApsaraUploadReader
    let links: ApsaraLinks
    var library: ApsaraLibrary { uploads.library }
    var place: ApsaraPlace { uploads.place }

    /// An action, and what its response is made with.
    struct Call: Sendable {
        let order: ApsaraOrder
        let documents: ApsaraDocuments
        var action: ApsaraAction { order.action }
        var parameters: ApsaraParameters { order.parameters }
        var caller: ApsaraCaller { order.caller }
    }

    /// - Throws: `ApsaraError`.
    func perform(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        // What needs no signature needs no right.
        guard call.action.isAlsoUnsigned || call.caller.mayAnywhere(call.action) else {
            throw ApsaraError.forbidden
        }
        guard call.action.scope == .delete else { return try await answer(call) }
        return try await FreeingWork.$isRunning.with(true) { () async throws(ApsaraError) in try await answer(call) }
    }

    private func answer(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        switch call.action {
        case .createUploadVideo, .createUploadImage, .createUploadAttachedMedia:
            var new = try reader.newUpload(call.order)
            new.subject = call.order.subject
            new.maximumBytes = call.order.maximumBytes
            return call.documents.begun(try await uploads.begin(new, by: call.caller))
        case .refreshUploadVideo: return try await refresh(call)
        case .uploadMediaByURL: return try await pull(call)
        case .getURLUploadInfos: return try await jobs(call)
        case .getUploadDetails: return try await details(call)
        case .deleteMultipartUpload: return try await deleteParts(call)
        case .getVideoInfo: return AliyunDocument([("Video", .object(try await info(call)))])
        case .getVideoInfos: return try await infos(call)
        case .updateVideoInfo: return try await update(call)
        case .deleteVideo: return try await deleteVideos(call)
        case .getMezzanineInfo: return try await mezzanine(call)
        case .getPlayInfo: return try await play(call)
        case .getImageInfo: return try await image(call)
        case .deleteImage: return try await deleteImages(call)
        case .searchMedia: return try await search(call)
        case .setMessageCallback: return try await setCallback(call)
        case .getMessageCallback: return try await callback(call)
        case .reportUploadProgress: return AliyunDocument()
        case .getUploadProgress: return try await progress(call.parameters)
        }
    }

    // MARK: What callers name

    func application(of call: Call) throws(ApsaraError) -> String { try reader.application(of: call.order) }

    /// Whether a caller may perform an action on media.
    func allows(_ call: Call, _ media: ApsaraMedia) -> Bool {
        call.caller.may(call.action, in: media.application, at: place) && call.caller.owns(media.subject)
    }

    /// The media that a call names by its id.
    ///
    /// - Throws: `missing` if there is no such media, and also if the caller may not see it, so that the answer does not
    ///   show that it exists.
    func media(
        _ id: String,
        _ kind: ApsaraMedia.Kind,
        _ call: Call,
        orElse missing: ApsaraError
    ) async throws(ApsaraError) -> CodedRecord<ApsaraMedia> {
        guard let found = try await core(await library.media(id)), found.content.kind == kind,
            allows(call, found.content)
        else {
            throw missing
        }
        return found
    }

    /// The video that a call names by `VideoId` or `ReferenceId`.
    func video(_ call: Call) async throws(ApsaraError) -> CodedRecord<ApsaraMedia> {
        if let id = call.parameters["VideoId"] {
            return try await media(id, .video, call, orElse: .noVideo)
        }
        guard let reference = try call.parameters.referenceID() else { throw ApsaraError.missing("VideoId") }
        guard let id = try await core(await self.id(ofReference: reference, call)) else { throw ApsaraError.noVideo }
        return try await media(id, .video, call, orElse: .noVideo)
    }

    /// The media with a reference id: in the application that the call names, or in the first one that its caller may use.
    func id(ofReference reference: String, _ call: Call) async throws(UploadError) -> String? {
        for id in try await library.ids(ofReference: reference, in: call.parameters["AppId"]) {
            if let found = try await library.record(id), allows(call, found.content) { return id }
        }
        return nil
    }

    /// Ids separated by commas, at most 20.
    func ids(
        _ name: String,
        _ call: Call,
        orElse tooMany: String
    ) throws(ApsaraError) -> [String] {
        let ids = call.parameters.list(name)
        guard ids.count <= 20 else {
            throw ApsaraError(400, tooMany, "`\(name)` must be at most 20 ids, separated by commas.")
        }
        return ids
    }

    /// Media of several ids.
    struct Several {
        var found: [CodedRecord<ApsaraMedia>] = []
        var missing: [String] = []
        var forbidden: [String] = []
    }

    func several(_ ids: [String], _ kind: ApsaraMedia.Kind?, _ call: Call) async throws(ApsaraError) -> Several {
        var several = Several()
        var seen: Set<String> = []
        for id in ids where seen.insert(id).inserted {
            guard let found = try await core(await library.media(id)), kind == nil || found.content.kind == kind,
                call.caller.owns(found.content.subject)
            else {
                several.missing.append(id)
                continue
            }
            if allows(call, found.content) { several.found.append(found) } else { several.forbidden.append(id) }
        }
        return several
    }

    static func texts(_ texts: [String], _ name: String) -> AliyunDocument.Value {
        .list(of: name, texts.map { .text($0) })
    }

    // MARK: Reading

    private func info(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        var document = call.documents.video(try await video(call))
        document.add("Snapshots", .named("Snapshot", []))
        return document
    }

    private func infos(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        var ids = try ids("VideoIds", call, orElse: "VideoIdsExceededMax")
        var missing: [String] = []
        let references = try self.ids("ReferenceIds", call, orElse: "VideoIdsExceededMax")
        if ids.isEmpty, references.isEmpty { throw ApsaraError.missing("VideoIds") }
        if ids.isEmpty { (ids, missing) = try await resolved(references, call) }
        let several = try await several(ids, .video, call)
        return AliyunDocument([
            ("VideoList", .list(of: "Video", several.found.map { .object(call.documents.video($0)) })),
            ("NonExistVideoIds", Self.texts(several.missing + several.forbidden, "VideoId")),
            ("NonExistReferenceIds", Self.texts(missing, "ReferenceId")),
        ])
    }

    /// The ids of media with these reference ids, and the reference ids of none.
    func resolved(_ references: [String], _ call: Call) async throws(ApsaraError) -> (ids: [String], missing: [String])
    {
        var (ids, missing): ([String], [String]) = ([], [])
        for reference in references {
            if let id = try await core(await id(ofReference: reference, call)) {
                ids.append(id)
            } else {
                missing.append(reference)
            }
        }
        return (ids, missing)
    }

    private func details(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        _ = try call.parameters.required("MediaIds")
        let ids = try ids("MediaIds", call, orElse: "LimitExceeded.MediaIds")
        let type = try call.parameters.choice("MediaType", of: ["video", "image", "attached"]) ?? "video"
        let kind: ApsaraMedia.Kind = type == "video" ? .video : type == "image" ? .image : .attached
        let several = try await several(ids, kind, call)
        var details: [AliyunDocument.Value] = []
        for found in several.found {
            var arrived: Int64 = 0
            if found.content.content == nil {
                for upload in try await core(await library.openUploads(of: found.content)) {
                    arrived = max(arrived, try await core(await library.arrivedBytes(of: upload)))
                }
            }
            details.append(.object(call.documents.details(found, arrived: arrived)))
        }
        return AliyunDocument([
            ("UploadDetails", .list(of: "UploadDetail", details)),
            ("NonExistMediaIds", Self.texts(several.missing, "MediaId")),
            ("ForbiddenMediaIds", Self.texts(several.forbidden, "MediaId")),
        ])
    }

    private func mezzanine(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        let seconds = try linkLifetime(call)
        let found = try await video(call)
        return AliyunDocument([("Mezzanine", .object(call.documents.mezzanine(found, linkFor: seconds)))])
    }

    private func play(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        let seconds = try linkLifetime(call)
        let found = try await video(call)
        guard found.content.content != nil else {
            throw ApsaraError(403, "Forbidden.IllegalStatus", "The video has not been uploaded completely.")
        }
        let formats = call.parameters.list("Formats").map { $0.lowercasedASCII() }
        let types = call.parameters.list("StreamType")
        let definitions = call.parameters.list("Definition")
        let type = found.content.isAudio ? "audio" : "video"
        guard formats.isEmpty || formats.contains(found.content.suffix), types.isEmpty || types.contains(type),
            definitions.isEmpty || definitions.contains("OD") || definitions.contains("AUTO")
        else {
            throw ApsaraError(
                404,
                "InvalidVideo.NoneStream",
                "There is only the original of this video: \(found.content.suffix), \(type), OD."
            )
        }
        return call.documents.play(found, linkFor: seconds)
    }

    private func image(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        let seconds = try linkLifetime(call)
        let id = try call.parameters.required("ImageId")
        let found = try await media(id, .image, call, orElse: .noImage)
        return AliyunDocument([("ImageInfo", .object(call.documents.image(found, linkFor: seconds)))])
    }

    private func linkLifetime(_ call: Call) throws(ApsaraError) -> Int64 {
        _ = try call.parameters.choice("OutputType", of: ["oss", "cdn"])
        return try call.parameters.integer("AuthTimeout", in: 1...2_592_000).map { min($0, 604_800) } ?? 3600
    }

    private func search(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        var query = ApsaraQuery()
        let kinds = ApsaraQuery.Kind.allCases.map(\.rawValue)
        if let type = call.parameters["SearchType"] {
            let wanted = type.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
            guard !wanted.isEmpty, wanted.allSatisfy(kinds.contains) else {
                throw ApsaraError.invalid("SearchType", "must be \(kinds.joined(separator: ", "))")
            }
            query.kinds = Set(wanted.compactMap { ApsaraQuery.Kind(rawValue: $0) })
        }
        do throws(ApsaraMatch.Problem) {
            query.match = try ApsaraMatch(call.parameters["Match"] ?? "")
        } catch {
            throw ApsaraError.invalid("Match", error.message)
        }
        let order = try call.parameters.choice("SortBy", of: ["CreationTime:Desc", "CreationTime:Asc"])
        query.isOldestFirst = order == "CreationTime:Asc"
        query.limit = Int(try call.parameters.integer("PageSize", in: 1...100) ?? 10)
        if let token = call.parameters["ScrollToken"] {
            guard ApsaraMedia.isID(token) else {
                throw ApsaraError.invalid("ScrollToken", "must be from an earlier answer")
            }
            query.after = token
        } else {
            query.offset = (Int(try call.parameters.integer("PageNo", in: 1...200) ?? 1) - 1) * query.limit
        }
        let found = try await core(await library.search(query, by: call.caller))
        var document = AliyunDocument([
            ("MediaList", .list(of: "Media", found.media.map { .object(call.documents.found($0)) })),
            ("Total", .integer(Int64(found.count))),
        ])
        document.add("ScrollToken", found.media.last?.content.id ?? query.after)
        return document
    }
}

extension ApsaraActions: ApsaraService {
    func perform(_ order: ApsaraOrder, for request: Request) async throws(ApsaraError) -> ApsaraAnswer {
        let documents = try links.documents(for: request, at: place, by: order.caller)
        return .document(try await perform(Call(order: order, documents: documents)))
    }

    func refresh(_ id: String, _ order: ApsaraOrder, for request: Request) async throws(ApsaraError) -> ApsaraAnswer {
        let call = Call(order: order, documents: try links.documents(for: request, at: place, by: order.caller))
        guard let found = try await core(await library.media(id)), allows(call, found.content),
            let issued = try await uploads.refresh(found.content, by: order.caller)
        else { throw ApsaraError.noMedia }
        return .document(call.documents.begun(issued))
    }

    /// Kept with media that is being uploaded, for `GetUploadDetails`.
    func report(_ parameters: ApsaraParameters, from address: String) async throws(ApsaraError) {
        guard let id = parameters["VideoId"] ?? parameters["MediaId"] else { return }
        func short(_ name: String) -> String? {
            parameters[name].map { $0.first(scalars: 64) }.flatMap { ApsaraParameters.isLegal($0) ? $0 : nil }
        }
        let ratio = parameters["UploadRatio"].flatMap { Double($0) }.flatMap { (0...1).contains($0) ? $0 : nil }
        let sizes = 0...ApsaraUploadReader.largestFile
        let size = parameters["FileSize"].flatMap { Int64($0) }.flatMap { sizes.contains($0) ? $0 : nil }
        let now = library.clock.now.unixSeconds
        let media = try await core(
            await library.change(id) { media in
                guard now < media.openUntil else { return }
                var progress = media.progress ?? ApsaraMedia.Progress()
                progress.ratio = ratio ?? progress.ratio
                if let ratio, let size { progress.uploadedBytes = Int64(ratio * Double(size)) }
                progress.deviceModel = short("DeviceModel") ?? progress.deviceModel
                progress.source = short("Source") ?? progress.source
                progress.address = address
                media.progress = progress
            }
        )
        if let media, now < media.openUntil, media.content == nil, let checkpoint = ApsaraCheckpoint(parameters) {
            try await core(await library.keep(checkpoint, of: media))
        }
    }

    /// For the browser that reported it; `nil` members and other files are left out.
    func progress(_ parameters: ApsaraParameters) async throws(ApsaraError) -> AliyunDocument {
        var found: [AliyunDocument.Value] = []
        for file in try ApsaraCheckpoint.File.list(parameters) {
            if let checkpoint = try await core(await library.checkpoint(of: file)) {
                found.append(.object(checkpoint.document))
            }
        }
        return AliyunDocument([
            ("UploadProgress", .object(AliyunDocument([("UploadProgressList", .list(of: "UploadProgress", found))])))
        ])
    }
}

extension ApsaraLibrary {
    /// Bytes of the parts of an upload that have arrived.
    func arrivedBytes(of upload: Upload) async throws(UploadError) -> Int64 {
        var (sum, last): (Int64, Int) = (0, 0)
        while true {
            let (_, page) = try await parts.parts(of: upload.id, after: last, limit: 1000)
            sum += page.reduce(0) { $0 + $1.size }
            guard page.count == 1000, let number = page.last?.number else { return sum }
            last = number
        }
    }
}
