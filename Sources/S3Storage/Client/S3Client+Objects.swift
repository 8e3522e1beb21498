internal import Bytes
internal import Digests
internal import Foundation
internal import HTTPClient
internal import HTTPWire
internal import Signing
internal import XMLText

/// The properties of an object in the store.
struct S3ObjectHead: Sendable {
    var size: Int64
    var entityTag: String
    /// The upload that created it (`x-amz-meta-sluice-upload`).
    var upload: String?
    var contentType: String?
}

/// Objects and buckets ("Amazon S3 API Reference").
extension S3Client {
    static let ownerHeader = "x-amz-meta-sluice-upload"

    /// PutObject.
    ///
    /// - Parameters:
    ///   - key: Key of the object.
    ///   - bucket: Bucket of the object.
    ///   - content: Streamed content; replaces `bytes`.
    ///   - digest: MD5 of `content`, if the store must verify it.
    ///   - bytes: The whole content.
    ///   - headers: Additional headers.
    ///   - ready: See `send`.
    /// - Returns: The entity tag, with its quotes.
    /// - Throws: The store's failure.
    func put(
        _ key: String,
        in bucket: String,
        content: (any HTTPRequestContent)? = nil,
        digest: [UInt8]? = nil,
        bytes: [UInt8] = [],
        headers: [SigningField] = [],
        whenReady ready: @Sendable () async -> Bool = { true }
    ) async throws(S3Failure) -> String {
        var request = S3Request(method: "PUT", bucket: bucket, key: key, headers: headers)
        if let content {
            request.content = content
            request.timeout = .zero
            if let digest { request.headers.append(Self.contentMD5(digest)) }
        } else {
            request.body = bytes
            request.headers.append(Self.contentMD5(Digest.hash(bytes, .md5)))
        }
        return try await send(request, whenReady: ready).headers["ETag"] ?? ""
    }

    /// RFC 1864.
    static func contentMD5(_ digest: [UInt8]) -> SigningField { SigningField("content-md5", Base64.encode(digest)) }

    /// GetObject, a range or the whole object.
    ///
    /// - Parameters:
    ///   - key: Key of the object.
    ///   - bucket: Bucket of the object.
    ///   - range: Range of bytes; `nil` for all.
    ///   - tag: Required entity tag: another one means that the key now has another object.
    /// - Returns: The bytes as they arrive.
    /// - Throws: The store's failure.
    func get(
        _ key: String,
        in bucket: String,
        _ range: Range<Int64>? = nil,
        matching tag: String? = nil
    ) async throws(S3Failure) -> HTTPDownload {
        var request = S3Request(method: "GET", bucket: bucket, key: key)
        request.timeout = .zero
        if let tag, !tag.isEmpty {
            request.headers.append(SigningField("if-match", tag.hasPrefix("\"") ? tag : "\"\(tag)\""))
        }
        if let range, !range.isEmpty {
            request.headers.append(SigningField("range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)"))
        }
        let download = try await open(request)
        if let range, !range.isEmpty, download.head.status != 206 {
            // Otherwise the whole object would be mistaken for a part of it.
            throw S3Failure(.refused, "the store sent another range", status: download.head.status)
        }
        if let range, !range.isEmpty, let sent = download.head.headers["Content-Range"],
            !sent.hasPrefix("bytes \(range.lowerBound)-\(range.upperBound - 1)/")
        {
            throw S3Failure(.refused, "the store sent another range", status: download.head.status)
        }
        return download
    }

    /// HeadObject; `nil` if there is no such object.
    func head(_ key: String, in bucket: String) async throws(S3Failure) -> S3ObjectHead? {
        do throws(S3Failure) {
            let response = try await send(S3Request(method: "HEAD", bucket: bucket, key: key))
            guard let size = response.headers["Content-Length"].flatMap({ Int64($0) }) else {
                throw S3Failure(.refused, "the store returned no size of an object", status: response.status)
            }
            return S3ObjectHead(
                size: size,
                entityTag: response.headers["ETag"] ?? "",
                upload: FieldName(Self.ownerHeader).flatMap { response.headers[$0] },
                contentType: response.headers["Content-Type"]
            )
        } catch  where error.kind == .missing {
            return nil
        }
    }

