internal import Bytes
internal import Foundation
internal import Digests
internal import Logging
internal import Signing

/// Answers the requests by which a certificate authority validates names.
protocol ChallengeResponder: Sendable {
    /// Of its challenges (RFC 8555 §8).
    var type: String { get }

    /// Answers from now on.
    ///
    /// - Parameters:
    ///   - name: To be validated.
    ///   - token: Of the challenge.
    ///   - authorization: The key authorization (RFC 8555 §8.1).
    /// - Throws: `.storage` if it cannot.
    func begin(_ name: String, token: String, authorization: String) throws(ACMEFailure)
    func end(_ name: String, token: String)
}

/// One order of a certificate, from the account to the chain (RFC 8555 §7).
struct CertificateOrder: Sendable {
    let client: ACMEClient
    /// ASCII, in lower case; not empty.
    let names: [String]
    let email: String?
    /// Name and secret of the external account binding.
    let binding: (keyID: String, secret: [UInt8])?
    let responder: any ChallengeResponder
    let logger: Logger
    /// Waits; throws if the task is cancelled.
    let pause: @Sendable (Duration) async throws -> Void

    /// Seconds for each authorization, and for the order.
    private static let patience = 300.0
    private static let maximumPause = 30.0

    /// - Returns: The key of the certificate, and the chain in PEM, which begins with the certificate.
    func certificate() async throws(ACMEFailure) -> (key: P256Key, chain: String) {
        let directory = try await client.directory()
        let terms = directory.termsOfService.map { $0.first(scalars: 500) } ?? "none"
        logger.info(
            "a certificate is ordered",
            metadata: ["domains": "\(names.joined(separator: ", "))", "termsOfService": "\(terms)"]
        )
        try await signIn(directory)
        let identifiers = JSONValue.array(
            names.map { .object(JSONMembers(["type": .string("dns"), "value": .string($0)])) }
        )
        let made = try await client.post(Self.json(["identifiers": identifiers]), to: directory.newOrder, directory)
        guard let url = made.location else { throw .unexpected("an order has no URL") }
        for authorization in try made.members().texts("authorizations") {
            try await validate(authorization, directory)
        }
        var order = try await poll(url, directory, "the order", until: "ready")
        let key = P256Key()
        let request = Base64.encodeURLSafe(CertificateRequest.encoded(for: names, key: key))
        _ = try await client.post(
            Self.json(["csr": .string(request)]),
            to: try ACMEClient.url("finalize", in: order),
            directory
        )
        order = try await poll(url, directory, "the certificate", until: "valid")
        let chain = try await client.post(
            [],
            to: try ACMEClient.url("certificate", in: order),
            directory,
            accepting: "application/pem-certificate-chain"
        )
        // Only certificates: whatever else is in the file (RFC 8555 §11.4).
        let certificates = PEM.blocks(in: String(decoding: chain.body, as: UTF8.self)).filter {
            $0.label == "CERTIFICATE"
        }
        guard !certificates.isEmpty else { throw .unexpected("there is no certificate in the chain") }
        return (key, certificates.map { PEM.text($0.label, $0.content) }.joined())
    }

    private func signIn(_ directory: ACMEClient.Directory) async throws(ACMEFailure) {
        var account: [String: JSONValue] = ["termsOfServiceAgreed": .bool(true)]
        if let email { account["contact"] = .array([.string("mailto:" + email)]) }
        if let binding {
            let json = JSONWebSignature.binding(
                of: client.key,
                keyID: binding.keyID,
                secret: binding.secret,
                to: directory.newAccount
            )
            account["externalAccountBinding"] = JSONValue(json: json)
        } else if directory.wantsBinding {
            logger.warning(
                "the certificate authority wants an account that it knows: set acme.eabKeyId and acme.eabKey"
            )
        }
        try await client.signIn(directory, Self.json(account))
    }

    /// Has the authority validate one name.
    private func validate(_ url: String, _ directory: ACMEClient.Directory) async throws(ACMEFailure) {
        let authorization = try await client.post([], to: url, directory).members()
        guard let name = authorization["identifier"]?.members?.text("value"), names.contains(name) else {
            throw .unexpected("an authorization is for another name")
        }
        switch authorization.text("status") {
        case "valid": return
        case "pending": break
        default: throw Self.invalid(name, authorization)
        }
        guard let challenge = Self.challenges(of: authorization).first(where: { $0.text("type") == responder.type })
        else {
            throw .unexpected("it does not validate \(name) by \(responder.type): set acme.challenge")
        }
        guard let token = challenge.text("token"), ACMEClient.isToken(token) else {
            throw .unexpected("a challenge has no token")
        }
        let thumbprint = JSONWebSignature.thumbprint(of: client.key)
        try responder.begin(name, token: token, authorization: "\(token).\(thumbprint)")
        defer { responder.end(name, token: token) }
        _ = try await client.post(Array("{}".utf8), to: try ACMEClient.url("url", in: challenge), directory)
        _ = try await poll(url, directory, name, until: "valid")
    }

    /// Asks for a resource until it has this status (RFC 8555 §7.5.1).
    ///
    /// - Throws: `.invalid` for a status that is final; `.late`.
    private func poll(
        _ url: String,
        _ directory: ACMEClient.Directory,
        _ what: String,
        until wanted: String
    ) async throws(ACMEFailure) -> JSONMembers {
        var waited = 0.0
        var next = 0.25
        while true {
            let answer = try await client.post([], to: url, directory)
            let members = try answer.members()
            let status = members.text("status") ?? ""
            if status == wanted { return members }
            guard ["pending", "processing", "ready"].contains(status) else {
                throw Self.invalid(members["identifier"]?.members?.text("value"), members)
            }
            guard waited < Self.patience else { throw .late(what) }
            let seconds = min(max(answer.retryAfter ?? next, 0.25), Self.maximumPause)
            do { try await pause(.milliseconds(Int64(seconds * 1000))) } catch { throw .cancelled }
            waited += seconds
            next = min(next * 2, 5)
        }
    }

    private static func invalid(_ name: String?, _ members: JSONMembers) -> ACMEFailure {
        let errors = [members["error"]] + challenges(of: members).map { $0["error"] }
        return .invalid(name: name, errors.compactMap { $0?.members }.first.map { ACMEProblem($0) })
    }

    private static func challenges(of authorization: JSONMembers) -> [JSONMembers] {
        guard case .array(let challenges)? = authorization["challenges"] else { return [] }
        return challenges.compactMap(\.members)
    }

    private static func json(_ members: [String: JSONValue]) -> [UInt8] {
        // Texts, flags and lists always encode.
        (try? Array(JSONEncoder().encode(members))) ?? []
    }
}
