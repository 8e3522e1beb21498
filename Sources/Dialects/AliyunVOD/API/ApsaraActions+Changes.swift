internal import CloudCalls
internal import Foundation
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Changing and deleting media, and callbacks.
extension ApsaraActions {
    func update(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        let parameters = call.parameters
        let found = try await video(call)
        let given = try reader.labels(parameters, for: .video)
        // `ReferenceId` finds the video if there is no `VideoId`, and is set if there is.
        let reference = parameters["VideoId"] == nil ? nil : given.referenceID
        let now = library.clock.now.unixSeconds
        do throws(UploadError) {
            let changed = try await library.change(found.content.id) { media in
                if parameters.has("Title"), !given.title.isEmpty { media.labels.title = given.title }
                if parameters.has("Description") { media.labels.description = given.description }
                if parameters.has("CoverURL") { media.labels.coverURL = given.coverURL }
                if parameters.has("Tags") { media.labels.tags = given.tags }
                if parameters.has("CateId") { media.labels.categoryIDs = given.categoryIDs }
                if parameters.has("UserData") { media.labels.userData = given.userData }
                if let reference { media.labels.referenceID = reference }
                media.modifiedAt = now
            }
            if changed != nil { return AliyunDocument() }
        } catch {
            throw error.code == .conditionFailed ? .duplicatedReference : .core(error)
        }
        throw ApsaraError.noVideo
    }

    // MARK: Deleting

    func deleteVideos(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        var ids = try ids("VideoIds", call, orElse: "VideoIdsExceededMax")
        let references = try self.ids("ReferenceIds", call, orElse: "VideoIdsExceededMax")
        guard !ids.isEmpty || !references.isEmpty else { throw ApsaraError.missing("VideoIds") }
        var missing: [String] = []
        if ids.isEmpty { (ids, missing) = try await resolved(references, call) }
        let several = try await several(ids, .video, call)
        if several.found.isEmpty, several.forbidden.isEmpty, missing.isEmpty, several.missing.count == 1 {
            throw ApsaraError.noVideo
        }
        for found in several.found { try await core(await library.delete(found.content.id, hasEvent: true)) }
        return AliyunDocument([
            ("NonExistVideoIds", Self.texts(several.missing, "VideoId")),
            ("ForbiddenVideoIds", Self.texts(several.forbidden, "VideoId")),
            ("NonExistReferenceIds", Self.texts(missing, "ReferenceId")),
        ])
    }

    func deleteImages(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        _ = try call.parameters.required("DeleteImageType")
        let type = try call.parameters.choice("DeleteImageType", of: ["ImageId", "ImageURL", "VideoId"])
        var ids: [String]
        switch type {
        case "ImageURL":
            ids = try self.ids("ImageURLs", call, orElse: "LimitExceeded.ImageURLs").map { url in
                String(url.prefix { $0 != "?" }.split(separator: "/").last?.prefix { $0 != "." } ?? "")
            }
        case "VideoId":
            // There are no snapshots.
            _ = try await video(call)
            return AliyunDocument()
        default: ids = try self.ids("ImageIds", call, orElse: "LimitExceeded.ImageIds")
        }
        guard !ids.isEmpty else { throw ApsaraError.missing(type == "ImageURL" ? "ImageURLs" : "ImageIds") }
        let several = try await several(ids, .image, call)
        if several.found.isEmpty {
            throw several.forbidden.isEmpty ? ApsaraError.noImage : .forbidden
        }
        for found in several.found { try await core(await library.delete(found.content.id, hasEvent: true)) }
        return AliyunDocument([("NonExistImageIds", Self.texts(several.missing, "ImageId"))])
    }

    func deleteParts(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        _ = try call.parameters.required("MediaType")
        _ = try call.parameters.choice("MediaType", of: ["video"])
        let id = try call.parameters.required("MediaId")
        let found = try await media(id, .video, call, orElse: .noVideo)
        guard try await core(await library.endUploads(of: found.content)) > 0 else {
            throw ApsaraError(
                400,
                "InvalidMultipartUpload.NotFound",
                "There is no unfinished multipart upload of this video."
            )
        }
        return AliyunDocument()
    }

    // MARK: Callbacks

    func setCallback(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        let parameters = call.parameters
        let application = try application(of: call)
        guard try parameters.choice("CallbackType", of: ["HTTP", "MNS"]) ?? "HTTP" == "HTTP" else {
            throw ApsaraError.invalid("CallbackType", "must be HTTP on this server")
        }
        let types = parameters.list("EventTypeList")
        // An empty list turns all events off.
        guard !types.isEmpty else {
            try await core(await callbacks.set(nil, of: application))
            return AliyunDocument()
        }
        guard types.allSatisfy({ type in type.utf8.count <= 64 && type.allSatisfy { $0.isASCII && $0.isLetter } })
        else {
            throw ApsaraError.invalid("EventTypeList", "must be ALL, or types separated by commas")
        }
        let url = try parameters.required("CallbackURL")
        guard url.utf8.count <= ApsaraUserData.maximumURL else { throw ApsaraParameters.tooLong("CallbackURL", 256) }
        try reader.check(callbackURL: url, "CallbackURL")
        let isSigned = try parameters.choice("AuthSwitch", of: ["on", "off"]) == "on"
        let key = try parameters.text("AuthKey", atMost: 32) ?? ""
        if isSigned, key.isEmpty { throw ApsaraError.missing("AuthKey") }
        try await core(
            await callbacks.set(
                ApsaraCallback(url: url, types: types, isSigned: isSigned, key: callbacks.seal(key)),
                of: application
            )
        )
        return AliyunDocument()
    }

    func callback(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        let application = try application(of: call)
        var document = AliyunDocument([("AppId", .text(application))])
        if let callback = try await core(await callbacks.callback(of: application)) {
            document.add("CallbackType", "HTTP")
            document.add("CallbackURL", callback.url)
            document.add("EventTypeList", callback.types.joined(separator: ","))
            document.add("AuthSwitch", callback.isSigned ? "on" : "off")
            // The key is for the receiver; whoever may read need not have it.
            document.add("AuthKey", callback.key.isEmpty ? "" : "********")
        }
        return AliyunDocument([("MessageCallback", .object(document))])
    }
}
