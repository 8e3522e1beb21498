internal import Bytes
internal import CloudCalls
internal import Foundation
internal import HTTPWire
internal import ObjectStore
internal import Pulls
internal import UploadCore
internal import UploadModel
internal import VODKit

/// Refreshing and pulling.
extension ApsaraActions {
    // MARK: Refreshing

    func refresh(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        let found = try await video(call)
        guard let issued = try await uploads.refresh(found.content, by: call.caller) else {
            throw ApsaraError.noVideo
        }
        return call.documents.begun(issued)
    }

    // MARK: Pulling

    func pull(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        let parameters = call.parameters
        let application = try application(of: call)
        let urls = try parameters.required("UploadURLs").split(separator: ",").map { url in
            // The documentation wants them escaped as a whole.
            let text = String(url)
            return text.contains("://") ? text : PercentEncoding.text(text.utf8) ?? text
        }
        guard urls.count <= 20 else {
            throw ApsaraError.invalid("UploadURLs", "must be at most 20 URLs, separated by commas")
        }
        let reach = pulls.starter.reach(of: call.caller)
        for url in urls {
            if let problem = pulls.starter.problem(with: url, within: reach) {
                throw ApsaraError.invalid("UploadURLs", problem)
            }
        }
        let metadata = try pullMetadata(parameters)
        var news: [(url: String, new: ApsaraNewUpload)] = []
        for url in urls { news.append((url, try newPull(url, metadata[url], parameters, application))) }
        if let session = try parameters.text("SessionId", atMost: 50) {
            guard try await core(await pulls.take(session: session, of: application)) else {
                throw ApsaraError(
                    400,
                    "InvalidParameter.SessionIdDuplicated",
                    "There was a request with this `SessionId` in the last ten minutes."
                )
            }
        }
        var jobs: [AliyunDocument.Value] = []
        for (url, new) in news {
            let job = try await pulls.begin(new, from: url, by: call.caller)
            jobs.append(.object(AliyunDocument([("JobId", .text(job.id)), ("SourceURL", .text(url))])))
        }
        return AliyunDocument([("UploadJobs", .list(of: "UploadJob", jobs))])
    }

    private func newPull(
        _ url: String,
        _ metadata: ApsaraParameters?,
        _ parameters: ApsaraParameters,
        _ application: String
    ) throws(ApsaraError) -> ApsaraNewUpload {
        let path = url.prefix { $0 != "?" && $0 != "#" }
        let name = ApsaraFileName(path: PercentEncoding.text(path.utf8) ?? String(path))
        let own = metadata?["FileExtension"]?.lowercasedASCII()
        guard let suffix = own ?? (path.split(separator: "/").count > 2 ? name.suffix : nil),
            ApsaraFileName.isSuffix(suffix)
        else {
            throw ApsaraError(
                400,
                "InvalidFileName.Extension",
                "A URL in `UploadURLs` must end in an extension such as .mp4, or its `UploadMetadatas` name one in `FileExtension`."
            )
        }
        var new = ApsaraNewUpload(
            kind: .video,
            application: application,
            fileName: ApsaraFileName.isAllowed(name.name) ? name.name : "",
            suffix: suffix
        )
        new.labels =
            try metadata.map { (own) throws(ApsaraError) in try reader.labels(own, for: .video) } ?? .init()
        if new.labels.title.isEmpty { new.labels.title = new.fileName.first(scalars: 128) }
        new.labels.templateGroupID = try parameters.text("TemplateGroupId", atMost: 64) ?? new.labels.templateGroupID
        new.labels.storageLocation = try parameters.text("StorageLocation", atMost: 256)
        new.labels.userData = try reader.userData(parameters)
        return new
    }

    /// By URL.
    private func pullMetadata(_ parameters: ApsaraParameters) throws(ApsaraError) -> [String: ApsaraParameters] {
        guard let text = parameters["UploadMetadatas"] else { return [:] }
        let wrong = ApsaraError.invalid("UploadMetadatas", "must be a JSON list of objects with a SourceURL")
        let json = Array(text.utf8)
        guard JSONLimits().excess(in: json) == nil,
            case .array(let elements)? = JSONValue(json: json),
            JSONNames.areUnique(in: json)
        else { throw wrong }
        var metadata: [String: ApsaraParameters] = [:]
        for element in elements {
            guard case .object(let members) = element, case .string(let url)? = members["SourceURL"] else {
                throw wrong
            }
            var values: [(name: String, value: String)] = []
            for (name, value) in members {
                switch value {
                case .string(let text): values.append((name, text))
                case .integer(let number): values.append((name, String(number)))
                case .null: continue
                default: throw wrong
                }
            }
            metadata[url] = try ApsaraParameters(values)
        }
        return metadata
    }

    func jobs(_ call: Call) async throws(ApsaraError) -> AliyunDocument {
        var ids = call.parameters.list("JobIds")
        let urls = call.parameters.list("UploadURLs")
        guard !ids.isEmpty || !urls.isEmpty else { throw ApsaraError.missing("JobIds") }
        guard ids.count <= 10, urls.count <= 10 else {
            throw ApsaraError.invalid(ids.isEmpty ? "UploadURLs" : "JobIds", "must be at most 10")
        }
        var missing: [String] = []
        if ids.isEmpty {
            for url in urls {
                let found = try await core(await pulls.jobIDs(for: PercentEncoding.text(url.utf8) ?? url))
                if found.isEmpty { missing.append(url) }
                ids += found
            }
        }
        var infos: [AliyunDocument.Value] = []
        for id in ids {
            guard let found = try await core(await pulls.job(id)), call.caller.owns(found.content.subject),
                call.caller.may(call.action, in: found.content.application, at: place)
            else {
                missing.append(id)
                continue
            }
            infos.append(.object(Self.document(of: found)))
        }
        return AliyunDocument([
            ("URLUploadInfoList", .list(of: "URLUploadInfo", infos)), ("NonExists", Self.texts(missing, "NonExist")),
        ])
    }

    private static func document(of found: CodedRecord<ApsaraPull>) -> AliyunDocument {
        let job = found.content
        var document = AliyunDocument([
            ("JobId", .text(job.id)), ("UploadURL", .text(job.url)),
            ("CreationTime", .text(ApsaraDocuments.time(found.record.createdAt))),
        ])
        if let failure = job.failure {
            document.add("Status", "FAIL")
            document.add("ErrorCode", failure.code)
            document.add("ErrorMessage", failure.message)
        } else {
            document.add("MediaId", job.mediaID)
            document.add(
                "Status",
                job.finishedAt != nil ? "SUCCESS" : job.uploadID == nil ? "PENDING" : "UPLOADING"
            )
        }
        if let size = job.size { document.add("FileSize", String(size)) }
        document.add("CompleteTime", job.finishedAt.map { ApsaraDocuments.time($0) })
        document.add("UserData", job.userData)
        return document
    }
}