    /// DeleteObject; succeeds if there is no such object.
    ///
    /// - Parameters:
    ///   - key: Key of the object.
    ///   - bucket: Bucket of the object.
    ///   - tag: Required entity tag, so that another object with the key stays. Most stores ignore it ("Conditional
    /// deletes" is of
    ///     2025), so the caller must check the tag first.
    /// - Throws: The store's failure.
    func delete(_ key: String, in bucket: String, matching tag: String? = nil) async throws(S3Failure) {
        var request = S3Request(method: "DELETE", bucket: bucket, key: key)
        if let tag, !tag.isEmpty {
            request.headers.append(SigningField("if-match", tag.hasPrefix("\"") ? tag : "\"\(tag)\""))
        }
        do throws(S3Failure) {
            _ = try await send(request)
        } catch  where error.kind == .missing || tag != nil && error.status == 412 {
            return
        } catch  where tag != nil && (error.status == 501 || error.code == "NotImplemented") {
            try await delete(key, in: bucket)
        }
    }

    /// CopyObject within a bucket.
    ///
    /// - Returns: The entity tag.
    func copy(
        _ source: String,
        to key: String,
        in bucket: String,
        headers: [SigningField]
    ) async throws(S3Failure) -> String {
        var request = S3Request(method: "PUT", bucket: bucket, key: key, headers: headers)
        request.headers.append(SigningField("x-amz-copy-source", Self.copySource(source, in: bucket)))
        request.headers.append(SigningField("x-amz-metadata-directive", "REPLACE"))
        // The store may send nothing while it copies.
        request.timeout = .seconds(600)
        request.stallTimeout = .zero
        return try await ask(request, for: "CopyObjectResult")["ETag"] ?? ""
    }

    static func copySource(_ key: String, in bucket: String) -> String {
        "/" + SigningRequest.path(of: bucket) + "/" + SigningRequest.path(of: key)
    }

    /// The document of a successful response; an error in it is a failure.
    static func document(_ name: String, of response: HTTPClientResponse) throws(S3Failure) -> XMLNode {
        guard let document = XMLNode.parse(response.body) else {
            // Truncated, or not from a store.
            throw S3Failure(.away, "the response of the store is not XML", status: response.status)
        }
        guard document.name.text.isExactly(name) else {
            if document.name == "Error" { throw S3Failure(status: response.status, body: response.body) }
            throw S3Failure(
                .refused,
                "the store responded with the document \(document.name.text.first(scalars: 40))",
                status: response.status
            )
        }
        return document
    }

    /// A page of ListObjectsV2: keys with their times, and the token of the next page.
    func list(
        _ prefix: String,
        in bucket: String,
        after token: String?
    ) async throws(S3Failure) -> (objects: [(key: String, date: Date?)], next: String?) {
        var request = S3Request(method: "GET", bucket: bucket)
        request.query = [SigningField("list-type", "2"), SigningField("prefix", prefix)]
        if let token { request.query.append(SigningField("continuation-token", token)) }
        let document = try await ask(request, for: "ListBucketResult")
        let objects = document.all("Contents").compactMap { node in
            node["Key"].map { (key: $0, date: node["LastModified"].flatMap(Self.date)) }
        }
        let next = document["IsTruncated"] == "true" ? document["NextContinuationToken"] : nil
        if let next, next == token { throw S3Failure.endlessList }
        return (objects, next)
    }

    /// The time in `2026-01-02T03:04:05.678Z`.
    static func date(_ text: String) -> Date? {
        try? Date(text, strategy: Date.ISO8601FormatStyle(includingFractionalSeconds: text.contains(".")))
    }

    // MARK: Buckets

    /// HeadBucket.
    func checkBucket(_ bucket: String) async throws(S3Failure) {
        _ = try await send(S3Request(method: "HEAD", bucket: bucket))
    }

    /// CreateBucket; succeeds if we already own the bucket.
    func createBucket(_ bucket: String) async throws(S3Failure) {
        var request = S3Request(method: "PUT", bucket: bucket)
        if settings.region != "us-east-1", !settings.region.isEmpty {
            request.body = Array(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LocationConstraint>\(xmlEscaped(settings.region))</LocationConstraint></CreateBucketConfiguration>"
                    .utf8
            )
        }
        do throws(S3Failure) {
            _ = try await send(request)
        } catch  where error.code == "BucketAlreadyOwnedByYou" {
            return
        }
    }
}
