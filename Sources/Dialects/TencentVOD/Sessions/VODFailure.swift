internal import UploadModel

/// Why a call of an upload SDK is refused; the response has status 200, this code and this message.
///
/// The vendor publishes few codes. 10001, 10004 and 10010 are known from its SDKs; the others are this server's, in the
/// same range. After any of them in the response to `ApplyUploadUGC`, phones and the web SDK forget the session and start
/// afresh; mini programs keep it and send it again. There 10010 tells the apps of phones to ask for another signature
/// (retCode 1020); from `CommitUploadUGC` every code becomes retCode 1006.
struct VODFailure: Error, Sendable, Equatable {
    enum Code: Int, Sendable, CaseIterable {
        case invalidRequest = 10001
        case invalidSignature = 10004
        case signatureExpired = 10010
        /// A one-time signature that already admitted another upload.
        case signatureUsed = 10021
        /// The session is unknown, has expired, belongs to somebody else, or is for other files.
        case invalidSession = 10022
        /// The upload is larger, or of another type, than the signature, the quota or the server allows.
        case notAllowed = 10023
        /// Not all bytes have arrived.
        case incomplete = 10024
        /// There is no media with this id.
        case noMedia = 10025
        case tooManyRequests = 10026
        /// This server has no object endpoint to which the bytes could go.
        case notServed = 10027
    }

    let code: Code
    /// Shown to the user by some apps: short, and without secrets.
    let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// What the core's refusal of an upload means to the client; `nil` for an error of the server.
    init?(refusal error: UploadError) {
        switch error.code {
        case .tooLarge, .contentTypeRefused, .quotaExceeded, .forbidden, .rejected:
            self.init(.notAllowed, error.message)
        case .invalidRequest: self.init(.invalidRequest, error.message)
        case .tooManyRequests: self.init(.tooManyRequests, error.message)
        case .unauthenticated, .notFound, .gone, .offsetMismatch, .lengthConflict, .lengthExceeded, .checksumMismatch,
            .digestMismatch, .unsupportedChecksum, .notOpen, .conditionFailed, .invalidParts, .grantUsed, .interrupted,
            .busy, .timedOut, .disconnected, .storageFull, .storageFailure, .finishing, .unavailable:
            return nil
        }
    }
}
