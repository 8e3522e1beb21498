import Foundation
import Signing
import SluiceTesting
import Testing
import UploadModel

@testable import ObjectGrants

@Suite("Grants as policies for the real clouds", .timeLimit(.minutes(10)))
struct GrantDocumentTests {
    private func document(_ grant: ObjectGrant, _ vendor: Vendor) throws -> String {
        try grant.sessionPolicy(for: vendor, region: "ap-chongqing")
    }

    @Test("an upload below a prefix, in each vendor's format")
    func upload() throws {
        let grant = grant(.prefix("a b/"), actions: ObjectAction.upload)
        #expect(
            try document(grant, .aws)
                == #"{"Statement":[{"Action":["s3:AbortMultipartUpload","s3:ListMultipartUploadParts","s3:PutObject"],"#
                + #""Effect":"Allow","Resource":["arn:aws:s3:::bucket-1250000000/a b/*"]},"#
                + #"{"Action":["s3:GetBucketLocation"],"Effect":"Allow","Resource":["arn:aws:s3:::bucket-1250000000"]}],"#
                + #""Version":"2012-10-17"}"#
        )
        #expect(
            try document(grant, .aliyun)
                == #"{"Statement":[{"Action":["oss:AbortMultipartUpload","oss:ListParts","oss:PutObject"],"#
                + #""Effect":"Allow","Resource":["acs:oss:*:*:bucket-1250000000/a b/*"]},"#
                + #"{"Action":["oss:GetBucketLocation"],"Effect":"Allow","Resource":["acs:oss:*:*:bucket-1250000000"]}],"#
                + #""Version":"1"}"#
        )
        #expect(
            try document(grant, .tencent)
                == #"{"statement":[{"action":["name/cos:AbortMultipartUpload","name/cos:AppendObject","#
                + #""name/cos:CompleteMultipartUpload","name/cos:HeadObject","name/cos:InitiateMultipartUpload","#
                + #""name/cos:ListMultipartUploads","name/cos:ListParts","name/cos:PostObject","name/cos:PutObject","#
                + #""name/cos:UploadPart","name/cos:UploadPartCopy"],"effect":"allow","#
                + #""resource":["qcs::cos:ap-chongqing:uid/1250000000:bucket-1250000000/a b/*"]}],"version":"2.0"}"#
        )
    }

    @Test("reading and deleting one key; a listing would reveal others")
    func oneKey() throws {
        let grant = grant(.only("a/1"), actions: [.getObject, .headObject, .copySource, .listObjects, .deleteObject])
        #expect(
            try document(grant, .aws)
                == #"{"Statement":[{"Action":["s3:DeleteObject","s3:GetObject"],"Effect":"Allow","#
                + #""Resource":["arn:aws:s3:::bucket-1250000000/a/1"]}],"Version":"2012-10-17"}"#
        )
    }

    @Test("listings are limited to the prefix")
    func listings() throws {
        for (vendor, condition) in [(Vendor.aws, "s3:prefix"), (.aliyun, "oss:Prefix")] {
            let text = try document(grant(.prefix("sv/"), actions: ObjectAction.read), vendor)
            #expect(text.contains(#""Condition":{"StringLike":{"\#(condition)":["sv/*"]}}"#))
            #expect(!(try document(grant(.prefix(""), actions: ObjectAction.read), vendor)).contains("Condition"))
        }
    }

    @Test("the AWS partition follows from the region")
    func partitions() throws {
        for (region, partition) in [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov"), ("eu-west-1", "aws")] {
            let text = try grant(.prefix("sv/")).sessionPolicy(for: .aws, region: region)
            #expect(text.contains("\"arn:\(partition):s3:::bucket-1250000000/sv/*\""))
        }
    }

    @Test("media types are a condition of COS, only for requests that declare one")
    func mediaTypes() throws {
        var grant = grant(.prefix("sv/"), actions: ObjectAction.upload)
        grant.upload.contentTypes = ["video/*", "image/png"]
        let policy = try SessionPolicy(try document(grant, .tencent), vendor: .tencent)
        func allows(_ action: ObjectAction, _ type: String?) -> Bool {
            policy.allows(ObjectAccess(action, bucket: "bucket-1250000000", key: "sv/1", contentType: type))
        }
        for action in [ObjectAction.putObject, .postObject, .appendObject, .createMultipartUpload] {
            #expect(allows(action, "video/mp4"))
            #expect(allows(action, "image/png"))
            #expect(!allows(action, "text/html"))
            #expect(!allows(action, nil))
        }
        #expect(allows(.uploadPart, nil))
        #expect(allows(.completeMultipartUpload, nil))
    }

    @Test("a policy allows no more than its grant, and all an upload needs", arguments: [1, 2, 3] as [UInt64])
    func leastPrivilege(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let keys = ["", "sv/", "sv/ü 1", "sv/\u{1F9A5}/b", "sw", "x:y"]
        var allowed = 0
        for _ in 0..<200 {
            let vendor = Vendor.allCases[Int.random(in: 0..<3, using: &random)]
            let actions = Set(ObjectAction.allCases.filter { _ in Int.random(in: 0..<4, using: &random) > 0 })
            let key = keys[Int.random(in: 0..<keys.count, using: &random)]
            let grant = grant(Bool.random(using: &random) ? .prefix(key) : .only(key), actions: actions)
            let policy = try SessionPolicy(try document(grant, vendor), vendor: vendor)
            for action in ObjectAction.allCases {
                for bucket in ["bucket-1250000000", "other-1250000000"] {
                    for tried in keys + ["sv/ü 1x", key + "x", ""] {
                        let access = ObjectAccess(action, bucket: bucket, key: action == .headBucket ? "" : tried)
                        guard policy.allows(access) else { continue }
                        allowed += 1
                        #expect(grant.allows(access), "seed \(seed): \(access) of \(grant)")
                    }
                }
            }
            let needed: Set<ObjectAction> = [
                .putObject, .postObject, .appendObject, .createMultipartUpload, .uploadPart, .completeMultipartUpload,
                .abortMultipartUpload, .listParts,
            ]
            if needed.isSubset(of: actions) {
                for action in needed {
                    #expect(policy.allows(ObjectAccess(action, bucket: "bucket-1250000000", key: key)))
                }
            }
        }
        // Otherwise the test would prove nothing.
        #expect(allowed > 500)
    }

    @Test("all of it is ASCII with the same meaning")
    func ascii() throws {
        let grant = grant(.only("sv/日本 \u{1F9A5}\"\\\u{7F}"))
        for vendor in Vendor.allCases {
            let text = try document(grant, vendor)
            #expect(text.utf8.allSatisfy { (0x20..<0x7F).contains($0) })
            let policy = try SessionPolicy(text, vendor: vendor)
            #expect(
                policy.allows(
                    ObjectAccess(.putObject, bucket: "bucket-1250000000", key: "sv/日本 \u{1F9A5}\"\\\u{7F}")
                )
            )
        }
    }

    @Test("all inexpressible fields are refused at once, by name")
    func inexpressible() throws {
        var grant = grant(.prefix("a*"))
        grant.upload.maximumBytes = 1
        grant.upload.isOneTime = true
        grant.upload.metadata = ["a": "b"]
        grant.upload.contentTypes = ["video/*"]
        for vendor in Vendor.allCases {
            let error = #expect(throws: InexpressibleGrant.self) { try document(grant, vendor) }
            let fields = error?.problems.map(\.field)
            let types = vendor == .tencent ? [] : ["contentTypes"]
            #expect(fields == ["maxBytes", "oneTime", "metadata"] + types + ["keyPrefix"])
        }
    }

    @Test(
        "keys that would be patterns are refused, also behind combining marks",
        arguments: [
            "a*", "*", "a?b", "${aws:userid}", "a*\u{301}", "?\u{308}", "$\u{7B}x",
        ]
    )
    func patterns(key: String) {
        for vendor in Vendor.allCases {
            for (keys, field) in [(ObjectGrant.Keys.only(key), "key"), (.prefix(key), "keyPrefix")] {
                let error = #expect(throws: InexpressibleGrant.self) { try document(grant(keys), vendor) }
                #expect(error?.problems.map(\.field) == [field])
            }
        }
    }

    @Test("ambiguous media type patterns are refused", arguments: ["image/*x", "*/*", "i*/png", "a*b/*"])
    func patternsOfTypes(type: String) {
        var grant = grant()
        grant.upload.contentTypes = ["video/mp4", type]
        let error = #expect(throws: InexpressibleGrant.self) { try document(grant, .tencent) }
        #expect(error?.problems.map(\.field) == ["contentTypes"])
    }

    @Test("COS buckets name their account; policies that are too long are refused")
    func limits() {
        var unnamed = grant()
        for bucket in ["media", "media-", "media-a1", nil] {
            unnamed.bucket = bucket
            let error = #expect(throws: InexpressibleGrant.self) { try document(unnamed, .tencent) }
            #expect(error?.problems.map(\.field) == ["bucket"])
        }
        let long = grant(.only(String(repeating: "ü", count: 500)))
        for vendor in [Vendor.aws, .aliyun] {
            let error = #expect(throws: InexpressibleGrant.self) { try document(long, vendor) }
            #expect(error?.problems.map(\.field) == ["key"])
        }
    }
}
