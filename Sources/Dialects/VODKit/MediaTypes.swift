internal import Bytes

/// Media types of the extensions that apps upload, for limits on media types.
package enum MediaTypes {
    /// `nil` for an unknown extension.
    package static func type(ofExtension suffix: String) -> String? { known[suffix.lowercasedASCII()] }

    private static let known = [
        "3gp": "video/3gpp", "asf": "video/x-ms-asf", "avi": "video/x-msvideo", "flv": "video/x-flv",
        "m3u8": "application/vnd.apple.mpegurl", "m4v": "video/x-m4v", "mkv": "video/x-matroska",
        "mov": "video/quicktime",
        "mp4": "video/mp4", "mpeg": "video/mpeg", "mpg": "video/mpeg", "mts": "video/mp2t", "ogv": "video/ogg",
        "rmvb": "application/vnd.rn-realmedia-vbr", "ts": "video/mp2t", "vob": "video/dvd", "webm": "video/webm",
        "wmv": "video/x-ms-wmv",
        "aac": "audio/aac", "ac3": "audio/ac3", "amr": "audio/amr", "flac": "audio/flac", "m4a": "audio/mp4",
        "mp3": "audio/mpeg", "ogg": "audio/ogg", "wav": "audio/wav", "wma": "audio/x-ms-wma",
        "bmp": "image/bmp", "gif": "image/gif", "heic": "image/heic", "jpeg": "image/jpeg", "jpg": "image/jpeg",
        "png": "image/png", "tiff": "image/tiff", "webp": "image/webp",
    ]
}
