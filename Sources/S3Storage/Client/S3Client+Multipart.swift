internal import Bytes
internal import Foundation
internal import HTTPClient
internal import HTTPWire
internal import Signing
internal import UploadModel
internal import XMLText

/// Multipart uploads ("Amazon S3 API Reference").
extension S3Client {
    /// CreateMultipartUpload.
    ///
    /// - Parameters:
    ///   - key: Key of the object.
    ///   - bucket: Bucket of the object.
    ///   - headers: Headers of the object.
    ///   - isCertain: Becomes `false` if responses were lost, so that the store may have created further multipart
    /// uploads.
    /// - Returns: The store's id.
    /// - Throws: The store's failure.
    func createMultipart(
        _ key: String,
        in bucket: String,
        headers: [SigningField],
        isCertain: inout Bool
    ) async throws(S3Failure) -> String {
        var request = S3Request(method: "POST", bucket: bucket, key: key, headers: headers)
        request.query = [SigningField("uploads", "")]
        request.needsNewConnection = true
        guard let id = try await ask(request, for: "InitiateMultipartUploadResult", isFirst: &isCertain)["UploadId"],
            !id.isEmpty
        else {
            throw S3Failure(.refused, "the store returned no id for a multipart upload")
        }
        return id
    }

    /// UploadPart; `digest` is the MD5 of the content, if the store must verify it.
    ///
    /// - Returns: The entity tag, with its quotes.
    func putPart(
        _ number: Int,
        of blob: BlobRecord,
        content: any HTTPRequestContent,
        digest: [UInt8]?,
        whenReady ready: @Sendable () async -> Bool
    ) async throws(S3Failure) -> String {
        var request = S3Request(method: "PUT", bucket: blob.bucket, key: blob.key)
        if let digest { request.headers = [Self.contentMD5(digest)] }
        request.query = Self.part(number, of: blob)
        request.content = content
        request.timeout = .zero
        return try await send(request, whenReady: ready).headers["ETag"] ?? ""
    }

    /// UploadPartCopy.
    ///
    /// - Parameters:
    ///   - number: Part number.
    ///   - blob: The blob that gets the part.
    ///   - source: Key of the source object.
    ///   - bucket: Bucket of the source object.
    ///   - range: Range of the source object.
    /// - Returns: The entity tag, with its quotes.
    /// - Throws: The store's failure.
    func copyPart(
        _ number: Int,
        of blob: BlobRecord,
        from source: String,
        in bucket: String,
        _ range: Range<Int64>
    ) async throws(S3Failure) -> String {
        var request = S3Request(method: "PUT", bucket: blob.bucket, key: blob.key)
        request.query = Self.part(number, of: blob)
        request.headers = [
            SigningField("x-amz-copy-source", Self.copySource(source, in: bucket)),
            SigningField("x-amz-copy-source-range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)"),
        ]
        // The store may send nothing while it copies.
        request.timeout = .seconds(600)
        request.stallTimeout = .zero
        let tag = try await ask(request, for: "CopyPartResult")["ETag"] ?? ""
        return tag.hasPrefix("\"") ? tag : "\"\(tag)\""
    }

    private static func part(_ number: Int, of blob: BlobRecord) -> [SigningField] {
        [SigningField("partNumber", String(number)), SigningField("uploadId", blob.multipart ?? "")]
    }

    /// CompleteMultipartUpload; the response can take minutes, and can be an error although its status is 200.
    ///
    /// - Parameters:
    ///   - blob: Its multipart upload.
    ///   - parts: All parts, in order.
    ///   - isDone: Whether the object is there; asked before the request is repeated. A gateway of Ceph that was killed
    ///     after it had written the object accepts the request again, and later removes the parts of both.
    /// - Throws: `S3Failure`.
    func complete(
        _ blob: BlobRecord,
        _ parts: [BlobPart],
        unless isDone: () async throws(S3Failure) -> Bool
    ) async throws(S3Failure) {
        var request = S3Request(method: "POST", bucket: blob.bucket, key: blob.key)
        request.query = [SigningField("uploadId", blob.multipart ?? "")]
        request.headers = [SigningField("content-type", "application/xml")]
        var body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        for part in parts {
            body += "<Part><PartNumber>\(part.number)</PartNumber><ETag>\(xmlEscaped(part.entityTag))</ETag></Part>"
        }
        request.body = Array((body + "</CompleteMultipartUpload>").utf8)
        request.timeout = .seconds(900)
        request.stallTimeout = .zero
        request.needsNewConnection = true
        _ = try await ask(request, for: "CompleteMultipartUploadResult", unless: isDone)
    }

    /// AbortMultipartUpload; succeeds if there is no such upload.
    ///
    /// - Returns: Whether it existed. Some stores report a multipart upload as missing while they complete it.
    @discardableResult
    func abort(_ multipart: String, of key: String, in bucket: String) async throws(S3Failure) -> Bool {
        var request = S3Request(method: "DELETE", bucket: bucket, key: key)
        request.query = [SigningField("uploadId", multipart)]
        do throws(S3Failure) {
            _ = try await send(request)
            return true
        } catch  where error.kind == .missing {
            return false
        }
    }

    /// Of one multipart upload, and of all of one key that anyone can have begun.
    private static let mostParts = 20_000

    /// ListParts, all pages.
    func parts(of blob: BlobRecord) async throws(S3Failure) -> [BlobPart] {
        var parts: [BlobPart] = []
        var marker: Int?
        repeat {
            var request = S3Request(method: "GET", bucket: blob.bucket, key: blob.key)
            request.query = [SigningField("uploadId", blob.multipart ?? "")]
            if let marker { request.query.append(SigningField("part-number-marker", String(marker))) }
            let document = try await ask(request, for: "ListPartsResult")
            parts += document.all("Part").compactMap { node in
                guard let number = node["PartNumber"].flatMap({ Int($0) }),
                    let size = node["Size"].flatMap({ Int64($0) })
                else { return nil }
                return BlobPart(number: number, size: size, entityTag: node["ETag"] ?? "")
            }
            guard document["IsTruncated"] == "true", let text = document["NextPartNumberMarker"] else { return parts }
            guard let next = Int(text), next > marker ?? 0, parts.count <= Self.mostParts else {
                throw S3Failure.endlessList
            }
            marker = next
        } while marker != nil
        return parts
    }

    /// ListMultipartUploads of one key; returns the ids.
    func multiparts(of key: String, in bucket: String) async throws(S3Failure) -> [String] {
        var ids: [String] = []
        var markers: [SigningField] = []
        repeat {
            var request = S3Request(method: "GET", bucket: bucket)
            request.query = [SigningField("uploads", ""), SigningField("prefix", key)] + markers
            let document = try await ask(request, for: "ListMultipartUploadsResult")
            ids += document.all("Upload").filter { $0["Key"]?.isExactly(key) ?? false }.compactMap { $0["UploadId"] }
            guard ids.count <= Self.mostParts else { throw S3Failure.endlessList }
            let last = markers
            markers = []
            if document["IsTruncated"] == "true", let next = document["NextKeyMarker"], next.hasPrefix(key) {
                markers = [
                    SigningField("key-marker", next),
                    SigningField("upload-id-marker", document["NextUploadIdMarker"] ?? ""),
                ]
                if markers == last { throw S3Failure.endlessList }
            }
        } while !markers.isEmpty
        return ids
    }
}
