import Foundation
import HTTPWire
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectStore

@Suite("Lifecycle rules are applied", .timeLimit(.minutes(10)))
struct BucketLifecycleTests {
    private static let day: TimeInterval = 86_400

    private static func rule(_ filter: String, _ actions: String, status: String = "Enabled") -> String {
        "<Rule><Filter>\(filter)</Filter><Status>\(status)</Status>\(actions)</Rule>"
    }

    private static let expiration = "<Expiration><Days>2</Days></Expiration>"
    private static let abort =
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>"

    /// At 2026-01-02T12:00:00Z.
    private static func bench() async throws -> ObjectBench {
        // Uploads do not expire by themselves.
        let bench = try await ObjectBench(limits: UploadLimits(maximumBytes: 100 << 20, lifetime: nil))
        bench.clock.set(to: Date(timeIntervalSince1970: 1_767_312_000 + day / 2))
        return bench
    }

    private static func sweep(_ bench: ObjectBench) -> BucketLifecycleSweep {
        BucketLifecycleSweep(
            objects: bench.services.objects,
            parts: bench.services.parts,
            uploads: bench.services.uploads,
            clock: bench.clock
        ) { bucket, error in Issue.record("\(bucket): \(error)") }
    }

    private static func set(_ rules: String, _ bench: ObjectBench) async throws {
        let document = "<LifecycleConfiguration>\(rules)</LifecycleConfiguration>"
        let response = try await bench.send("PUT", "/bucket-1?lifecycle", content: Array(document.utf8))
        #expect(response.outcome == "200")
    }

    private static func keys(_ bench: ObjectBench) async throws -> [String] {
        try await bench.services.objects.objects(ObjectQuery(bucket: "bucket-1", limit: 1000)).map(\.key)
    }

    @Test("objects of the right prefix, tags and size are removed when they are old enough")
    func expiration() async throws {
        let bench = try await Self.bench()
        func put(_ key: String, size: Int, tags: String = "") async throws {
            let content = [UInt8](repeating: 1, count: size)
            let fields: HTTPFields = tags.isEmpty ? [:] : ["x-amz-tagging": tags]
            let put = try await bench.send(
                "PUT",
                "/bucket-1/\(key)",
                ObjectBench.administrator,
                fields,
                content: content
            )
            #expect(put.outcome == "200")
        }
        try await put("tmp/a", size: 3)
        try await put("tmpb", size: 3)
        try await put("tagged/a", size: 3, tags: "keep=no&x=1")
        try await put("tagged/b", size: 3, tags: "keep=yes")
        try await put("sized/4", size: 4)
        try await put("sized/5", size: 5)
        try await put("sized/6", size: 6)
        try await put("off/a", size: 3)
        try await Self.set(
            Self.rule("<Prefix>tmp/</Prefix>", Self.expiration)
                + Self.rule(
                    "<And><Prefix>tagged/</Prefix><Tag><Key>keep</Key><Value>no</Value></Tag></And>",
                    Self.expiration
                )
                + Self.rule(
                    "<And><Prefix>sized/</Prefix><ObjectSizeGreaterThan>4</ObjectSizeGreaterThan>"
                        + "<ObjectSizeLessThan>6</ObjectSizeLessThan></And>",
                    Self.expiration
                ) + Self.rule("<Prefix>off/</Prefix>", Self.expiration, status: "Disabled"),
            bench
        )
        let all = try await Self.keys(bench)
        // Created at noon: due after two days, at the next midnight.
        bench.clock.advance(by: 2.5 * Self.day - 1)
        #expect(await Self.sweep(bench).run() == BucketLifecycleSweep.Report())
        #expect(try await Self.keys(bench) == all)
        try await put("tmp/new", size: 3)
        bench.clock.advance(by: 1)
        #expect(await Self.sweep(bench).run() == BucketLifecycleSweep.Report(objects: 3))
        #expect(try await Self.keys(bench) == ["off/a", "sized/4", "sized/6", "tagged/b", "tmp/new", "tmpb"])
        #expect(await Self.sweep(bench).run() == BucketLifecycleSweep.Report())
    }

    @Test("old multipart uploads are aborted, and their bytes removed")
    func abort() async throws {
        let bench = try await Self.bench()
        func begin(_ key: String) async throws -> String {
            let response = try await bench.send("POST", "/bucket-1/\(key)?uploads")
            return try #require(response.element("UploadId"))
        }
        let old = try await begin("a/old")
        let part = try await bench.send("PUT", "/bucket-1/a/old?partNumber=1&uploadId=\(old)", content: [1, 2, 3])
        #expect(part.outcome == "200")
        _ = try await begin("b/other")
        bench.clock.advance(by: Self.day)
        let new = try await begin("a/new")
        try await Self.set(Self.rule("<Prefix>a/</Prefix>", Self.abort), bench)
        bench.clock.advance(by: Self.day / 2)
        #expect(await Self.sweep(bench).run() == BucketLifecycleSweep.Report(uploads: 1))
        let left = try await bench.services.parts.partUploads(PartUploadQuery(bucket: "bucket-1", limit: 10))
        #expect(left.map(\.key) == ["a/new", "b/other"] && left.first?.id.text == new)
        let listed = try await bench.send("GET", "/bucket-1/a/old?uploadId=\(old)")
        #expect(listed.outcome == "404 NoSuchUpload")
    }

    @Test("more objects than a page has, and rules of an earlier version that are refused today")
    func pages() async throws {
        let bench = try await Self.bench()
        for number in 0..<1100 {
            let new = try await bench.send("PUT", "/bucket-1/n/\(number)", content: [1])
            #expect(new.outcome == "200")
        }
        let transition = "<Transition><Days>1</Days><StorageClass>IA</StorageClass></Transition>"
        let rules = Self.rule("<Prefix>n/</Prefix>", Self.expiration + transition)
        #expect(
            try await bench.services.objects.setDocument(
                "lifecycle",
                to: "<LifecycleConfiguration>\(rules)</LifecycleConfiguration>",
                ofBucket: "bucket-1"
            )
        )
        bench.clock.advance(by: 3 * Self.day)
        #expect(await Self.sweep(bench).run() == BucketLifecycleSweep.Report(objects: 1100))
        #expect(try await Self.keys(bench) == [])
    }
}
