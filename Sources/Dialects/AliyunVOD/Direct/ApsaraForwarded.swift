internal import Bytes

/// What a caller with limits may say to the cloud, which takes it for the account's word.
///
/// Only parameters that are documented for an action, and that concern nothing but its media, are passed on; others are left out,
/// as those that an action does not know (ApsaraVideo VOD API reference, version 2017-03-21).
enum ApsaraForwarded {
    private static let labels: Set<String> = [
        "AppId", "CateId", "CateIds", "Description", "FileName", "FileSize", "Tags",
        "TemplateGroupId",
        "Title", "UserData", "WorkflowId",
    ]

    /// Whether custom settings of media concern nothing else.
    ///
    /// Members are compared as they are: the cloud may take `messageCallback` or `message_callback` for `MessageCallback`, so none is
    /// passed on but those that are known to be harmless.
    static func isHarmless(userData text: String) -> Bool {
        guard ApsaraUserData(text) != nil, let members = JSONValue(json: Array(text.utf8))?.members else {
            return false
        }
        return members.allSatisfy { $0.key == "Extend" || $0.key == "AccelerateConfig" }
    }

    /// - Returns: The names; none for actions that need a caller without limits.
    static func names(_ action: ApsaraAction) -> Set<String> {
        switch action {
        case .createUploadVideo: labels.union(["CoverURL", "ReferenceId"])
        case .createUploadImage: labels.union(["ImageExt", "ImageType", "OriginalFileName"])
        case .createUploadAttachedMedia: labels.union(["BusinessType", "MediaExt", "MediaIds"])
        case .refreshUploadVideo, .getVideoInfo: ["VideoId"]
        case .getVideoInfos: ["VideoIds"]
        case .updateVideoInfo:
            ["CateId", "CoverURL", "Description", "ReferenceId", "Tags", "Title", "UserData", "VideoId"]
        case .getMezzanineInfo: ["AuthTimeout", "OutputType", "VideoId"]
        case .getPlayInfo:
            [
                "AuthTimeout", "Definition", "Formats", "OutputType", "PlayConfig", "ReAuthInfo", "ResultType",
                "StreamType",
                "VideoId",
            ]
        case .getUploadDetails: ["MediaIds", "MediaType"]
        case .deleteMultipartUpload: ["MediaId", "MediaType"]
        case .deleteVideo: ["VideoIds"]
        case .getImageInfo: ["AuthTimeout", "ImageId", "OutputType"]
        case .deleteImage: ["DeleteImageType", "ImageIds", "ImageType", "VideoId"]
        case .uploadMediaByURL, .getURLUploadInfos, .searchMedia, .setMessageCallback, .getMessageCallback,
            .reportUploadProgress, .getUploadProgress:
            []
        }
    }
}
