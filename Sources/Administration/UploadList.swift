internal import Bytes
internal import Foundation
internal import GatewayKit
internal import HTTPClient
package import SettingsKit
internal import Telemetry

/// An upload, as the REST API lists it.
package struct ListedUpload: Decodable, Sendable {
    package var id: String
    package var dialect: String
    package var state: String
    package var offset: Int64
    package var length: Int64?
    package var subject: String?
    package var issuer: String?
    package var filename: String?
    package var createdAt: String
    package var updatedAt: String

    package init(id: String, dialect: String, state: String, offset: Int64, createdAt: String, updatedAt: String) {
        (self.id, self.dialect, self.state, self.offset) = (id, dialect, state, offset)
        (self.createdAt, self.updatedAt) = (createdAt, updatedAt)
    }
}

/// Asks a gateway for its uploads, as any client of its REST API does.
package struct UploadList: Sendable {
    /// What the operator should know.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private struct Page: Decodable {
        var uploads: [ListedUpload]
        var nextCursor: String?
    }

    private struct Refusal: Decodable {
        var detail: String
    }

    private let base: String
    private let key: String
    private let client: HTTPClient

    /// - Parameters:
    ///   - settings: Of a gateway on this machine; not used with a URL, except for the key.
    ///   - url: Of the gateway; `nil` finds one on this machine by its settings.
    ///   - key: An API key with the scope `read`; `nil` uses `adminKey` of the settings.
    /// - Throws: `Failure` without a key.
    package init(_ settings: Settings, url: String?, key: String?) throws(Failure) {
        guard let key = key ?? settings.general.adminKey?.exposed else {
            throw Failure(description: "an API key with the scope read is needed: set SLUICE_API_KEY")
        }
        self.key = key
        let path = settings.general.gateway.basePath.map { "\($0)" } ?? ""
        base = url.map { $0.hasSuffix("/") ? String($0.dropLast()) : $0 } ?? HealthCheck.url(of: settings, path: path)
        client = HTTPClient(
            userAgent: "sluice-uploads/\(Version.current)",
            maximumTransfers: 1,
            addresses: .any,
            // The certificate of a gateway on this machine is for the name by which clients reach it.
            verifiesCertificates: url != nil,
            server: url == nil ? HealthCheck.server(of: settings) : nil
        )
    }

    package func close() { client.close() }

    /// Uploads, the newest first.
    ///
    /// - Parameters:
    ///   - filters: Parameters of `GET /v1/uploads`.
    ///   - limit: Most uploads.
    /// - Returns: Them, and the JSON of each.
    /// - Throws: `Failure`.
    package func uploads(_ filters: [(name: String, value: String)], limit: Int) async throws(Failure)
        -> [(upload: ListedUpload, json: String)]
    {
        var found: [(upload: ListedUpload, json: String)] = []
        var cursor: String?
        repeat {
            var query = filters + [("limit", String(min(limit - found.count, Self.pageSize)))]
            if let cursor { query.append(("cursor", cursor)) }
            let body = try await get(query)
            guard let page = try? JSONDecoder().decode(Page.self, from: Data(body)), let lines = Self.objects(in: body),
                lines.count == page.uploads.count
            else { throw Failure(description: "\(base) is not a gateway: its list of uploads cannot be read") }
            for (upload, json) in zip(page.uploads, lines) { found.append((upload: upload, json: json)) }
            cursor = page.nextCursor
        } while cursor != nil && found.count < limit
        return found
    }

    private static let pageSize = 100

    private static func objects(in body: [UInt8]) -> [String]? {
        guard let page = try? JSONSerialization.jsonObject(with: Data(body)) as? [String: Any],
            let uploads = page["uploads"] as? [Any]
        else { return nil }
        return uploads.compactMap { upload in
            let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
            return (try? JSONSerialization.data(withJSONObject: upload, options: options))
                .map { String(decoding: $0, as: UTF8.self) }
        }
    }

    private func get(_ query: [(name: String, value: String)]) async throws(Failure) -> [UInt8] {
        var parts = URLComponents()
        parts.queryItems = query.map { URLQueryItem(name: $0.name, value: $0.value) }
        // A plus is a space for some.
        let text = (parts.percentEncodedQuery ?? "").replacing("+", with: "%2B")
        let url = "\(base)/v1/uploads?\(text)"
        let request = HTTPClientRequest(
            url: url,
            headers: [("Authorization", "Bearer \(key)")],
            maximumResponseBytes: 16 << 20
        )
        let response: HTTPClientResponse
        do throws(HTTPClientError) {
            response = try await client.send(request, within: .seconds(30))
        } catch {
            throw Failure(description: "\(base): \(error.message)")
        }
        guard response.status != 200 else { return response.body }
        let detail = TerminalText.escaped(
            (try? JSONDecoder().decode(Refusal.self, from: Data(response.body)))?.detail ?? "no reason"
        )
        throw Failure(description: "\(base) responded with status \(response.status): \(detail)")
    }
}

/// Uploads seen several times: how fast each is.
package struct UploadProgress: Sendable {
    private struct Seen {
        var offset: Int64
        var at: ContinuousClock.Instant
        /// When its bytes last grew.
        var moved: ContinuousClock.Instant
    }

    package struct Row: Sendable {
        package let upload: ListedUpload
        /// Bytes per second since the look before; `nil` at the first one.
        package let rate: Int64?
        /// How long no byte has come, as far as was seen.
        package let idle: Duration
    }

    private var seen: [String: Seen] = [:]

    package init() {}

    /// - Parameters:
    ///   - uploads: All that are looked at.
    ///   - now: When they were listed.
    /// - Returns: The fastest first, then those that were idle for the longest time.
    package mutating func look(at uploads: [ListedUpload], _ now: ContinuousClock.Instant) -> [Row] {
        var next: [String: Seen] = [:]
        let rows = uploads.map { upload in
            guard let last = seen[upload.id], now > last.at else {
                next[upload.id] = Seen(offset: upload.offset, at: now, moved: now)
                return Row(upload: upload, rate: nil, idle: .zero)
            }
            // An offset can fall: what was not durable is sent again.
            let grown = max(0, upload.offset - last.offset)
            let moved = grown > 0 ? now : last.moved
            next[upload.id] = Seen(offset: upload.offset, at: now, moved: moved)
            let rate = Int64(clamping: Int((Double(grown) / ((now - last.at) / .seconds(1))).rounded()))
            return Row(upload: upload, rate: rate, idle: now - moved)
        }
        seen = next
        return rows.sorted { ($0.rate ?? 0, $0.idle) > ($1.rate ?? 0, $1.idle) }
    }
}
