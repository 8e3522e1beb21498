import Bytes
import Foundation
import SluiceTesting
import Testing

@testable import UploadCore
@testable import UploadModel

@Suite("The app's metadata of objects", .timeLimit(.minutes(10)))
struct ObjectMetadataTests {
    private let bench = ServiceBench()

    /// An object whose client sends these fields, as the object endpoint passes them.
    private func new(_ headers: [String: String], takesParts: Bool = false) -> NewUpload {
        var values: [String: String] = [:]
        for (name, value) in headers where name.hasPrefix(ObjectAttributes.userPrefix) {
            values[String(name.dropFirst(ObjectAttributes.userPrefix.count))] = value
        }
        var new = NewUpload(
            dialect: "s3",
            length: takesParts ? nil : 1,
            metadata: UploadMetadata(values: values),
            completesWhenFull: false
        )
        new.object = NewObject(
            ServiceBench.name,
            attributes: ObjectAttributes(headers: headers),
            takesParts: takesParts
        )
        return new
    }

    @Test(
        "a field of the client says nothing else than the metadata of its credential",
        arguments: [
            (
                ["order": "real"], ["x-amz-meta-order": "evil", "x-amz-meta-a": "b"],
                ["x-amz-meta-order": "real", "x-amz-meta-a": "b"]
            ),
            // Names of fields have no case.
            (["orderKey": "real"], ["x-amz-meta-orderkey": "evil"], ["x-amz-meta-orderkey": "real"]),
            // What the client did not send is not shown.
            (["order": "real"], ["cache-control": "no-store"], ["cache-control": "no-store"]),
            // A value of several lines cannot be a field.
            (["order": "a\nb"], ["x-amz-meta-order": "evil"], [:]),
            (
                ["filename": "real"], ["x-amz-meta-name": "evil", "x-amz-meta-filename": "evil"],
                ["x-amz-meta-filename": "real"]
            ),
            (["filetype": "a/b"], ["x-amz-meta-type": "evil"], [:]),
            (["name": "real"], ["content-disposition": "attachment; FileName=evil"], [:]),
            (["name": "real"], ["content-disposition": "inline"], ["content-disposition": "inline"]),
            (
                ["order": "real"], ["content-disposition": "inline; filename=a"],
                ["content-disposition": "inline; filename=a"]
            ),
        ] as [([String: String], [String: String], [String: String])]
    )
    func credential(metadata: [String: String], sent: [String: String], kept: [String: String]) async throws {
        _ = try await bench.services.objects.createBucket(ServiceBench.name.bucket)
        for takesParts in [false, true] {
            let upload = try await bench.services.uploads.create(
                new(sent, takesParts: takesParts),
                under: bench.grant(metadata: metadata)
            )
            #expect(upload.attributes?.headers == kept)
            #expect(metadata.allSatisfy { upload.metadata.values[$0] == $1 })
            // Nor does it stand beside it in the upload's metadata.
            #expect(!upload.metadata.values.values.contains("evil"))
        }
    }

    @Test("what a hook replaces all metadata by, fields of the client do not contradict")
    func hook() {
        var attributes = ObjectAttributes(
            headers: ["x-amz-meta-a": "1", "x-amz-meta-b": "2", "cache-control": "no-store"]
        )
        attributes.replaceMetadata(by: ["B": "3", "c": "4"])
        #expect(attributes.headers == ["x-amz-meta-b": "3", "cache-control": "no-store"])
    }
}
