import Foundation
import Signing
import Testing

@testable import ObjectStore

/// A call of a token service as an SDK sends it, from Tests/Fixtures/requests/tokens.json; see make.py there.
///
/// Each is for 900 seconds, and narrowed to putting objects of `bucket-1250000000` whose keys begin with `a b/`.
struct TokenVector: Sendable, Decodable, CustomTestStringConvertible {
    let source: String
    /// Name of the vendor's store.
    let store: String
    let id: String
    let secret: String
    /// Unix seconds.
    let time: Int64
    let method: String
    let target: String
    let headers: [[String]]
    let body: String

    enum CodingKeys: String, CodingKey {
        case source, id, secret, time, method, target, headers, body
        case store = "vendor"
    }

    var vendor: Vendor { Vendor(storeName: store) ?? .aws }

    var testDescription: String { "\(source) \(method) \(target.prefix(20)) \(body.prefix(20))" }

    static let all: [TokenVector] = {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let url = folder.appending(path: "Fixtures/requests/tokens.json")
        do {
            return try JSONDecoder().decode([TokenVector].self, from: try Data(contentsOf: url))
        } catch {
            Issue.record("\(url.path()) cannot be read: \(error)")
            return []
        }
    }()

    var message: TokenMessage {
        TokenMessage(method: method, target: target, fields: headers.map { ($0[0], $0[1]) }, content: body)
    }
}
