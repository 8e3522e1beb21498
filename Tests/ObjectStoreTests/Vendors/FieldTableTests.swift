import HTTPWire
import Signing
import Testing
import UploadCore
import UploadModel

@testable import ObjectStore

@Suite("Header fields with a vendor's prefix", .timeLimit(.minutes(10)))
struct FieldTableTests {
    private func code(_ vendor: Vendor, _ name: String, _ value: String = "1") throws -> ObjectErrorCode? {
        var fields = HTTPFields()
        fields.append(try #require(FieldName(vendor.fieldPrefix + name)), value)
        let head = try s3Head("PUT", "/bucket-1/a", fields)
        return s3Code { () throws(ObjectError) in try RequestReader(head, vendor) }
    }

    @Test(
        "fields that SDKs and proxies send without a meaning are accepted",
        arguments: [
            (.aws, ["User-Agent", "request-payer", "te", "optional-object-attributes", "cf-id", "region-set"]),
            (.aliyun, ["request-payer", "Traffic-Limit", "user-agent", "allow-same-action-overlap", "md5"]),
            (.tencent, ["sdk-retry", "traffic-limit", "trace-id"]),
            // In no table: hints, digests, notifications and traces.
            (.aws, ["x", "", "content-sha1", "client-hint", "event-notification", "span-id"]),
            (.aliyun, ["x", "", "sha256-of-head", "upload-hint", "notify", "trace", "device-id"]),
            (.tencent, ["x", "", "head-sha1", "sdk-platform", "notify-mode", "span"]),
        ] as [(Vendor, [String])]
    )
    func ignored(_ vendor: Vendor, _ names: [String]) throws {
        for name in names {
            #expect(vendor.profile.fields.rule(for: (vendor.fieldPrefix + name).lowercased()) == .ignored, "\(name)")
            #expect(try code(vendor, name) == nil, "\(name)")
        }
    }

    @Test(
        "fields with an effect are accepted",
        arguments: [
            (.aws, ["meta-a", "checksum-crc32", "sdk-checksum-algorithm", "copy-source-range", "mp-object-size"]),
            (.aliyun, ["meta-a", "callback", "range-behavior", "hash-sha1"]),
            (.tencent, ["meta-a", "security-token", "tagging", "content-sha1"]),
        ] as [(Vendor, [String])]
    )
    func executed(_ vendor: Vendor, _ names: [String]) throws {
        for name in names {
            #expect(vendor.profile.fields.rule(for: vendor.fieldPrefix + name) == .executed, "\(name)")
            #expect(try code(vendor, name) == nil, "\(name)")
        }
    }

    @Test("the account that owns all buckets may be named")
    func owner() throws {
        for name in ["expected-bucket-owner", "source-expected-bucket-owner"] {
            #expect(try code(.aws, name, "000000000000") == nil)
            #expect(try code(.aws, name, "000000000001") == .accessDenied)
            for other in ["", "0", "0000000000000", "00000000000a", "sluice"] {
                #expect(try code(.aws, name, other) == .invalidBucketOwner, "\(other)")
            }
        }
    }

    @Test(
        "fields that would change the meaning of a request are refused, known or not",
        arguments: [
            (.aws, ["write-offset-bytes", "if-match-size", "object-lock-mode", "rename-source", "a-ttl"]),
            (.aliyun, ["symlink-target", "server-side-encryption", "ac-source-ip", "persistent-headers", "my-grant"]),
            (.tencent, ["callback", "server-side-encryption", "bucket-az-type", "new-encryption-mode", "redirect-to"]),
        ] as [(Vendor, [String])]
    )
    func refused(_ vendor: Vendor, _ names: [String]) throws {
        for name in names { #expect(try code(vendor, name) == .notImplemented, "\(name)") }
    }

    @Test("some fields are accepted with one value only", arguments: Vendor.allCases)
    func values(_ vendor: Vendor) throws {
        #expect(try code(vendor, "acl", "private") == nil)
        #expect(try code(vendor, "acl", "public-read") == .accessControlListNotSupported)
        #expect(try code(vendor, "acl", "default") == (vendor == .aws ? .accessControlListNotSupported : nil))
        #expect(try code(vendor, "grant-read", "id=1") == .accessControlListNotSupported)
        #expect(try code(vendor, "storage-class", "STANDARD") == nil)
        #expect(try code(vendor, "storage-class", "Standard") == (vendor == .aws ? .invalidStorageClass : nil))
        #expect(try code(vendor, "storage-class", "IA") == .invalidStorageClass)
        #expect(try code(vendor, "complete-all", "yes") == (vendor == .aws ? nil : .notImplemented))
    }

    @Test("a boolean field is true or false", arguments: [Vendor.aliyun, .tencent])
    func booleans(_ vendor: Vendor) throws {
        for value in ["true", "false", "True", "FALSE"] { #expect(try code(vendor, "forbid-overwrite", value) == nil) }
        for value in ["trueX", "", "1", "yes", "true, true", "true;", "\u{fe}rue"] {
            #expect(try code(vendor, "forbid-overwrite", value) == .invalidArgument, "\(value)")
        }
        // None of several fields hides another one.
        for values in [["true", "false"], ["false", "true"], ["true", "true"]] {
            var fields = HTTPFields()
            let name = try #require(FieldName(vendor.fieldPrefix + "forbid-overwrite"))
            for value in values { fields.append(name, value) }
            #expect(try RequestReader(s3Head("PUT", "/bucket-1/a", fields), vendor).forbidsOverwrite, "\(values)")
        }
    }

    @Test("no field that takes effect has a value that is taken for another one", arguments: Vendor.allCases)
    func enumerations(_ vendor: Vendor) async throws {
        let names = ["metadata-directive", "tagging-directive"] + (vendor == .aws ? [] : ["forbid-overwrite"])
        let bench = try await ObjectBench()
        let source = "\(vendor == .tencent ? "bucket-1.cos.ap-x.myqcloud.com" : "/bucket-1")/k"
        #expect(try await bench.send("PUT", "/bucket-1/k", ObjectBench.administrator, content: [1]).outcome == "200")
        for name in names {
            for value in ["REPLACEX", "trueX", "COPY, REPLACE", "_"] {
                var fields = HTTPFields()
                fields.append(try #require(FieldName(vendor.fieldPrefix + "copy-source")), source)
                fields.append(try #require(FieldName(vendor.fieldPrefix + name)), value)
                let response =
                    switch vendor {
                    case .aws: try await bench.send("PUT", "/bucket-1/c", ObjectBench.administrator, fields)
                    case .aliyun: try await bench.send("PUT", "/bucket-1/c", by: .ossV4, fields)
                    case .tencent: try await bench.send("PUT", "/bucket-1/c", by: .cos, fields)
                    }
                #expect(response.outcome == "400 InvalidArgument", "\(name) \(value)")
                #expect(response.element("ArgumentName") == vendor.fieldPrefix + name)
            }
        }
        #expect(try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "c")) == nil)
    }

    @Test("fields of other vendors are ignored")
    func others() throws {
        let head = try s3Head("PUT", "/bucket-1/a", ["x-amz-x": "1", "x-oss-x": "1", "x-amz-acl": "public-read"])
        #expect(try RequestReader(head, .tencent).all("").isEmpty)
    }

    @Test(
        "a request with an unknown field that asks for an effect changes nothing",
        arguments: [
            (nil, "x-amz-new-acl", "501 NotImplemented"), (.ossV4, "x-oss-new-acl", "400 NotImplemented"),
            (.ossV1Query, "x-oss-new-acl", "400 NotImplemented"), (.cos, "x-cos-new-acl", "501 NotImplemented"),
        ] as [(Signature?, String, String)]
    )
    func unknown(_ signature: Signature?, _ name: String, _ outcome: String) async throws {
        let bench = try await ObjectBench()
        var fields = HTTPFields()
        fields.append(try #require(FieldName(name)), "1")
        let response =
            if let signature {
                try await bench.send("PUT", "/bucket-1/k", by: signature, fields, content: [1])
            } else {
                try await bench.send("PUT", "/bucket-1/k", ObjectBench.administrator, fields, content: [1])
            }
        #expect(response.outcome == outcome)
        #expect(response.element("Header") == name)
        #expect(try await bench.send("HEAD", "/bucket-1/k").status == 404)
    }
}
