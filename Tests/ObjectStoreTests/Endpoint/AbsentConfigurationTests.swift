import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

/// What SDKs, consoles and Terraform read of a bucket that has no such thing.
@Suite("Configurations that no bucket has", .timeLimit(.minutes(10)))
struct AbsentConfigurationTests {
    /// A sub-resource, and the answer to those who read it: an error, or an element of a document with its content.
    typealias Row = (resource: String, answer: String, content: String?)

    static let aws: [Row] = [
        ("policy", "404 NoSuchBucketPolicy", nil), ("policyStatus", "404 NoSuchBucketPolicy", nil),
        ("tagging", "404 NoSuchTagSet", nil), ("website", "404 NoSuchWebsiteConfiguration", nil),
        ("encryption", "404 ServerSideEncryptionConfigurationNotFoundError", nil),
        ("replication", "404 ReplicationConfigurationNotFoundError", nil),
        ("publicAccessBlock", "404 NoSuchPublicAccessBlockConfiguration", nil),
        ("object-lock", "404 ObjectLockConfigurationNotFoundError", nil), ("cors", "404 NoSuchCORSConfiguration", nil),
        ("lifecycle", "404 NoSuchLifecycleConfiguration", nil),
        ("ownershipControls", "ObjectOwnership", "BucketOwnerEnforced"),
        ("logging", "BucketLoggingStatus", ""), ("notification", "NotificationConfiguration", ""),
        ("accelerate", "AccelerateConfiguration", ""), ("requestPayment", "Payer", "BucketOwner"),
        ("versioning", "VersioningConfiguration", ""), ("analytics", "IsTruncated", "false"),
        ("inventory", "IsTruncated", "false"), ("metrics", "IsTruncated", "false"),
        ("intelligent-tiering", "IsTruncated", "false"), ("inventory&id=a", "404 NoSuchConfiguration", nil),
        ("intelligent-tiering&id=a", "404 NoSuchConfiguration", nil), ("abac", "Status", "Disabled"),
        ("metadataConfiguration", "404 MetadataConfigurationNotFound", nil),
        ("metadataTable", "404 MetadataConfigurationNotFound", nil),
    ]
    static let aliyun: [Row] = [
        ("policy", "404 NoSuchBucketPolicy", nil), ("tagging", "TagSet", ""),
        ("website", "404 NoSuchWebsiteConfiguration", nil), ("encryption", "404 NoSuchServerSideEncryptionRule", nil),
        ("replication", "404 NoSuchReplicationConfiguration", nil), ("worm", "404 NoSuchWORMConfiguration", nil),
        ("transferAcceleration", "404 NoSuchTransferAccelerationConfiguration", nil),
        ("publicAccessBlock", "BlockPublicAccess", "false"), ("cors", "404 NoSuchCORSConfiguration", nil),
        ("lifecycle", "404 NoSuchLifecycle", nil), ("logging", "BucketLoggingStatus", ""),
        ("referer", "AllowEmptyReferer", "true"), ("requestPayment", "Payer", "BucketOwner"),
        ("versioning", "VersioningConfiguration", ""), ("inventory", "IsTruncated", "false"),
        ("inventory&inventoryId=a", "404 NoSuchInventory", nil), ("policyStatus", "IsPublic", "false"),
        ("cname", "Bucket", "bucket-1"), ("style", "StyleList", ""), ("style&styleName=a", "404 NoSuchStyle", nil),
        ("accessPoint", "IsTruncated", "false"), ("redundancyTransition", "IsTruncated", "false"),
        ("accessmonitor", "Status", "Disabled"), ("bucketArchiveDirectRead", "Enabled", "false"),
        ("httpsConfig", "Enable", "false"), ("resourceGroup", "ResourceGroupId", "rg-default-id"),
        ("qos", "StorageCapacity", "-1"), ("qosInfo", "TotalQps", "-1"),
        ("replicationLocation", "ReplicationLocation", ""),
        ("replicationProgress", "404 NoSuchReplicationRule", nil),
        ("userDefinedLogFieldsConfig", "404 NoSuchUserDefinedLogFieldsConfig", nil),
    ]
    static let tencent: [Row] = [
        ("policy", "404 NoSuchPolicy", nil), ("tagging", "404 NoSuchTagSet", nil),
        ("website", "404 NoSuchWebsiteConfiguration", nil), ("encryption", "404 NoSuchEncryptionConfiguration", nil),
        ("replication", "404 ReplicationConfigurationnotFoundError", nil),
        ("referer", "404 NoSuchRefererConfiguration", nil), ("cors", "404 NoSuchCORSConfiguration", nil),
        ("lifecycle", "404 NoSuchLifecycleConfiguration", nil),
        ("object-lock", "404 ObjectLockConfigurationNotFoundError", nil), ("logging", "BucketLoggingStatus", ""),
        ("accelerate", "AccelerateConfiguration", ""), ("domain", "DomainConfiguration", ""),
        ("intelligenttiering", "IntelligentTieringConfiguration", ""), ("versioning", "VersioningConfiguration", ""),
        ("inventory", "IsTruncated", "false"), ("inventory&id=a", "404 NoSuchConfiguration", nil),
        ("origin", "404 NoSuchConfiguration", nil), ("domaincertificate", "404 NoSuchConfiguration", nil),
        ("intelligent-tiering", "IsTruncated", "false"), ("intelligent-tiering&id=a", "404 NoSuchConfiguration", nil),
    ]

