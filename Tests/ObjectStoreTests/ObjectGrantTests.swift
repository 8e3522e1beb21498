import Foundation
import Signing
import SluiceTesting
import Testing
import UploadModel

@testable import ObjectGrants

@Suite("Object grants", .timeLimit(.minutes(10)))
struct ObjectGrantTests {
    @Test("a grant for a prefix allows its actions below it, and no other bucket")
    func prefix() {
        let grant = grant(.prefix("sv/"), actions: [.putObject, .listMultipartUploads, .headBucket])
        #expect(grant.allows(.putObject, bucket: "bucket-1250000000", key: "sv/a"))
        #expect(grant.allows(.putObject, bucket: "bucket-1250000000", key: "sv/"))
        #expect(!grant.allows(.putObject, bucket: "bucket-1250000000", key: "sv"))
        #expect(!grant.allows(.putObject, bucket: "bucket", key: "sv/a"))
        #expect(!grant.allows(.getObject, bucket: "bucket-1250000000", key: "sv/a"))
        #expect(grant.allows(.listMultipartUploads, bucket: "bucket-1250000000", key: "sv/a"))
        #expect(!grant.allows(.listMultipartUploads, bucket: "bucket-1250000000", key: ""))
        #expect(!grant.allows(.listMultipartUploads, bucket: "bucket-1250000000", key: "s"))
        #expect(grant.allows(.headBucket, bucket: "bucket-1250000000", key: ""))
        #expect(!grant.allows(.headBucket, bucket: "other", key: ""))
    }

    @Test("a grant for one key allows only that key, not others that look the same")
    func only() {
        let grant = grant(.only("caf\u{E9}"))
        #expect(grant.allows(.putObject, bucket: "bucket-1250000000", key: "caf\u{E9}"))
        #expect(!grant.allows(.putObject, bucket: "bucket-1250000000", key: "cafe\u{301}"))
        #expect(!grant.allows(.putObject, bucket: "bucket-1250000000", key: "caf\u{E9}/x"))
        #expect(grant.allows(.listMultipartUploads, bucket: "bucket-1250000000", key: "caf\u{E9}"))
        #expect(!grant.allows(.listObjects, bucket: "bucket-1250000000", key: "caf"))
        #expect(grant.covers("caf\u{E9}"))
        #expect(!grant.covers("caf\u{E9}/x"))
    }

    @Test("policies can only restrict", arguments: [1, 2, 3, 4] as [UInt64])
    func narrowing(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let keys = ["", "sv/", "sv/a", "sv/b/c", "sw", "x", "sv/*"]
        let lengths: [Int64?] = [nil, 0, 10, 5000]
        let types: [String?] = [nil, "video/mp4", "text/html"]
        var taken = 0
        var left = 0
        for _ in 0..<100 {
            let actions = Set(ObjectAction.allCases.filter { _ in Int.random(in: 0..<4, using: &random) > 0 })
            let before = grant(
                Bool.random(using: &random) ? .prefix(pick(keys, &random)) : .only(pick(keys, &random)),
                actions: actions
            )
            var after = before
            for _ in 0..<Int.random(in: 1...2, using: &random) {
                after = after.narrowed(by: try randomPolicy(&random))
            }
            for _ in 0..<30 {
                let access = ObjectAccess(
                    pick(ObjectAction.allCases, &random),
                    bucket: pick(["bucket-1250000000", "bucket-1250000000", "other-1"], &random),
                    key: pick(keys, &random),
                    contentLength: pick(lengths, &random),
                    contentType: pick(types, &random)
                )
                let was = before.allows(access)
                let isStill = after.allows(access)
                let isRight = (was || !isStill) && isStill == (was && after.policies.allSatisfy { $0.allows(access) })
                if !isRight { Issue.record("seed \(seed): \(access) of \(before), narrowed to \(after)") }
                if was { if isStill { left += 1 } else { taken += 1 } }
            }
        }
        // Otherwise the test would prove nothing.
        #expect(taken > 20)
        #expect(left > 20)
    }

    private func pick<Element>(_ elements: [Element], _ random: inout SeededGenerator) -> Element {
        elements[Int.random(in: 0..<elements.count, using: &random)]
    }

    private func randomPolicy(_ random: inout SeededGenerator) throws -> SessionPolicy {
        let actions = ["*", "cos:*", "name/cos:PutObject", "name/cos:*Part*", "name/cos:Get*", "name/cos:ListParts"]
        let resources = [
            "*", "qcs::cos:*:*:bucket-1250000000/*", "qcs::cos:ap-x:uid/1250000000:bucket-1250000000/sv/*",
            "qcs::cos:ap-x:uid/1:other-1/*", "qcs::cos:ap-x:uid/1250000000:bucket-1250000000/sv/?",
        ]
        let conditions = [
            "", "", #","condition":{"numeric_less_than":{"cos:content-length":100}}"#,
            #","condition":{"string_not_like":{"cos:content-type":"text/*"}}"#,
            #","condition":{"string_equal":{"cos:prefix":["sv/","x"]}}"#,
        ]
        let statements = (0..<Int.random(in: 1...4, using: &random)).map { _ in
            let effect = pick(["allow", "allow", "deny"], &random)
            let action = pick(actions, &random)
            let resource = pick(resources, &random)
            return
                #"{"effect":"\#(effect)","action":"\#(action)","resource":["\#(resource)"]\#(pick(conditions, &random))}"#
        }
        return try SessionPolicy(
            #"{"version":"2.0","statement":[\#(statements.joined(separator: ","))]}"#,
            vendor: .tencent
        )
    }
}
