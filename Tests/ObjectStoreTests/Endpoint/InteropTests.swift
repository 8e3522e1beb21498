import Bytes
import Digests
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

/// Requests as real clients send them.
@Suite("What clients of S3, OSS and COS expect", .timeLimit(.minutes(10)))
struct InteropTests {
    private static let hello = Array("hello".utf8)
    private static let tag = "5d41402abc4b2a76b9719d911017c592"

    private func bench() async throws -> ObjectBench {
        let bench = try await ObjectBench()
        #expect(try await bench.send("PUT", "/bucket-1/k", content: Self.hello).outcome == "200")
        return bench
    }

    // MARK: Conditions

    @Test("a deletion happens only if the object matches")
    func deletion() async throws {
        let bench = try await bench()
        func delete(_ key: String, _ fields: HTTPFields) async throws -> String {
            try await bench.send("DELETE", "/bucket-1/\(key)", ObjectBench.administrator, fields).outcome
        }
        #expect(try await delete("k", ["If-Match": "\"0\""]) == "412 PreconditionFailed")
        #expect(try await delete("none", ["If-Match": "\"0\""]) == "412 PreconditionFailed")
        #expect(try await delete("none", ["If-Match": "*"]) == "412 PreconditionFailed")
        #expect(try await delete("k", ["If-Match": "\"0\", \"\(Self.tag)\""]) == "501 NotImplemented")
        #expect(try await delete("k", ["If-None-Match": "*"]) == "501 NotImplemented")
        #expect(try await delete("none", [:]) == "204")
        #expect(try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "k")) != nil)
        #expect(try await delete("k", ["If-Match": "\"\(Self.tag)\""]) == "204")
        #expect(try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "k")) == nil)
        for condition in ["*", Self.tag] {
            #expect(try await bench.send("PUT", "/bucket-1/k", content: Self.hello).outcome == "200")
            #expect(try await delete("k", ["If-Match": condition]) == "204")
        }
    }

    @Test("each of several deletions has its own condition")
    func deletions() async throws {
        let bench = try await bench()
        func delete(_ tag: String) async throws -> Response {
            let document = "<Delete><Object><Key>k</Key><ETag>\(tag)</ETag></Object></Delete>"
            return try await bench.send("POST", "/bucket-1?delete", content: Array(document.utf8))
        }
        let refused = try await delete("&quot;0&quot;")
        #expect(refused.element("Code") == "PreconditionFailed" && refused.element("Deleted") == nil)
        let done = try await delete("&quot;\(Self.tag)&quot;")
        #expect(done.element("Deleted") == "<Key>k</Key>" && done.element("Error") == nil)
    }

