internal import Foundation
internal import Testing

/// Runs each input of the corpus through its target, as `fuzz/run` does before it makes new inputs.
@Suite("The inputs of the fuzzing corpus", .timeLimit(.minutes(10)))
struct CorpusTests {
    static let targets: [String: @Sendable ([UInt8]) -> Void] = [
        "head": fuzzHead,
        "chunked": fuzzChunked,
        "stream": fuzzStream,
        "target": fuzzTarget,
        "query": fuzzQuery,
        "fields": fuzzFields,
        "multipart": fuzzMultipart,
        "sigv4": fuzzSigv4,
        "oss": fuzzOss,
        "cos": fuzzCos,
        "tc3": fuzzTc3,
        "acs": fuzzAcs,
        "jwt": fuzzJwt,
        "json": fuzzJson,
        "xml": fuzzXml,
        "policy": fuzzPolicy,
    ]

    static let corpus = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "corpus")

    @Test("every input keeps the properties of its target", arguments: targets.keys.sorted())
    func replay(_ name: String) throws {
        let target = try #require(Self.targets[name])
        let inputs = try FileManager.default.contentsOfDirectory(
            at: Self.corpus.appending(path: name),
            includingPropertiesForKeys: nil
        )
        #expect(!inputs.isEmpty)
        for input in inputs { target(Array(try Data(contentsOf: input))) }
    }

    @Test("every folder of the corpus has a target")
    func folders() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.corpus.path())
        #expect(Set(folders) == Set(Self.targets.keys))
    }
}
