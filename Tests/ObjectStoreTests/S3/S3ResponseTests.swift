import Bytes
import Foundation
import HTTPWire
import Signing
import Testing
import UploadCore
import UploadModel
import XMLText

@testable import ObjectStore

@Suite("Documents in S3 responses", .timeLimit(.minutes(10)))
struct S3ResponseTests {
    private let owner = ObjectOwner(id: "o&1", name: "sluice")
    private let name = ObjectName(bucket: "bucket-1", key: "a&<b> ü\r")

    private func parsed(_ bytes: [UInt8], _ root: String) throws -> XMLNode {
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(text.hasPrefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<\(root)"))
        let node = try #require(XMLNode.parse(bytes), "\(text)")
        #expect(node.name.text == root)
        return node
    }

    private func hasNamespace(_ bytes: [UInt8]) -> Bool {
        String(decoding: bytes, as: UTF8.self).contains("xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"")
    }

    private func listing(_ query: String) throws -> ObjectListing {
        let head = try s3Head("GET", "/bucket-1?\(query)")
        guard case .listObjects(let listing) = try s3Operation(head, at: EndpointHosts()) else {
            throw ObjectError(.internalError)
        }
        return listing
    }

    private func page(_ keys: [String], maximum: Int, delimiter: String? = nil) async throws
        -> ListingPage<ListedObject>
    {
        let objects = keys.map { key in
            ListedObject(
                key: key,
                size: 5,
                entityTag: "abc-2",
                modifiedAt: Date(timeIntervalSince1970: 1_767_323_045.678),
                checksum: ObjectChecksum(.crc32, isComposite: true)
            )
        }
        return await Listing(prefix: "", delimiter: delimiter, maximum: maximum).page(
            from: nil,
            name: { ListingCursor(key: $0.key) },
            fetch: { cursor, limit in
                Array(
                    objects.filter { object in
                        cursor.map { $0.key.utf8.lexicographicallyPrecedes(object.key.utf8) } ?? true
                    }.prefix(limit)
                )
            }
        )
    }

    @Test("a listing of version 1 is written")
    func listObjects() async throws {
        let page = try await page(["a/1", "a/2", "b"], maximum: 1, delimiter: "/")
        let bytes = try listing("delimiter=/&max-keys=1&marker=A").document(page, owner: owner)
        let node = try parsed(bytes, "ListBucketResult")
        #expect(hasNamespace(bytes))
        #expect(node["Name"] == "bucket-1" && node["Prefix"] == "" && node["Marker"] == "A" && node["MaxKeys"] == "1")
        #expect(node["Delimiter"] == "/" && node["IsTruncated"] == "true" && node["NextMarker"] == "a/")
        #expect(node.all("CommonPrefixes").map { $0["Prefix"] } == ["a/"] && node.all("Contents").isEmpty)
        #expect(node["EncodingType"] == nil && node["KeyCount"] == nil)
    }

    @Test("a listing of version 2 is written")
    func listObjectsV2() async throws {
        let page = try await page(["a b/ü+", "b", "c"], maximum: 2)
        let query = "list-type=2&max-keys=2&start-after=a%20&encoding-type=url&fetch-owner=true&prefix=%3F"
        let node = try parsed(try listing(query).document(page, owner: owner), "ListBucketResult")
        #expect(node["KeyCount"] == "2" && node["StartAfter"] == "a%20" && node["Prefix"] == "%3F")
        #expect(node["NextContinuationToken"].flatMap { ListingPosition(token: $0) } == .key("b"))
        #expect(node["EncodingType"] == "url" && node["Marker"] == nil)
        let first = try #require(node.all("Contents").first)
        #expect(first["Key"] == "a%20b/%C3%BC%2B" && first["ETag"] == "\"abc-2\"" && first["Size"] == "5")
        #expect(first["LastModified"] == "2026-01-02T03:04:05.678Z" && first["StorageClass"] == "STANDARD")
        #expect(first["ChecksumAlgorithm"] == "CRC32" && first["ChecksumType"] == "COMPOSITE")
        #expect(first.all("Owner").first?["ID"] == "o&1")
        let plain = try parsed(try listing("list-type=2").document(page, owner: owner), "ListBucketResult")
        #expect(plain.all("Contents").first?.all("Owner").isEmpty == true && plain["StartAfter"] == nil)
        #expect(plain["ContinuationToken"] == nil)
        let begun = try listing("list-type=2&continuation-token=").document(page, owner: owner)
        #expect(try parsed(begun, "ListBucketResult")["ContinuationToken"] == "")
    }

    @Test("keys that XML cannot hold do not break a listing")
    func controlCharacters() async throws {
        let keys = ["\u{1}", "a\tb", "c\rd\n", "e\u{FFFE}"]
        let page = try await page(keys, maximum: 9)
        let node = try parsed(try listing("").document(page, owner: owner), "ListBucketResult")
        #expect(node.all("Contents").map { $0["Key"] } == ["\u{FFFD}", "a\tb", "c\rd\n", "e\u{FFFD}"])
        let encoded = try parsed(try listing("encoding-type=url").document(page, owner: owner), "ListBucketResult")
        #expect(encoded.all("Contents").map { $0["Key"] } == ["%01", "a%09b", "c%0Dd%0A", "e%EF%BF%BE"])
    }

    @Test("open uploads are listed")
    func uploads() async throws {
        let head = try s3Head("GET", "/bucket-1?uploads&max-uploads=1&key-marker=A&upload-id-marker=u0")
        guard case .listMultipartUploads(let listing) = try s3Operation(head, at: EndpointHosts()) else {
            throw ObjectError(.internalError)
        }
        let uploads = ["u1", "u2"].map { ListedUpload(key: "B", uploadID: $0, createdAt: noon) }
        let page = await Listing(prefix: "", delimiter: nil, maximum: 1).page(
            from: listing.start,
            name: { ListingCursor(key: $0.key, id: $0.uploadID) },
            fetch: { _, limit in Array(uploads.prefix(limit)) }
        )
        let node = try parsed(listing.document(page, owner: owner), "ListMultipartUploadsResult")
        #expect(node["NextKeyMarker"] == "B" && node["NextUploadIdMarker"] == "u1" && node["IsTruncated"] == "true")
        #expect(node["KeyMarker"] == "A" && node["UploadIdMarker"] == "u0" && node["MaxUploads"] == "1")
        let upload = try #require(node.all("Upload").first)
        #expect(upload["Key"] == "B" && upload["UploadId"] == "u1" && upload["Initiated"] == "2026-01-02T03:04:05.000Z")
    }

    @Test("parts")
    func parts() throws {
        let parts = [2, 3, 5].map {
            PartRecord(
                number: $0,
                size: 7,
                md5: [UInt8](repeating: 0xAB, count: 16),
                crc64: 1,
                checksum: [0, 1, 2, 3],
                location: "secret place",
                storedAt: noon
            )
        }
        let head = try s3Head("GET", "/bucket-1/a?uploadId=u&max-parts=2&part-number-marker=1")
        guard case .listParts(_, let listing) = try s3Operation(head, at: EndpointHosts()) else {
            throw ObjectError(.internalError)
        }
        let kind = ObjectChecksum(.crc32)
        let bytes = UploadDocuments.parts(of: name, listing, parts, checksum: kind, owner: owner)
        let node = try parsed(bytes, "ListPartsResult")
        #expect(node["Key"] == name.key && node["UploadId"] == "u" && node["PartNumberMarker"] == "1")
        #expect(node["NextPartNumberMarker"] == "3" && node["IsTruncated"] == "true" && node["MaxParts"] == "2")
        #expect(node["ChecksumAlgorithm"] == "CRC32" && node["ChecksumType"] == "FULL_OBJECT")
        #expect(node.all("Part").map { $0["PartNumber"] } == ["2", "3"])
        #expect(node.all("Part").first?["ETag"] == "\"abababababababababababababababab\"")
        #expect(node.all("Part").first?["ChecksumCRC32"] == "AAECAw==" && node.all("Part").first?["Size"] == "7")
        #expect(!String(decoding: bytes, as: UTF8.self).contains("secret"))
        let none = try parsed(
            UploadDocuments.parts(of: name, listing, [], checksum: nil, owner: owner),
            "ListPartsResult"
        )
        #expect(none["IsTruncated"] == "false" && none["NextPartNumberMarker"] == "0")
    }

    @Test("the other documents are written")
    func others() throws {
        let initiated = try parsed(UploadDocuments.initiated(name, uploadID: "u"), "InitiateMultipartUploadResult")
        #expect(initiated["Bucket"] == "bucket-1" && initiated["Key"] == name.key && initiated["UploadId"] == "u")
        let checksum = ObjectChecksum(.sha1, isComposite: true, value: [UInt8](repeating: 0, count: 20))
        let completed = try parsed(
            UploadDocuments.completed(
                name,
                location: "https://h/a?b&c",
                entityTag: "x-3",
                checksum: checksum,
                parts: 3
            ),
            "CompleteMultipartUploadResult"
        )
        #expect(completed["Location"] == "https://h/a?b&c" && completed["ETag"] == "\"x-3\"")
        #expect(
            completed["ChecksumSHA1"] == "AAAAAAAAAAAAAAAAAAAAAAAAAAA=-3" && completed["ChecksumType"] == "COMPOSITE"
        )
        let copied = UploadDocuments.copied(entityTag: "x", modifiedAt: noon, checksum: nil)
        #expect(try parsed(copied, "CopyObjectResult")["LastModified"] == "2026-01-02T03:04:05.000Z")
        let part = PartRecord(
            number: 1,
            size: 1,
            md5: [1],
            crc64: 1,
            checksum: [0, 1, 2, 3],
            location: "",
            storedAt: noon
        )
        let copiedPart = try parsed(UploadDocuments.copiedPart(part, checksum: .crc32c), "CopyPartResult")
        #expect(copiedPart["ETag"] == "\"01\"" && copiedPart["ChecksumCRC32C"] == "AAECAw==")
        let posted = UploadDocuments.posted(name, location: "l", entityTag: "x")
        #expect(try parsed(posted, "PostResponse")["ETag"] == "\"x\"" && !hasNamespace(posted))
        let outcomes = [DeletionOutcome(key: name.key), DeletionOutcome(key: "b", error: ObjectError(.accessDenied))]
        let deleted = try parsed(DeletionOutcome.document(outcomes, isQuiet: false), "DeleteResult")
        #expect(deleted.all("Deleted").map { $0["Key"] } == [name.key])
        #expect(deleted.all("Error").map { $0["Code"] } == ["AccessDenied"])
        let quiet = try parsed(DeletionOutcome.document(outcomes, isQuiet: true), "DeleteResult")
        #expect(quiet.all("Deleted").isEmpty && quiet.all("Error").count == 1)
        let buckets = try parsed(BucketDocuments.list([("bucket-1", noon)], owner: owner), "ListAllMyBucketsResult")
        #expect(buckets.children.map(\.name) == ["Owner", "Buckets"])
        #expect(buckets.children.last?.all("Bucket").first?["CreationDate"] == "2026-01-02T03:04:05.000Z")
        #expect(try parsed(BucketDocuments.location("us-east-1"), "LocationConstraint").text == "")
        #expect(try parsed(BucketDocuments.location("eu-west-1"), "LocationConstraint").text == "eu-west-1")
    }

    @Test(
        "times",
        arguments: [
            (0.0, "1970-01-01T00:00:00.000Z"), (-0.5, "1969-12-31T23:59:59.500Z"),
            (951_782_399.999, "2000-02-28T23:59:59.999Z"), (1e15, "9999-12-31T23:59:59.999Z"),
        ]
    )
    func times(_ seconds: Double, _ text: String) {
        #expect(XMLWriter.timestamp(Date(timeIntervalSince1970: seconds)) == text)
    }
}

@Suite("Error responses of S3", .timeLimit(.minutes(10)))
struct S3ErrorTests {
    @Test("the response has code, message, resource and request")
    func document() throws {
        let error = ObjectError.argument("prefix", "<&>", "Not so.")
        let response = error.response(to: try s3Head("GET", "/bucket-1/a%20b?prefix=x"), requestID: "r1")
        #expect(response.status == 400 && response.fields["Content-Type"] == "application/xml")
        #expect(response.fields["x-amz-request-id"] == "r1" && response.trace.errorCode == "InvalidArgument")
        guard case .bytes(let bytes) = response.content else { throw error }
        let node = try #require(XMLNode.parse(bytes))
        #expect(
            node.children.map(\.name) == ["Code", "Message", "ArgumentName", "ArgumentValue", "Resource", "RequestId"]
        )
        #expect(node["ArgumentValue"] == "<&>" && node["Resource"] == "/bucket-1/a%20b" && node["RequestId"] == "r1")
        #expect(ObjectError.argument("a", String(repeating: "x", count: 257), "").details.count == 1)
    }