    private static func rows(_ signature: Signature?) -> [Row] {
        guard let signature else { return aws }
        return Signature.oss.contains(signature) ? aliyun : tencent
    }

    private static func send(
        _ method: String,
        _ target: String,
        _ bench: ObjectBench,
        _ credentials: SigningCredentials = ObjectBench.administrator,
        by signature: Signature?
    ) async throws -> Response {
        guard let signature else { return try await bench.send(method, target, credentials) }
        return try await bench.send(method, target, credentials, by: signature)
    }

    private static let all: [Signature?] = [nil] + Signature.allCases

    @Test("are answered as the vendor answers for a bucket without them", arguments: all)
    func reading(_ signature: Signature?) async throws {
        let bench = try await ObjectBench()
        for row in Self.rows(signature) {
            let found = try await Self.send("GET", "/bucket-1/?\(row.resource)", bench, by: signature)
            if let content = row.content {
                // An empty element of S3 has its namespace.
                let isEmpty = content.isEmpty && found.text?.hasSuffix("></\(row.answer)>") == true
                #expect(found.outcome == "200", "\(row.resource)")
                #expect(isEmpty || found.element(row.answer) == content, "\(row.resource): \(found.text ?? "")")
            } else {
                #expect(found.outcome == row.answer, "\(row.resource)")
            }
            let missing = try await Self.send("GET", "/bucket-2/?\(row.resource)", bench, by: signature)
            #expect(missing.outcome == "404 NoSuchBucket", "\(row.resource)")
        }
    }

    @Test("can be deleted, which changes nothing, but not set", arguments: all)
    func writing(_ signature: Signature?) async throws {
        let bench = try await ObjectBench()
        let object = ObjectName(bucket: "bucket-1", key: "k")
        #expect(try await bench.send("PUT", "/bucket-1/k", content: [1]).outcome == "200")
        for resource in ["policy", "tagging", "website", "encryption"] {
            let deleted = try await Self.send("DELETE", "/bucket-1/?\(resource)", bench, by: signature)
            #expect(deleted.outcome == "204", "\(resource)")
            let missing = try await Self.send("DELETE", "/bucket-2/?\(resource)", bench, by: signature)
            #expect(missing.outcome == "404 NoSuchBucket", "\(resource)")
        }
        let refusal = signature.map(Signature.oss.contains) == true ? "400 NotImplemented" : "501 NotImplemented"
        for row in Self.rows(signature) where !["cors", "lifecycle"].contains(row.resource) {
            for method in ["PUT", "POST"] {
                let set = try await Self.send(method, "/bucket-2/?\(row.resource)", bench, by: signature)
                #expect(set.outcome == refusal, "\(method) \(row.resource)")
            }
        }
        #expect(try await bench.services.objects.bucket("bucket-2") == nil)
        #expect(try await bench.services.objects.object(object) != nil)
    }

    private static func deletable(_ signature: Signature?) -> Set<String> {
        let all: Set = ["policy", "tagging", "website", "encryption", "cors", "lifecycle"]
        guard let signature else { return all.union(["replication", "publicAccessBlock"]) }
        return Signature.oss.contains(signature)
            ? all.union(["logging", "publicAccessBlock", "userDefinedLogFieldsConfig", "qosInfo"])
            : all.union(["replication", "referer", "origin", "domain", "domaincertificate"])
    }

