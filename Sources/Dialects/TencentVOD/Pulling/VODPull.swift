internal import UploadModel

/// A task in which the gateway fetches media from a URL (`PullUpload`).
struct VODPull: Sendable, Equatable, Codable {
    /// Why nothing was fetched.
    struct Failure: Sendable, Equatable, Codable {
        /// 60000 for a source that does not give the media, 70000 for an error of this server.
        var code: Int
        var message: String
    }

    /// Of the media, if there will be any.
    var fileID: String
    var owner: VODOwner
    var bucket: String
    var region: String
    var video: VODFile
    var labels: VODLabels
    /// Without user, password and query.
    var url: String
    /// What the caller chose to recognise the task.
    var sessionID: String?
    /// The pulled upload; `nil` until that is recorded.
    var uploadID: String?
    /// Unix seconds; `nil` while it is fetched.
    var finishedAt: Int64?
    /// `nil` without one.
    var failure: Failure?

    static let kind = "tencent task"

    /// For callers.
    var taskID: String { "\(owner.application)-PullUpload-\(fileID)" }

    /// The id of the media in the id of a task of this application.
    static func fileID(in taskID: String, of application: Int64) -> String? {
        let prefix = "\(application)-PullUpload-"
        return taskID.hasPrefix(prefix) ? String(taskID.dropFirst(prefix.count)) : nil
    }

    /// The session with which a client would have uploaded this file.
    var session: VODSession {
        VODSession(
            fileID: fileID,
            owner: owner,
            bucket: bucket,
            region: region,
            video: video,
            source: .pull,
            labels: labels,
            validUntil: 0
        )
    }

    /// What it makes, before its size is known.
    var media: VODMedia? { VODMedia(session, size: 0, md5: nil) }
}
