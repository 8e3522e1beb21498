internal import Bytes
internal import Foundation
internal import HTTPWire
internal import ObjectGrants
internal import Signing
internal import UploadCore
internal import UploadModel

/// A command whose caller is authenticated and authorised.
struct ObjectCall {
    let command: ObjectCommand
    /// Only its content and its id are used here.
    let request: Request
    let caller: ObjectCaller
    /// Sent once the object is stored.
    var callback: UploadCallback?

    /// - Throws: `AccessDenied`.
    init(_ command: ObjectCommand, _ request: Request, _ caller: ObjectCaller) throws(ObjectError) {
        try caller.authorize(command)
        self.command = command
        self.request = request
        self.caller = caller
    }

    var operation: ObjectOperation { command.operation }

    /// The vendor whose API the request uses, and the response too.
    var vendor: Vendor { command.vendor }

    /// Limits on the caller's uploads.
    var grant: Grant { caller.uploadGrant }

    /// Checks access to an object that the content of the request names.
    func authorize(_ action: ObjectAction, _ name: ObjectName) throws(ObjectError) {
        try caller.check(ObjectAccess(action, bucket: name.bucket, key: name.key))
    }

    // MARK: Content

    /// Reads a whole document and verifies it against the request.
    func collect(limit: Int) async throws(ObjectError) -> [UInt8] {
        try await ObjectBody(command.content, request.body, caller).document(limit: limit)
    }

    /// The bytes of an object or a part.
    ///
    /// - Parameter algorithm: The checksum to compute; `nil` uses the request's, if it has one.
    /// - Returns: A body that is not yet pulled.
    /// - Throws: Errors in the request's declarations.
    func body(checksum algorithm: ObjectChecksum.Algorithm? = nil) throws(ObjectError) -> ChecksummedContent {
        let usual = vendor.profile.usualChecksum
        let body = try ObjectBody(command.content, request.body, caller, checksum: algorithm, otherwise: usual)
        let source = DigestedSource(body, body.digests)
        let plain = ObjectContent.Plain(body) { [digests = body.digests] in digests.update($0) }
        let object = ObjectContent(source, size: body.length, plain: plain) { () async throws(UploadError) in
            try await source.finish { body.failure ?? ObjectError(content: $0) }
            let outcome: ObjectBody.Outcome
            do throws(ObjectError) {
                outcome = try body.outcome()
            } catch {
                throw UploadError(.checksumMismatch, error.message, cause: error)
            }
            return ContentDigests(outcome.values)
        }
        return ChecksummedContent(
            object: object,
            checksum: body.digests.algorithm,
            isRequested: body.hasRequestedChecksum,
            failure: { body.failure }
        )
    }

    /// The bytes of an object being copied.
    ///
    /// - Parameters:
    ///   - bytes: The bytes of the source.
    ///   - size: Number of bytes.
    ///   - algorithm: The checksum to compute; `nil` uses the request's, if it has one, or the usual one.
    /// - Returns: Content that is not yet pulled.
    func content(
        copying bytes: any ByteSource,
        size: Int64,
        checksum algorithm: ObjectChecksum.Algorithm? = nil
    ) -> ChecksummedContent {
        let algorithm = algorithm ?? vendor.profile.usualChecksum
        let digests = ObjectDigests(algorithm)
        let source = DigestedSource(bytes, digests)
        let plain = ObjectContent.Plain(bytes) { digests.update($0) }
        let object = ObjectContent(source, size: size, plain: plain) { () async throws(UploadError) in
            try await source.finish { ObjectError(content: $0) }
            return ContentDigests(digests.finish())
        }
        return ChecksummedContent(object: object, checksum: algorithm)
    }
}

/// Bytes to be stored as an object, and the algorithm of their checksum.
struct ChecksummedContent {
    let object: ObjectContent
    let checksum: ObjectChecksum.Algorithm?
    /// Whether the client asked for the checksum.
    var isRequested = true
    /// Why the received bytes are not what the request declares, once that is certain.
    var failure: () -> ObjectError? = { nil }
}

extension ContentDigests {
    init(_ values: ObjectDigests.Values) {
        self.init(md5: values.md5, crc64: values.crc64, checksum: values.checksum)
    }
}

extension ObjectCaller {
    /// Limits on the caller's uploads.
    var uploadGrant: Grant {
        if let grant { return grant.upload }
        let id = StaticKeyPair.keyID(of: accessKeyID) ?? accessKeyID
        return Grant(id: id, issuer: id, subject: nil, expiresAt: .distantFuture)
    }
}
