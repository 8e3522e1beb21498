/// The fields of a request for a signature, in the order of the vendor's documentation.
enum SignatureField: String, CaseIterable {
    case secretId, currentTimeStamp, expireTime, random
    case classId, procedure, taskPriority, taskNotifyMode, sourceContext, oneTimeValid, vodSubAppId, sessionContext
    case storageRegion
    // Extensions of Sluice.
    case expiresIn, subject, maxBytes, contentTypes

    /// The allowed values, regardless of other fields.
    var rule: String {
        switch self {
        case .secretId: "must be left out, or be the secret id that this server signs with"
        case .currentTimeStamp: "must be an integer, Unix seconds, not negative"
        case .expireTime:
            "must be an integer, Unix seconds, later than currentTimeStamp by at most 7776000 (90 days)"
        case .random: "must be an integer from 0 to 4294967295"
        case .classId: "must be an integer"
        case .procedure: "must be a string of 1 to 1024 characters"
        case .taskPriority: "must be an integer from -10 to 10"
        case .taskNotifyMode: "must be Finish, Change or None"
        case .sourceContext: "must be a string of at most 250 characters"
        case .oneTimeValid: "must be true, false, 1 or 0"
        case .vodSubAppId: "must be an integer, not negative"
        case .sessionContext: "must be a string of at most 1000 characters"
        case .storageRegion: "must consist of lower-case letters, digits and hyphens, such as ap-chongqing"
        case .expiresIn: "must be an integer from 1 to 7776000 (90 days), in seconds"
        case .subject: "must be a string of 1 to 256 bytes of UTF-8 without control characters"
        case .maxBytes: "must be an integer, the largest size of a file in bytes, at least 1"
        case .contentTypes: "must be an array of at most 20 strings, each a media type such as video/mp4 or video/*"
        }
    }

    func problem(_ message: String? = nil) -> FieldProblem {
        FieldProblem(field: rawValue, message: message ?? rule)
    }
}