    @Test("entity tags may lack quotes", arguments: [Signature?.none, .ossV1, .ossV4, .cos, .cosQuery])
    func unquoted(_ signature: Signature?) async throws {
        let bench = try await bench()
        func send(_ method: String, _ key: String, _ fields: HTTPFields) async throws -> String {
            guard let signature else {
                return try await bench.send(method, "/bucket-1/\(key)", ObjectBench.administrator, fields).outcome
            }
            return try await bench.send(method, "/bucket-1/\(key)", by: signature, fields).outcome
        }
        let tag = signature.map(Signature.oss.contains) ?? false ? Self.tag.uppercased() : Self.tag
        for (condition, here) in [
            (tag, true), ("\"\(tag)\"", true), ("0, \(tag)", true), ("0,\"\(tag)\"", true), ("0", false),
        ] {
            #expect(try await send("GET", "k", ["If-Match": condition]) == (here ? "200" : "412 PreconditionFailed"))
            #expect(try await send("HEAD", "k", ["If-None-Match": condition]) == (here ? "304 NotModified" : "200"))
            let ranged = try await send("GET", "k", ["If-Range": condition, "Range": "bytes=0-1"])
            if !condition.contains(",") { #expect(ranged == (here ? "206" : "200"), "\(condition)") }
        }
        let vendor = signature.map { Signature.oss.contains($0) ? "x-oss-" : "x-cos-" } ?? "x-amz-"
        let source = vendor == "x-cos-" ? "bucket-1.x/k" : "/bucket-1/k"
        for (name, condition, outcome) in [
            ("match", tag, "200"), ("match", "0", "412 PreconditionFailed"), ("match", "0, \(tag)", "200"),
            ("none-match", tag, "412 PreconditionFailed"), ("none-match", "0", "200"),
        ] {
            var fields = HTTPFields()
            fields[try #require(FieldName(vendor + "copy-source"))] = source
            fields[try #require(FieldName(vendor + "copy-source-if-" + name))] = condition
            #expect(try await send("PUT", "copy", fields) == outcome, "\(name) \(condition)")
        }
        guard signature == nil else { return }
        #expect(try await send("PUT", "k", ["If-Match": "0"]) == "412 PreconditionFailed")
        #expect(try await send("PUT", "k", ["If-Match": Self.tag]) == "200")
    }

    @Test("a conditional replacement needs an existing object")
    func missing() async throws {
        let bench = try await bench()
        let condition: HTTPFields = ["If-Match": "\"\(Self.tag)\""]
        let administrator = ObjectBench.administrator
        let put = try await bench.send("PUT", "/bucket-1/none", administrator, condition, content: [1])
        #expect(put.outcome == "404 NoSuchKey")
        var copy = condition
        copy["x-amz-copy-source"] = "bucket-1/k"
        #expect(try await bench.send("PUT", "/bucket-1/none", administrator, copy).outcome == "404 NoSuchKey")
        let id = try await bench.begin("none")
        let target = "/bucket-1/none?uploadId=\(id)"
        let part = try await bench.send("PUT", target + "&partNumber=1", content: [1])
        let document =
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\(part.fields["ETag"] ?? "")</ETag></Part>"
            + "</CompleteMultipartUpload>"
        let completion = try await bench.send("POST", target, administrator, condition, content: Array(document.utf8))
        #expect(completion.outcome == "404 NoSuchKey")
        let other: HTTPFields = ["If-Match": "\"0\""]
        let replaced = try await bench.send("PUT", "/bucket-1/k", administrator, other, content: [1])
        #expect(replaced.outcome == "412 PreconditionFailed")
        let absent: HTTPFields = ["If-None-Match": "*"]
        let kept = try await bench.send("PUT", "/bucket-1/k", administrator, absent, content: [1])
        #expect(kept.outcome == "412 PreconditionFailed")
    }

    // MARK: Buckets

    @Test("a bucket without versioning says so")
    func versioning() async throws {
        let bench = try await bench()
        let response = try await bench.send("GET", "/bucket-1?versioning")
        #expect(response.outcome == "200" && response.text?.contains("<Status>") == false)
        #expect(response.text?.hasSuffix("></VersioningConfiguration>") == true)
        let session = try bench.issuer.session(bench.grant())
        #expect(try await bench.send("GET", "/bucket-1?versioning", session).outcome == "200")
        #expect(try await bench.send("GET", "/bucket-2?versioning", session).outcome == "403 AccessDenied")
        #expect(try await bench.send("GET", "/bucket-2?versioning").outcome == "404 NoSuchBucket")
        for signature in [Signature.ossV1, .ossV4, .cos] {
            #expect(try await bench.send("GET", "/bucket-1/?versioning", by: signature).outcome == "200")
        }
    }

    @Test("buckets are created and removed as in Amazon's oldest region")
    func buckets() async throws {
        let bench = try await bench()
        #expect(try await bench.send("PUT", "/bucket-2").outcome == "200")
        #expect(try await bench.send("PUT", "/bucket-2").outcome == "200")
        #expect(try await bench.send("PUT", "/bucket-2/", by: .cos).outcome == "409 BucketAlreadyOwnedByYou")
        #expect(try await bench.send("PUT", "/bucket-2/", by: .ossV4).outcome == "200")
        #expect(try await bench.send("DELETE", "/bucket-1").outcome == "409 BucketNotEmpty")
        #expect(try await bench.send("DELETE", "/bucket-2").outcome == "204")
        #expect(try await bench.send("DELETE", "/bucket-2").outcome == "404 NoSuchBucket")
        for name in ["Bucket", "ab", "a_b", "amzn-s3-demo-x", "a.-b", "a-.b", "a..b", "1.2.3.4", "a-s3alias"] {
            #expect(try await bench.send("PUT", "/\(name)").outcome == "400 InvalidBucketName", "\(name)")
        }
    }

    @Test("a bucket with open uploads only can be deleted, and they end")
    func openUploads() async throws {
        let bench = try await bench()
        #expect(try await bench.send("PUT", "/bucket-2").outcome == "200")
        var ids: [String] = []
        for key in 0..<150 {
            let response = try await bench.send("POST", "/bucket-2/\(key)?uploads")
            let text = try #require(response.text)
            ids.append(
                try #require(text.split(separator: "<UploadId>").last?.split(separator: "<").first.map { String($0) })
            )
        }
        #expect(try await bench.send("PUT", "/bucket-2/k", content: [1]).outcome == "200")
        #expect(try await bench.send("DELETE", "/bucket-2").outcome == "409 BucketNotEmpty")
        #expect(try await bench.send("GET", "/bucket-2/0?uploadId=\(ids[0])").outcome == "200")
        #expect(try await bench.send("DELETE", "/bucket-2/k").outcome == "204")
        #expect(try await bench.send("DELETE", "/bucket-2").outcome == "204")
        #expect(try await bench.send("PUT", "/bucket-2").outcome == "200")
        for (key, id) in ids.enumerated() {
            #expect(try await bench.send("GET", "/bucket-2/\(key)?uploadId=\(id)").outcome == "404 NoSuchUpload")
        }
    }

    @Test("a bucket without versions lists each object as its only one")
    func versions() async throws {
        let bench = try await bench()
        for key in ["a/1", "a/2", "b"] {
            #expect(try await bench.send("PUT", "/bucket-1/v/\(key)", content: [1]).outcome == "200")
        }
        let first = try await bench.send("GET", "/bucket-1?versions&prefix=v/&max-keys=2")
        let text = try #require(first.text)
        #expect(text.contains("<ListVersionsResult xmlns="))
        #expect(text.contains("<Version><Key>v/a/1</Key><VersionId>null</VersionId><IsLatest>true</IsLatest>"))
        #expect(text.contains("<NextKeyMarker>v/a/2</NextKeyMarker><NextVersionIdMarker>null</NextVersionIdMarker>"))
        let next = "/bucket-1?versions&prefix=v/&key-marker=v/a/2&version-id-marker=null"
        let second = try #require(try await bench.send("GET", next).text)
        #expect(second.contains("<Key>v/b</Key>") && !second.contains("v/a/2</Key>"))
        #expect(second.contains("<IsTruncated>false</IsTruncated>") && !second.contains("NextKeyMarker"))
        let grouped = try #require(try await bench.send("GET", "/bucket-1?versions&prefix=v/&delimiter=/").text)
        #expect(grouped.contains("<CommonPrefixes><Prefix>v/a/</Prefix></CommonPrefixes>"))
        #expect(try await bench.send("DELETE", "/bucket-1/v/b?versionId=null").outcome == "204")
        #expect(try await bench.send("GET", "/bucket-2?versions").outcome == "404 NoSuchBucket")
        #expect(try await bench.send("GET", "/bucket-1?list-type=2&continuation-token=").outcome == "200")
    }

    @Test("what SDKs ask to find out whether something is there is answered for all vendors")
    func existence() async throws {
        let bench = try await bench()
        #expect(try await bench.send("PUT", "/bucket-1/k", content: [1]).outcome == "200")
        let plain = try await bench.send("GET", "/bucket-1?acl")
        #expect(plain.text?.contains("<Permission>FULL_CONTROL</Permission>") == true)
        #expect(plain.text?.contains(#"xsi:type="CanonicalUser""#) == true)
        #expect(try await bench.send("GET", "/bucket-1/k?acl").text == plain.text)
        #expect(try await bench.send("GET", "/bucket-2?acl").outcome == "404 NoSuchBucket")
        #expect(try await bench.send("GET", "/bucket-1/none?acl").outcome == "404 NoSuchKey")
        #expect(try await bench.send("GET", "/bucket-2/k?acl").outcome == "404 NoSuchBucket")
        for signature in Signature.allCases {
            let found = try await bench.send("GET", "/bucket-1/?acl", by: signature)
            #expect(found.outcome == "200", "\(signature)")
            #expect(found.text?.contains("<Grant>private</Grant>") == Signature.oss.contains(signature))
            #expect(try await bench.send("GET", "/bucket-2/?acl", by: signature).outcome == "404 NoSuchBucket")
            #expect(try await bench.send("GET", "/bucket-1/k?acl", by: signature).outcome == "200")
            #expect(try await bench.send("GET", "/bucket-1/none?acl", by: signature).outcome == "404 NoSuchKey")
        }
        for signature in Signature.oss {
            let info = try await bench.send("GET", "/bucket-1/?bucketInfo", by: signature)
            #expect(info.text?.contains("<Name>bucket-1</Name>") == true)
            #expect(try await bench.send("GET", "/bucket-2/?bucketInfo", by: signature).outcome == "404 NoSuchBucket")
        }
    }

    @Test("errors carry what SDKs read")
    func details() async throws {
        let bench = try await bench()
        #expect(try await bench.send("PUT", "/bucket-1/k", content: [1, 2, 3]).outcome == "200")
        let range = try await bench.send("GET", "/bucket-1/k", ObjectBench.administrator, ["Range": "bytes=7-9"])
        #expect(range.element("RangeRequested") == "bytes=7-9" && range.element("ActualObjectSize") == "3")
        let past = bench.clock.now.addingTimeInterval(-3600)
        let old = try s3Signed("GET", "/bucket-1/k", ObjectBench.administrator, payload: .unsigned, at: past)
        let skewed = await bench.send(old)
        #expect(skewed.outcome == "403 RequestTimeTooSkewed")
        #expect(skewed.element("RequestTime") == old.fields["x-amz-date"])
        #expect(skewed.element("MaxAllowedSkewMilliseconds") == "900000")
        #expect(skewed.element("ServerTime") == XMLWriter.timestamp(bench.clock.now))
        let id = try await bench.begin("m")
        let part = "<Part><PartNumber>4</PartNumber><ETag>\"0123\"</ETag></Part>"
        let list = "<CompleteMultipartUpload>\(part)</CompleteMultipartUpload>"
        let missing = try await bench.send("POST", "/bucket-1/m?uploadId=\(id)", content: Array(list.utf8))
        #expect(missing.outcome == "400 InvalidPart")
        #expect(missing.element("UploadId") == id && missing.element("PartNumber") == "4")
        #expect(missing.element("ETag") == "0123")
    }

    @Test("digests that clients of OSS and COS send are compared", arguments: [Signature.ossV4, .cos], [true, false])
    func digests(_ signature: Signature, _ isPart: Bool) async throws {
        let bench = try await bench()
        // Of 123456789: its CRC-64/XZ, which is the check value of that code, and its SHA-1.
        let content = Array("123456789".utf8)
        let (crc, sha) = ("11051210869376104954", "f7c3bc1d808e04732adf679965ccc34ca7ae3441")
        let names = signature == .cos ? ["hash-crc64ecma", "content-sha1"] : ["hash-crc64ecma", "hash-sha1"]
        let target = isPart ? "/bucket-1/c?partNumber=1&uploadId=\(try await bench.begin("c"))" : "/bucket-1/c"
        for (name, right, wrong, malformed) in [
            (names[0], crc, "1", "x"), (names[1], sha, String(sha.reversed()), "f7c3"),
            (names[1], sha.uppercased(), String(repeating: "0", count: 40), sha + "00"),
        ] {
            for (value, outcome) in [
                (right, "200"), ("", "200"), (malformed, "400 InvalidDigest"),
                // OSS has one code for both.
                (wrong, signature == .cos ? "400 BadDigest" : "400 InvalidDigest"),
            ] {
                var fields = HTTPFields()
                fields[try #require(FieldName((signature == .cos ? "x-cos-" : "x-oss-") + name))] = value
                let signer = ObjectBench.administrator
                let response = try await bench.send("PUT", target, signer, by: signature, fields, content: content)
                #expect(response.outcome == outcome, "\(name) \(value)")
            }
        }
    }

    @Test("lifecycle rules get missing ids, and their days are validated")
    func lifecycle() async throws {
        let bench = try await bench()
        func put(_ rules: String) async throws -> String {
            let document = "<LifecycleConfiguration>\(rules)</LifecycleConfiguration>"
            return try await bench.send("PUT", "/bucket-1?lifecycle", content: Array(document.utf8)).outcome
        }
        func rule(_ action: String, id: String = "") -> String {
            "<Rule>\(id)<Filter><Prefix>a&amp;b/</Prefix></Filter><Status>Enabled</Status>\(action)</Rule>"
        }
        let expiration = "<Expiration><Days>1</Days></Expiration>"
        #expect(try await put(rule(expiration, id: "<ID>mine</ID>") + rule(expiration) + rule(expiration)) == "200")
        let text = try #require(try await bench.send("GET", "/bucket-1?lifecycle").text)
        let rules = try BucketLifecycle(document: Array(text.utf8)).rules
        #expect(rules.count == 3 && rules.compactMap(\.id).count == 3 && Set(rules.map(\.id)).count == 3)
        #expect(rules[0].id == "mine" && rules.allSatisfy { $0.filter.prefix == "a&b/" && $0.expiration == .days(1) })
        #expect(text.contains(expiration))
        for (action, outcome) in [
            ("<Expiration><Days>0</Days></Expiration>", "400 InvalidArgument"),
            ("<Expiration><Days>-1</Days></Expiration>", "400 MalformedXML"),
            ("<Expiration><Days>x</Days></Expiration>", "400 MalformedXML"),
            (
                "<NoncurrentVersionExpiration><NoncurrentDays>0</NoncurrentDays></NoncurrentVersionExpiration>",
                "400 InvalidArgument"
            ),
            ("<Transition><Days>0</Days><StorageClass>GLACIER</StorageClass></Transition>", "501 NotImplemented"),
        ] {
            #expect(try await put(rule(action)) == outcome, "\(action)")
        }
    }

    // MARK: Attributes

    @Test("the attributes of an object")
    func attributes() async throws {
        let bench = try await bench()
        func ask(_ key: String, _ fields: HTTPFields) async throws -> Response {
            try await bench.send("GET", "/bucket-1/\(key)?attributes", ObjectBench.administrator, fields)
        }
        let all: HTTPFields = ["x-amz-object-attributes": "ETag,Checksum,ObjectParts,StorageClass,ObjectSize"]
        let whole = try await ask("k", all)
        #expect(whole.outcome == "200" && whole.fields["Last-Modified"] != nil)
        #expect(whole.element("ETag") == Self.tag && whole.element("ObjectSize") == "5")
        #expect(whole.element("StorageClass") == "STANDARD" && whole.element("ObjectParts") == nil)
        let size = try await ask("k", ["x-amz-object-attributes": "ObjectSize"])
        #expect(size.element("ETag") == nil && size.element("ObjectSize") == "5")

        let id = try await bench.begin("p")
        var tags = ""
        for (number, content) in [(1, [UInt8](repeating: 1, count: 5 << 20)), (2, Self.hello)] {
            let target = "/bucket-1/p?partNumber=\(number)&uploadId=\(id)"
            let tag = try await bench.send("PUT", target, content: content).fields["ETag"] ?? ""
            tags += "<Part><PartNumber>\(number)</PartNumber><ETag>\(tag)</ETag></Part>"
        }
        let document = Array("<CompleteMultipartUpload>\(tags)</CompleteMultipartUpload>".utf8)
        #expect(try await bench.send("POST", "/bucket-1/p?uploadId=\(id)", content: document).outcome == "200")
        var page = all
        page["x-amz-max-parts"] = "1"
        let first = try await ask("p", page)
        #expect(first.element("PartsCount") == "2" && first.element("IsTruncated") == "true")
        #expect(first.element("Part") == "<PartNumber>1</PartNumber><Size>5242880</Size>")
        page["x-amz-part-number-marker"] = first.element("NextPartNumberMarker")
        let second = try await ask("p", page)
        #expect(second.element("IsTruncated") == "false")
        #expect(second.element("Part") == "<PartNumber>2</PartNumber><Size>5</Size>")

        #expect(try await ask("none", all).outcome == "404 NoSuchKey")
        #expect(try await ask("k", [:]).outcome == "400 InvalidRequest")
        #expect(try await ask("k", ["x-amz-object-attributes": "Colour"]).outcome == "400 InvalidArgument")
        page["x-amz-max-parts"] = "-1"
        #expect(try await ask("k", page).outcome == "400 InvalidArgument")
        let reader = try bench.issuer.session(bench.grant(actions: ObjectAction.read))
        let denied = try await bench.send("GET", "/bucket-1/k?attributes", reader, all)
        #expect(denied.outcome == "403 AccessDenied")
    }

    @Test("a checksum of parts ends with their number everywhere, and its type is with it")
    func composite() async throws {
        let bench = try await bench()
        let administrator = ObjectBench.administrator
        let algorithm: HTTPFields = ["x-amz-checksum-algorithm": "SHA256"]
        let begun = try await bench.send("POST", "/bucket-1/p?uploads", administrator, algorithm)
        #expect(begun.fields["x-amz-checksum-type"] == "COMPOSITE")
        let id = try #require(begun.element("UploadId"))
        let target = "/bucket-1/p?partNumber=1&uploadId=\(id)"
        let tag = try #require(try await bench.send("PUT", target, content: Self.hello).fields["ETag"])
        let listed = try await bench.send("GET", "/bucket-1/p?uploadId=\(id)")
        #expect(listed.element("ChecksumType") == "COMPOSITE")
        let part = "<Part><PartNumber>1</PartNumber><ETag>\(tag)</ETag></Part>"
        let document = Array("<CompleteMultipartUpload>\(part)</CompleteMultipartUpload>".utf8)
        let completed = try await bench.send("POST", "/bucket-1/p?uploadId=\(id)", content: document)
        let checksum = try #require(completed.element("ChecksumSHA256"))
        #expect(checksum.hasSuffix("-1") && completed.element("ChecksumType") == "COMPOSITE")
        let head = try await bench.send("HEAD", "/bucket-1/p", administrator, ["x-amz-checksum-mode": "ENABLED"])
        #expect(head.fields["x-amz-checksum-sha256"] == checksum && head.fields["x-amz-checksum-type"] == "COMPOSITE")
        let asked: HTTPFields = ["x-amz-object-attributes": "Checksum"]
        let attributes = try await bench.send("GET", "/bucket-1/p?attributes", administrator, asked)
        #expect(attributes.element("ChecksumSHA256") == checksum && attributes.element("ChecksumType") == "COMPOSITE")
    }

    @Test(
        "a form whose file comes before its fields is told what is wrong",
        arguments: [
            [], ["policy", "x-amz-signature"], ["policy", "OSSAccessKeyId", "Signature"],
            ["q-sign-algorithm", "policy"],
        ]
    )
    func fileFirst(_ names: [String]) async throws {
        let bench = try await bench()
        let boundary = "----x"
        func part(_ name: String, _ value: String) -> String {
            "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n\(value)\r\n"
        }
        let before = names.map { part($0, "x") }.joined()
        let form = before + part("file", "content") + part("key", "k") + "--\(boundary)--\r\n"
        let content = Array(form.utf8)
        let fields: HTTPFields = [
            "Content-Type": "multipart/form-data; boundary=\(boundary)", "Content-Length": String(content.count),
        ]
        let response = await bench.send(try s3Head("POST", "/bucket-1", fields), content)
        #expect(response.outcome == "400 InvalidArgument")
        #expect(response.text?.contains("check the order of the fields") == true)
        #expect(response.element("ArgumentName") == "key")
    }

    // MARK: OSS

    @Test("OSS clients get deleted keys URL-encoded on request", arguments: Signature.oss)
    func encodedDeletions(_ signature: Signature) async throws {
        let bench = try await bench()
        let document = Array("<Delete><Object><Key>a b+ü</Key></Object></Delete>".utf8)
        func delete(_ query: String) async throws -> Response {
            try await bench.send("POST", "/bucket-1/?delete\(query)", by: signature, content: document)
        }
        let encoded = try await delete("&encoding-type=url")
        #expect(encoded.element("EncodingType") == "url" && encoded.element("Key") == "a%20b%2B%C3%BC")
        let plain = try await delete("")
        #expect(plain.element("EncodingType") == nil && plain.element("Key") == "a b+ü")
        #expect(try await delete("&encoding-type=x").outcome == "400 InvalidArgument")
    }

    @Test("the source of a copy in OSS can have + for a space, as in forms", arguments: Signature.oss)
    func copySource(_ signature: Signature) async throws {
        let bench = try await bench()
        #expect(try await bench.send("PUT", "/bucket-1/a%20b%2Bc", content: Self.hello).outcome == "200")
        for source in ["/bucket-1/a+b%2Bc", "/bucket-1/a%20b%2Bc"] {
            let fields: HTTPFields = ["x-oss-copy-source": source]
            #expect(try await bench.send("PUT", "/bucket-1/copy", by: signature, fields).outcome == "200", "\(source)")
        }
    }
}
