import Bytes
import Foundation
import Testing

/// A block of a file in Tests/Fixtures/tencent: `name = value` lines, ended by an empty one.
struct TencentVector: Sendable, CustomTestStringConvertible {
    let name: String
    let secretKey: String
    let original: String
    /// 20 bytes.
    let code: [UInt8]
    /// As published, or made of `code` and `original` if only the code is published.
    let signature: String

    var testDescription: String { name }

    static let all = ["vod-ugc-upload-guide", "cos-v4-sdk", "four-implementations"].flatMap(read)

    static func named(_ name: String) throws -> TencentVector {
        try #require(all.first { $0.name == name })
    }

    private static func read(_ file: String) -> [TencentVector] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let url = folder.appending(path: "Fixtures/tencent/\(file).txt")
        guard let text = try? String(contentsOf: url, encoding: .utf8) else {
            Issue.record("\(url.path()) cannot be read")
            return []
        }
        return text.split(separator: "\n\n").compactMap { block in
            var values: [String: String] = [:]
            for line in block.split(separator: "\n") where !line.hasPrefix("#") {
                guard let equals = line.range(of: " = ") else { continue }
                values[String(line[..<equals.lowerBound])] = String(line[equals.upperBound...])
            }
            guard let key = values["secretKey"], let original = values["original"] else { return nil }
            let published = values["signature"].flatMap { Base64.decode($0) }?.prefix(20)
            guard let code = values["code"].flatMap({ Hexadecimal.decode($0) }) ?? published.map(Array.init) else {
                return nil
            }
            return TencentVector(
                name: values["name"] ?? file,
                secretKey: key,
                original: original,
                code: code,
                signature: values["signature"] ?? Base64.encode(code + Array(original.utf8))
            )
        }
    }
}