    @Test("responses to HEAD, and 304, have no document")
    func withoutDocument() throws {
        for (method, error) in [("HEAD", ObjectError(.noSuchKey)), ("GET", ObjectError(.notModified))] {
            let response = error.response(to: try s3Head(method, "/bucket-1/a"), requestID: "r1")
            guard case .empty = response.content else {
                Issue.record("a document")
                continue
            }
            #expect(response.fields["Content-Type"] == nil && response.status == error.code.status)
        }
    }

    @Test("each code has a status and a message")
    func codes() {
        for code in ObjectErrorCode.allCases {
            // The status of a failed callback is a success.
            #expect((300..<600).contains(code.status.code) || code == .callbackFailed)
            #expect(!code.usualMessage.isEmpty)
        }
        #expect(ObjectErrorCode.noSuchUpload.status == 404 && ObjectErrorCode.signatureDoesNotMatch.status == 403)
        #expect(ObjectErrorCode.missingContentLength.status == 411 && ObjectErrorCode.invalidRange.status == 416)
        #expect(ObjectErrorCode.callbackFailed.status == 203)
        #expect(ObjectErrorCode.slowDown.status == 503 && ObjectErrorCode.bucketAlreadyOwnedByYou.status == 409)
    }

    @Test("each error of the domain has a code")
    func domain() {
        let table: [(UploadError.Code, ObjectErrorCode, ObjectErrorCode)] = [
            (.invalidRequest, .invalidRequest, .invalidRequest), (.unauthenticated, .accessDenied, .accessDenied),
            (.forbidden(scope: nil), .accessDenied, .accessDenied), (.notFound, .noSuchKey, .noSuchUpload),
            (.gone, .noSuchKey, .noSuchUpload), (.notOpen, .noSuchUpload, .noSuchUpload),
            (.offsetMismatch(expected: 1), .operationAborted, .operationAborted),
            (.lengthConflict(length: nil), .incompleteBody, .incompleteBody),
            (.lengthExceeded(length: 1), .entityTooLarge, .entityTooLarge),
            (.tooLarge(limit: 1), .entityTooLarge, .entityTooLarge),
            (.contentTypeRefused, .contentTypeRefused, .contentTypeRefused),
            (.checksumMismatch, .badDigest, .badDigest), (.digestMismatch, .badDigest, .badDigest),
            (.unsupportedChecksum(offered: []), .invalidRequest, .invalidRequest),
            (.conditionFailed, .preconditionFailed, .preconditionFailed),
            (.invalidParts(.empty), .malformedXML, .malformedXML),
            (.invalidParts(.order), .invalidPartOrder, .invalidPartOrder),
            (.invalidParts(.unknown(number: 1)), .invalidPart, .invalidPart),
            (.invalidParts(.tooSmall(number: 1, size: 1, minimum: 2)), .entityTooSmall, .entityTooSmall),
            (.grantUsed, .accessDenied, .accessDenied), (.rejected, .accessDenied, .accessDenied),
            (.interrupted, .operationAborted, .operationAborted), (.busy, .slowDown, .slowDown),
            (.timedOut, .requestTimeout, .requestTimeout), (.disconnected, .incompleteBody, .incompleteBody),
            (.storageFull, .insufficientStorage, .insufficientStorage),
            (.storageFailure, .internalError, .internalError), (.finishing, .serviceUnavailable, .serviceUnavailable),
            (.unavailable, .serviceUnavailable, .serviceUnavailable),
        ]
        for (code, object, upload) in table {
            let error = UploadError(code, "text")
            #expect(
                ObjectError(error, about: .object).code == object && ObjectError(error, about: .upload).code == upload
            )
        }
        #expect(
            ObjectError(UploadError(.storageFailure, "disk 7 is broken"), about: .object).message != "disk 7 is broken"
        )
        #expect(ObjectError(UploadError(.busy, ""), about: .object).fields["Retry-After"] == "1")
    }

    @Test("each failure of a signature has a code")
    func signatures() {
        let table: [(RequestSignatureFailure, ObjectErrorCode, ObjectErrorCode)] = [
            (.noSignature, .accessDenied, .accessDenied), (.twoSignatures, .invalidArgument, .invalidArgument),
            (.unsupportedAlgorithm, .invalidRequest, .invalidRequest),
            (.duplicate("host"), .authorizationHeaderMalformed, .authorizationQueryParametersError),
            (.missingParameter("Credential"), .authorizationHeaderMalformed, .authorizationQueryParametersError),
            (.malformed("Credential"), .authorizationHeaderMalformed, .authorizationQueryParametersError),
            (.malformed("x-amz-content-sha256"), .invalidArgument, .invalidArgument),
            (.malformed("X-Amz-Content-Sha256"), .invalidArgument, .invalidArgument),
            (.malformed("X-Amz-Date"), .accessDenied, .accessDenied),
            (.malformed("Date"), .accessDenied, .accessDenied),
            (.missingHeader("x-amz-date"), .accessDenied, .accessDenied),
            (.missingHeader("x-amz-content-sha256"), .invalidRequest, .invalidRequest),
            (.missingHeader("range"), .signatureDoesNotMatch, .signatureDoesNotMatch),
            (.unsignedHeader("x-amz-acl"), .accessDenied, .accessDenied),
            (.wrongScope, .authorizationHeaderMalformed, .authorizationQueryParametersError),
            (.wrongDay, .authorizationHeaderMalformed, .authorizationQueryParametersError),
            (.wrongRegion, .authorizationHeaderMalformed, .authorizationQueryParametersError),
            (.wrongService, .authorizationHeaderMalformed, .authorizationQueryParametersError),
            (.lifetimeOutOfRange, .authorizationHeaderMalformed, .authorizationQueryParametersError),
            (.skewed, .requestTimeTooSkewed, .accessDenied), (.expired, .accessDenied, .accessDenied),
            (.wrongToken, .invalidToken, .invalidToken),
            (.wrongSignature, .signatureDoesNotMatch, .signatureDoesNotMatch),
        ]
        for (failure, header, query) in table {
            #expect(ObjectError(signature: failure, isQuery: false, region: nil).code == header, "\(failure)")
            #expect(ObjectError(signature: failure, isQuery: true, region: nil).code == query, "\(failure)")
        }
    }
}
