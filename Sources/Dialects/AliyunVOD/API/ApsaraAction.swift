internal import ObjectGrants
internal import UploadModel

/// The actions of ApsaraVideo VOD that are served.
enum ApsaraAction: String, Sendable, CaseIterable {
    case createUploadVideo = "CreateUploadVideo"
    case createUploadImage = "CreateUploadImage"
    case createUploadAttachedMedia = "CreateUploadAttachedMedia"
    case refreshUploadVideo = "RefreshUploadVideo"
    case uploadMediaByURL = "UploadMediaByURL"
    case getURLUploadInfos = "GetURLUploadInfos"
    case getUploadDetails = "GetUploadDetails"
    case deleteMultipartUpload = "DeleteMultipartUpload"
    case getVideoInfo = "GetVideoInfo"
    case getVideoInfos = "GetVideoInfos"
    case updateVideoInfo = "UpdateVideoInfo"
    case deleteVideo = "DeleteVideo"
    case getMezzanineInfo = "GetMezzanineInfo"
    case getPlayInfo = "GetPlayInfo"
    case getImageInfo = "GetImageInfo"
    case deleteImage = "DeleteImage"
    case searchMedia = "SearchMedia"
    case setMessageCallback = "SetMessageCallback"
    case getMessageCallback = "GetMessageCallback"
    case reportUploadProgress = "ReportUploadProgress"
    case getUploadProgress = "GetUploadProgress"

    /// The scope that an API key needs.
    var scope: Scope {
        switch self {
        case .createUploadVideo, .createUploadImage, .createUploadAttachedMedia, .refreshUploadVideo: .mint
        case .uploadMediaByURL, .updateVideoInfo, .setMessageCallback, .reportUploadProgress: .upload
        case .deleteMultipartUpload, .deleteVideo, .deleteImage: .delete
        case .getURLUploadInfos, .getUploadDetails, .getVideoInfo, .getVideoInfos, .getMezzanineInfo, .getPlayInfo,
            .getImageInfo, .searchMedia, .getMessageCallback, .getUploadProgress:
            .read
        }
    }

    /// What a session needs.
    var right: ObjectAction {
        switch self {
        case .createUploadVideo, .reportUploadProgress, .getUploadProgress: .createUploadVideo
        case .createUploadImage: .createUploadImage
        case .createUploadAttachedMedia: .createUploadAttachedMedia
        case .refreshUploadVideo: .refreshUploadVideo
        case .uploadMediaByURL: .uploadMediaByURL
        case .getURLUploadInfos: .getURLUploadInfos
        case .getUploadDetails: .getUploadDetails
        case .deleteMultipartUpload: .deleteMultipartUpload
        case .getVideoInfo: .getVideoInfo
        case .getVideoInfos: .getVideoInfos
        case .updateVideoInfo: .updateVideoInfo
        case .deleteVideo: .deleteVideo
        case .getMezzanineInfo: .getMezzanineInfo
        case .getPlayInfo: .getPlayInfo
        case .getImageInfo: .getImageInfo
        case .deleteImage: .deleteImage
        case .searchMedia: .searchMedia
        case .setMessageCallback: .setMessageCallback
        case .getMessageCallback: .getMessageCallback
        }
    }

    /// Whether upload SDKs call it without a signature.
    var isAlsoUnsigned: Bool { self == .reportUploadProgress || self == .getUploadProgress }
}
