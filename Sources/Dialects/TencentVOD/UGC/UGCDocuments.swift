internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import RESTKit
internal import Signing
internal import UploadCore
internal import UploadModel

/// The responses of the UGC endpoints, with the members and types that the strictest SDK wants: numbers are numbers, and
/// `fileId` is a text (iOS and Android read no other type).
enum UGCDocuments {
    private struct Envelope<Content: Encodable>: Encodable {
        let code: Int
        let message: String
        let data: Content?
    }

    private struct Nothing: Encodable {}

    private struct Preparation: Encodable {
        let appId: Int64
        /// Empty: clients then do not measure, which is not fatal.
        let cosRegionList: [String]
    }

    private struct Place: Encodable {
        /// A signature of COS v4, which no client uses any more.
        let storageSignature = ""
        let storagePath: String
    }

    private struct Certificate: Encodable {
        let secretId: String
        let secretKey: String
        let token: String
        let expiredTime: Int64
    }

    /// Where all requests to COS go, without the name of the bucket in the host.
    ///
    /// Only iOS reads the address: Android takes `isOpen` for Tencent's own accelerated name, which would bypass this server.
    private struct Accelerator: Encodable {
        let isOpen: Int
        let domain: String
    }

    private struct Application: Encodable {
        let video: Place?
        let cover: Place?
        let storageAppId: Int64
        let storageBucket: String
        let storageRegion: String
        let storageRegionV5: String
        /// Some versions of the vendor's service have it under both names.
        let StorageRegionV5: String
        let domain: String
        let vodSessionKey: String
        let tempCertificate: Certificate
        let appId: Int64
        let timestamp: Int64
        let cosAcc: Accelerator?
    }

    private struct Link: Encodable {
        let url: String
        let verify_content: String
    }

    private struct Commitment: Encodable {
        let video: Link?
        let cover: Link?
        let fileId: String
    }

    static func preparation(appID: Int64) -> Response { success(Preparation(appId: appID, cosRegionList: [])) }

    /// - Parameters:
    ///   - applied: The session and its credentials.
    ///   - place: The settings.
    ///   - appID: The application or sub-application.
    ///   - isForIOS: Whether the client is the SDK for iOS.
    ///   - now: The time of the server, from which clients correct their clocks.
    /// - Returns: The response.
    static func application(
        _ applied: VODUploads.Applied,
        at place: VODPlace,
        appID: Int64,
        isForIOS: Bool,
        now: Date
    ) -> Response {
        let session = applied.session
        let storage = VODPlace.split(session.bucket)
        return success(
            Application(
                video: session.video.map { Place(storagePath: "/" + $0.key) },
                cover: session.cover.map { Place(storagePath: "/" + $0.key) },
                storageAppId: storage.appID,
                storageBucket: storage.bucket,
                storageRegion: VODPlace.shortName(of: session.region),
                storageRegionV5: session.region,
                StorageRegionV5: session.region,
                domain: place.domain,
                vodSessionKey: applied.sessionKey,
                tempCertificate: Certificate(
                    secretId: applied.credentials.accessKeyID,
                    secretKey: applied.credentials.secretAccessKey.text,
                    token: applied.credentials.sessionToken,
                    expiredTime: applied.credentials.expiresAt.unixSeconds
                ),
                appId: appID,
                timestamp: now.unixSeconds,
                cosAcc: isForIOS ? place.acceleratedDomain.map { Accelerator(isOpen: 1, domain: $0) } : nil
            )
        )
    }

    /// - Parameters:
    ///   - committed: The media.
    ///   - base: The URL of the bucket, without a slash at its end.
    ///   - secretKey: The key of the pair that signed the request.
    ///   - now: The time of the server.
    /// - Returns: The response.
    static func commitment(
        _ committed: VODUploads.Committed,
        base: String,
        secretKey: String,
        now: Date
    ) -> Response {
        let media = committed.media
        let key = TencentUploadSignature.Key(secretKey)
        let text = "ExpTime=\(now.unixSeconds + 3600)&FileId=\(media.fileID)"
        let verification = TencentUploadSignature.sign(original: Array(text.utf8), with: key)
        func link(_ file: VODFile) -> Link { Link(url: "\(base)/\(file.key)", verify_content: verification) }
        return success(
            Commitment(
                video: committed.session.video.map { _ in link(media.video) },
                cover: committed.session.cover.flatMap { _ in media.cover.map(link) },
                fileId: media.fileID
            )
        )
    }

    private static func success(_ content: some Encodable) -> Response {
        JSONResponse.response(200, Envelope(code: 0, message: "success", data: content))
    }

    static func failure(_ failure: VODFailure) -> Response {
        JSONResponse.response(
            200,
            Envelope<Nothing>(code: failure.code.rawValue, message: "ugc upload | " + failure.message, data: nil)
        )
    }

    /// An error of this server: clients try again, and their other host.
    static func unavailable() -> Response {
        let message = "ugc upload | the server cannot do this now; try again"
        var response = JSONResponse.response(503, Envelope<Nothing>(code: 503, message: message, data: nil))
        response.fields["Retry-After"] = "5"
        return response
    }

    /// The response to a report of an SDK, which ignores it.
    static func nothing() -> Response { JSONResponse.response(200, Nothing()) }
}
