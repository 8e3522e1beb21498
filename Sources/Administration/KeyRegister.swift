package import Foundation
package import GatewayKit
package import ObjectGateway
internal import RESTKit
package import SettingsKit
internal import Stores
internal import Telemetry
internal import UploadCore
package import UploadModel

/// The API keys of a gateway, for commands with or without a running gateway.
package struct KeyRegister: Sendable {
    private let settings: Settings
    private let opened: GatewayState
    private let audit: AuditLog
    private let sink: LogSink
    private var state: any KeyRecords & RevocationRecords { opened.store }

    /// Opens the state; running gateways may be using it.
    ///
    /// - Throws: `StartFailure`.
    package init(_ settings: Settings) async throws(StartFailure) {
        self.settings = settings
        opened = try await GatewayState.open(settings)
        let logging = settings.log.makeLogger()
        audit = AuditLog(logging.logger)
        sink = logging.sink
    }

    package func close() {
        opened.close()
        sink.flush(within: .seconds(2))
    }

    /// Creates a key.
    ///
    /// - Parameters:
    ///   - name: What the key is for.
    ///   - scopes: What it may be used for.
    ///   - lifetime: In seconds; `nil` for no expiry.
    ///   - limits: Limits of the key; must not have a `problem`.
    /// - Returns: The secret, which is not stored, and the key's record.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func create(
        name: String,
        scopes: Set<Scope>,
        lifetime: TimeInterval?,
        limits: KeyLimits = KeyLimits()
    ) async throws(UploadError) -> (secret: String, key: APIKey) {
        let now = Date()
        var made = APIKeySecret.generate(
            name: name,
            scopes: scopes,
            expiresAt: lifetime.map(now.addingTimeInterval),
            at: now
        )
        made.key.limits = limits
        try await state.insert(made.key)
        record(.createKey, made.key.id)
        return made
    }

    /// All keys, oldest first, each as a JSON object on a line, as in the REST API.
    package func lines() async throws(UploadError) -> String {
        let now = Date()
        let objects = try await sorted().map { JSONResponse.encode(KeyView($0, at: now)) }
        return String(decoding: objects.joined().dropLast(), as: UTF8.self)
    }

    private func sorted() async throws(UploadError) -> [APIKey] {
        try await state.keys().sorted { $0.createdAt < $1.createdAt }
    }

    /// All keys as a table, oldest first.
    package func table() async throws(UploadError) -> String {
        let now = Date()
        let rows = try await sorted().map { key in
            [
                key.id, key.name, key.scopes.map(\.rawValue).sorted().joined(separator: ","),
                key.status(at: now).rawValue,
                JSONResponse.timestamp(key.createdAt), key.expiresAt.map(JSONResponse.timestamp) ?? "never",
                key.lastUsedAt.map(JSONResponse.timestamp) ?? "never",
                Self.text(of: key.limits),
            ]
        }
        return TextTable.text([["ID", "NAME", "SCOPES", "STATUS", "CREATED", "EXPIRES", "LAST USED", "LIMITS"]] + rows)
    }

    private static func text(of limits: KeyLimits) -> String {
        let lists = [("subject", limits.subjects), ("bucket", limits.buckets), ("prefix", limits.prefixes)]
        let text = lists.flatMap { name, values in values.map { "\(name)=\($0)" } }.joined(separator: " ")
        return text.isEmpty ? "none" : text
    }

    /// The key pair of a key for S3 clients, always the same.
    ///
    /// - Parameter id: Id of the key.
    /// - Returns: `nil` if there is no such key.
    /// - Throws: `StartFailure` without master secret; `UploadError`.
    package func pair(_ id: String) async throws -> ObjectKeyPair? {
        let master = try settings.master()
        return try await state.key(id: id).map { ObjectKeyPair($0, master: master) }
    }

    /// Revokes everything minted before a time.
    ///
    /// - Parameters:
    ///   - subject: The app user; `nil` revokes for all. See `SubjectText`.
    ///   - date: Not in the future; `nil` means now.
    /// - Throws: `.storageFull`, `.storageFailure`.
    package func revokeIssued(to subject: String?, before date: Date?) async throws(UploadError) {
        let now = Date()
        // Includes what was minted in this very millisecond.
        let revocation = Revocation(
            subject: subject,
            issuedBefore: date ?? now.addingTimeInterval(0.001),
            createdAt: now
        )
        try await state.insert(revocation)
        record(
            .revoke,
            nil,
            ["subject": subject, "issuedBefore": JSONResponse.timestamp(revocation.issuedBefore)]
        )
    }

    /// - Returns: `false` if there is no such key, or it was revoked before.
    package func revoke(_ id: String) async throws(UploadError) -> Bool {
        guard try await state.revokeKey(id, at: Date()) else { return false }
        record(.revokeKey, id)
        return true
    }

    /// Gives a key another secret.
    ///
    /// - Parameters:
    ///   - id: The key.
    ///   - overlap: Seconds that the present secret stays valid; 0 ends it at once.
    /// - Returns: The new secret, which is not stored.
    /// - Throws: `.notFound`; `.invalidRequest` if the key is revoked, expired or preset; errors of the state.
    package func rotate(_ id: String, overlap: TimeInterval) async throws(UploadError) -> String {
        let now = Date()
        let secret = APIKeySecret.generate()
        let end = overlap > 0 ? now.addingTimeInterval(overlap) : nil
        let digest = APIKeySecret.digest(of: secret)
        guard try await state.rotateKey(id, to: digest, overlapEnd: end, at: now) != nil else {
            guard let key = try await state.key(id: id) else {
                throw UploadError(.notFound, "\(id): there is no such key; see `sluice keys list`")
            }
            throw UploadError(.invalidRequest, "\(id) \(key.whyNotRotated)")
        }
        record(.rotateKey, id, ["previousSecretUntil": end.map(JSONResponse.timestamp)])
        return secret
    }

    private func record(_ action: AuditLog.Action, _ key: String?, _ fields: [String: String?] = [:]) {
        audit.record(action, key: key, by: AuditLog.commandLine, client: nil, fields)
    }
}
