import HTTPWire
import Signing
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

/// A lifecycle rule of a bucket may delete by tag, so who sets tags matters.
@Suite("Rights to tags", .timeLimit(.minutes(10)))
struct TagRightTests {
    /// How an upload can have tags.
    enum Way: CaseIterable {
        case object, append, parts, form
    }

    private func grant(_ bench: ObjectBench, _ end: WritingRight.End) -> ObjectGrant {
        var grant = bench.grant()
        grant.upload.id = end.grantID(for: "1")
        return grant
    }

    private func post(_ vendor: Vendor, _ end: WritingRight.End, tagged: Bool) async throws -> (Response, Media?) {
        let form = try await FormBench(vendor, under: grant(try await ObjectBench(), end))
        let (name, value) =
            vendor == .aws
            ? ("tagging", "<Tagging><TagSet><Tag><Key>t</Key><Value>1</Value></Tag></TagSet></Tagging>")
            : (vendor.fieldPrefix + "tagging", "t=1")
        let response = try await form.post([["starts-with", "$" + name, ""]], tagged ? [(name, value)] : [])
        return (response, try await form.stored)
    }

    private func send(
        _ way: Way,
        _ vendor: Vendor,
        _ end: WritingRight.End,
        tagged: Bool
    ) async throws -> (Response, Media?) {
        if way == .form { return try await post(vendor, end, tagged: tagged) }
        let bench = try await ObjectBench()
        let session = try bench.issuer.session(grant(bench, end), for: vendor)
        var fields = HTTPFields()
        if tagged { fields.append(try #require(FieldName(vendor.fieldPrefix + "tagging")), "t=1") }
        let (method, query, content): (String, String, [UInt8]) =
            switch way {
            case .append: ("POST", "?append&position=0", [1])
            case .parts: ("POST", "?uploads", [])
            default: ("PUT", "", [1])
            }
        let target = "/bucket-1/a/f\(query)"
        let response =
            switch vendor {
            case .aws: try await bench.send(method, target, session, fields, content: content)
            case .aliyun: try await bench.send(method, target, session, by: .ossV4, fields, content: content)
            case .tencent: try await bench.send(method, target, session, by: .cos, fields, content: content)
            }
        return (response, try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "a/f")))
    }

    @Test(
        "an upload under a right to write has no tags",
        arguments: Vendor.allCases,
        Way.allCases
    )
    func rightToWrite(_ vendor: Vendor, _ way: Way) async throws {
        guard vendor != .aws || way != .append else { return }
        for end in WritingRight.End.allCases {
            let (refused, stored) = try await send(way, vendor, end, tagged: true)
            #expect(refused.outcome == "403 AccessDenied")
            #expect(stored == nil)
            #expect(try await send(way, vendor, end, tagged: false).0.status.code / 100 == 2)
        }
    }

    @Test("a grant for one upload sets tags only of the object that it became")
    func oneTime() async throws {
        let bench = try await ObjectBench()
        #expect(try await bench.send("PUT", "/bucket-1/a/1", content: [1]).outcome == "200")
        let once = try bench.issuer.session(bench.grant(isOneTime: true))
        let tags = Array("<Tagging><TagSet><Tag><Key>t</Key><Value>1</Value></Tag></TagSet></Tagging>".utf8)
        func set(_ key: String) async throws -> [String] {
            [
                try await bench.send("PUT", "/bucket-1/a/\(key)?tagging", once, content: tags).outcome,
                try await bench.send("DELETE", "/bucket-1/a/\(key)?tagging", once).outcome,
            ]
        }
        let refused = ["403 AccessDenied", "403 AccessDenied"]
        #expect(try await set("1") == refused)
        #expect(try await bench.send("PUT", "/bucket-1/a/2", once, content: [1]).outcome == "200")
        #expect(try await set("2") == ["200", "204"])
        #expect(try await set("1") == refused)
        // What replaced it was uploaded by others.
        #expect(try await bench.send("PUT", "/bucket-1/a/2", content: [1]).outcome == "200")
        #expect(try await set("2") == refused)
        #expect(try await set("3") == ["404 NoSuchKey", "404 NoSuchKey"])
    }
}
