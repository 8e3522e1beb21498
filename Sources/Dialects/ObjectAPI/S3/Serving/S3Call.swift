internal import Bytes
internal import Foundation
internal import HTTPWire
internal import Signing
internal import UploadCore

/// A request whose sender is known, and may ask for this.
struct S3Call {
    let operation: S3Operation
    let request: Request
    /// An effective one, in S3's words whatever the dialect is.
    let head: RequestHead
    let caller: S3Caller
    /// In which it came, and is answered.
    let dialect: ObjectDialect
    /// That is sent once the object is there.
    var callback: UploadCallback?

    /// - Throws: `AccessDenied`.
    init(
        _ operation: S3Operation,
        _ request: Request,
        _ head: RequestHead,
        _ caller: S3Caller,
        _ dialect: ObjectDialect
    ) throws(S3Error) {
        try caller.authorize(
            operation,
            contentLength: ObjectBody.announcedLength(head.fields, caller.payload, dialect),
            contentType: head.fields["Content-Type"]
        )
        self.operation = operation
        self.request = request
        self.head = head
        self.caller = caller
        self.dialect = dialect
    }

    /// What uploads of the caller may be.
    var grant: Grant { caller.uploadGrant }

    /// Checks that the caller may do this with one of the objects that the content of the request names.
    func authorize(_ action: ObjectAction, _ name: ObjectName) throws(S3Error) {
        try caller.check(ObjectAccess(action, bucket: name.bucket, key: name.key))
    }

    /// What must hold of the object that is there, for a request that puts another one in its place.
    func writeCondition() throws(S3Error) -> ObjectCondition? {
        switch (head.fields["If-Match"], head.fields["If-None-Match"]) {
        case (nil, nil): return nil
        case (nil, "*"?): return .isAbsent
        case (let text?, nil):
            guard let tag = EntityTag(text) ?? EntityTag(strong: text), !tag.isWeak, tag.opaque != "*" else {
                throw S3Error(.notImplemented, "If-Match must be one entity tag here.")
            }
            return .hasTag(tag.opaque)
        default:
            throw S3Error(.notImplemented, "Of conditions there may be If-Match with a tag, or If-None-Match with *.")
        }
    }

    /// What must hold of the object that a request removes.
    func deleteCondition() throws(S3Error) -> ObjectCondition? {
        guard head.fields["If-None-Match"] == nil else {
            throw S3Error(.notImplemented, "A deletion may have the condition If-Match only.")
        }
        return try head.fields["If-Match"].map { (text) throws(S3Error) in try ObjectCondition(deleting: text) }
    }

    // MARK: Content

    /// A document, whole and compared with what the request says of it.
    func collect(limit: Int, kind: ObjectBody.Kind = .document) async throws(S3Error) -> [UInt8] {
        try await ObjectBody(head, request.body, caller, kind: kind, for: dialect).document(limit: limit)
    }

    /// The bytes of an object or a part.
    ///
    /// - Parameter algorithm: Of the checksum that is wanted; `nil` for that of the request, if it has one.
    /// - Returns: Not pulled yet.
    /// - Throws: What is wrong with what the request says of them.
    func body(checksum algorithm: ObjectChecksum.Algorithm? = nil) throws(S3Error) -> S3Content {
        let body = try ObjectBody(head, request.body, caller, checksum: algorithm, for: dialect)
        let source = DigestedSource(body, body.digests)
        let object = ObjectContent(source, size: body.length) { () async throws(UploadError) in
            try await source.finish { body.failure ?? S3Error(content: $0) }
            let outcome: ObjectBody.Outcome
            do throws(S3Error) {
                outcome = try body.outcome()
            } catch {
                throw UploadError(.checksumMismatch, error.message, cause: error)
            }
            return ContentDigests(outcome.values)
        }
        return S3Content(object: object, checksum: body.digests.algorithm)
    }

    /// The bytes of an object that is copied.
    func content(
        copying bytes: any ByteSource,
        size: Int64,
        checksum algorithm: ObjectChecksum.Algorithm? = nil
    ) throws(S3Error) -> S3Content {
        var algorithm = algorithm
        if algorithm == nil, let name = head.fields["x-amz-checksum-algorithm"] {
            guard let own = ObjectChecksum.Algorithm(s3Name: name) else { throw S3Error.unknownChecksum }
            algorithm = own
        }
        let digests = ObjectDigests(algorithm)
        let source = DigestedSource(bytes, digests)
        let object = ObjectContent(source, size: size) { () async throws(UploadError) in
            try await source.finish { S3Error(content: $0) }
            return ContentDigests(digests.finish())
        }
        return S3Content(object: object, checksum: algorithm)
    }
}

extension ObjectCondition {
    /// What must hold of an object that is to be removed ("How to perform conditional deletes", Amazon S3 User Guide).
    ///
    /// - Parameter text: `*`, or an entity tag with or without quotes.
    /// - Throws: `NotImplemented` for anything else, such as a list.
    init(deleting text: String) throws(S3Error) {
        guard text != "*" else {
            self = .isPresent
            return
        }
        guard let tag = EntityTag(text) ?? EntityTag(strong: text), !tag.isWeak else {
            throw S3Error(.notImplemented, "The entity tag of a deletion must be * or one tag.")
        }
        self = .hasTag(tag.opaque)
    }
}

/// Bytes on their way into an object, and by which algorithm their checksum is computed.
struct S3Content {
    let object: ObjectContent
    let checksum: ObjectChecksum.Algorithm?
}

extension ContentDigests {
    init(_ values: ObjectDigests.Values) {
        self.init(md5: values.md5, crc64: values.crc64, checksum: values.checksum)
    }
}

extension S3Caller {
    /// What uploads of the caller may be.
    var uploadGrant: Grant {
        if let grant { return grant.upload }
        let id = StaticKeyPair.keyID(of: accessKeyID) ?? accessKeyID
        return Grant(id: id, issuer: id, subject: nil, expiresAt: .distantFuture)
    }
}