    @Test("never end in the deletion of the bucket", arguments: all)
    func deleting(_ signature: Signature?) async throws {
        let bench = try await ObjectBench()
        let refusal = signature.map(Signature.oss.contains) == true ? "400 NotImplemented" : "501 NotImplemented"
        for row in Self.rows(signature) {
            let expected =
                Self.deletable(signature).contains(row.resource)
                ? "204" : row.resource.contains("&") ? row.answer : refusal
            let deleted = try await Self.send("DELETE", "/bucket-1/?\(row.resource)", bench, by: signature)
            #expect(deleted.outcome == expected, "\(row.resource)")
            #expect(try await bench.services.objects.bucket("bucket-1") != nil, "\(row.resource)")
        }
        // With a value, too, none of them is another request.
        let name = signature.map { Signature.oss.contains($0) ? "cname" : "origin" } ?? "abac"
        for (method, bucket) in [("PUT", "bucket-2"), ("HEAD", "bucket-1"), ("DELETE", "bucket-1")] {
            let answer = try await Self.send(method, "/\(bucket)/?\(name)=x", bench, by: signature)
            #expect(
                [refusal, "204", String(refusal.prefix(3))].contains(answer.outcome),
                "\(method): \(answer.outcome)"
            )
        }
        #expect(try await bench.services.objects.bucket("bucket-2") == nil)
        #expect(try await bench.services.objects.bucket("bucket-1") != nil)
    }

    @Test("are no secret of a bucket for whoever may use it, but deletions are for administrators", arguments: all)
    func rights(_ signature: Signature?) async throws {
        let bench = try await ObjectBench()
        let vendor: Vendor = signature.map { Signature.oss.contains($0) ? .aliyun : .tencent } ?? .aws
        let session = try bench.issuer.session(bench.grant(), for: vendor)
        let read = try await Self.send("GET", "/bucket-1/?policy", bench, session, by: signature)
        #expect(read.outcome.hasPrefix("404 NoSuch"))
        #expect(read.outcome != "404 NoSuchBucket")
        // For COS the path is a key in the bucket of the session.
        if vendor != .tencent {
            let other = try await Self.send("GET", "/bucket-2/?policy", bench, session, by: signature)
            #expect(other.outcome == "403 AccessDenied")
        }
        let deletion = try await Self.send("DELETE", "/bucket-1/?policy", bench, session, by: signature)
        #expect(deletion.outcome == "403 AccessDenied")
    }

    @Test("are none of an object: pages may add their names to its URL")
    func objects() async throws {
        let bench = try await ObjectBench()
        #expect(try await bench.send("PUT", "/bucket-1/k", content: [1, 2]).outcome == "200")
        for name in ["referer=x", "domain=x", "stat=1", "stat", "worm"] {
            #expect(try await bench.send("GET", "/bucket-1/k?\(name)").outcome == "200", "\(name)")
            #expect(try await bench.send("GET", "/bucket-1/k?\(name)", by: .cos).outcome == "200", "\(name)")
        }
        var head = try bench.signed("GET", "/bucket-1/k", by: .cosQuery)
        head.target = try RequestTarget(parsing: "\(head.target.rawPath)?\(head.target.rawQuery ?? "")&referer=x")
        #expect(await bench.send(head).outcome == "200")
        // Of a bucket they need not be signed, because the answer is the same for everyone; COS's SDK for Python does not.
        head = try bench.signed("GET", "/bucket-1/", by: .cosQuery)
        head.target = try RequestTarget(
            parsing: "\(head.target.rawPath)?\(head.target.rawQuery ?? "")&intelligent-tiering"
        )
        let list = await bench.send(head)
        #expect(list.outcome == "200" && list.element("IsTruncated") == "false")
        head = try bench.signed("DELETE", "/bucket-1/", by: .cosQuery)
        head.target = try RequestTarget(parsing: "\(head.target.rawPath)?\(head.target.rawQuery ?? "")&referer")
        #expect(await bench.send(head).outcome == "403 AccessDenied")
        #expect(try await bench.send("PUT", "/bucket-1/k?policy", by: .ossV4).outcome == "400 NotImplemented")
    }

    @Test("the statistics of a bucket of OSS count objects, bytes and open uploads", arguments: Signature.oss)
    func stat(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        let empty = try await bench.send("GET", "/bucket-1/?stat", by: signature)
        #expect(empty.element("Storage") == "0" && empty.element("ObjectCount") == "0")
        for key in ["a", "b/c", "d"] {
            #expect(try await bench.send("PUT", "/bucket-1/\(key)", content: [1, 2, 3]).outcome == "200")
        }
        for key in ["b", "b", "u"] { _ = try await bench.begin(key) }
        let stat = try await bench.send("GET", "/bucket-1/?stat", by: signature)
        #expect(stat.outcome == "200")
        #expect(stat.element("Storage") == "9" && stat.element("StandardStorage") == "9")
        #expect(stat.element("ObjectCount") == "3" && stat.element("MultipartUploadCount") == "3")
        #expect(stat.element("ColdArchiveObjectCount") == "0")
        #expect(stat.element("LastModifiedTime") == String(bench.clock.now.unixSeconds))
        #expect(try await bench.send("GET", "/bucket-2/?stat", by: signature).outcome == "404 NoSuchBucket")
        #expect(try await bench.send("PUT", "/bucket-2/?stat", by: signature).outcome == "400 NotImplemented")
        let session = try bench.issuer.session(bench.grant(), for: .aliyun)
        #expect(try await bench.send("GET", "/bucket-1/?stat", session, by: signature).outcome == "403 AccessDenied")
        #expect(try await bench.send("GET", "/bucket-1?stat").outcome == "501 NotImplemented")
        #expect(try await bench.send("GET", "/bucket-1/?stat", by: .cos).outcome == "501 NotImplemented")
    }

    @Test(
        "lists of OSS name the delimiter, though there is none: its SDK for Python fails without it",
        arguments: Signature.oss
    )
    func delimiter(_ signature: Signature) async throws {
        let bench = try await ObjectBench()
        for query in ["?versions", "", "?list-type=2"] {
            let list = try await bench.send("GET", "/bucket-1/\(query)", by: signature)
            #expect(list.element("Delimiter") == "", "\(query)")
        }
        #expect(try await bench.send("GET", "/bucket-1?versions").element("Delimiter") == nil)
    }
}
