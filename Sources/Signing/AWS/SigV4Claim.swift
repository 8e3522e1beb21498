/// What a request says about its signature; nobody has vouched for it.
///
/// It is what `SigV4Verifier.claim` found in order, all but the signature and the token, for which the secret is needed.
package struct SigV4Claim: Sendable {
    /// Whose secret is to be looked up.
    package let accessKeyID: String
    package let scope: SigV4Scope
    /// When it was signed, Unix seconds.
    package let date: Int64
    /// What it says of the content.
    package let payload: SigV4Payload
    /// Seconds from `date` in which a signature in a query is in force; `nil` for one in `Authorization`.
    package let lifetime: Int64?
    /// Names in lower case, in order.
    package let signedHeaders: [String]
    package let token: String?

    let timestamp: String
    let signature: String
    let request: SigV4Request
    /// The parameters of the query without the signature.
    let query: [SigV4Field]
}

/// The parts of a signature as they stand in `Authorization` or the query.
struct SigV4Parts {
    let isQuery: Bool
    let credential: String
    let signedHeaders: [String]
    let signature: String
    /// Of a query only, as they came.
    let date: String?
    let lifetime: String?
    let token: String?

    /// The scope and the access key that the credential is made of; the access key may hold `/`.
    func scope() throws(SigV4Failure) -> (accessKeyID: String, scope: SigV4Scope) {
        let slash = UInt8(ascii: "/")
        let parts = credential.utf8.split(separator: slash, omittingEmptySubsequences: false).map {
            String(Substring($0))
        }
        guard parts.count >= 5 else { throw .malformed("Credential") }
        let accessKeyID = parts.dropLast(4).joined(separator: "/")
        guard !accessKeyID.isEmpty else { throw .malformed("Credential") }
        guard parts[parts.count - 1] == SigV4Scope.terminator else { throw .wrongScope }
        let scope = SigV4Scope(
            day: parts[parts.count - 4],
            region: parts[parts.count - 3],
            service: parts[parts.count - 2]
        )
        return (accessKeyID, scope)
    }
}

extension SigV4Parts {
    /// Reads `Authorization`: the algorithm, and `Credential`, `SignedHeaders` and `Signature` in any order, separated by
    /// commas with or without white space.
    init(authorization: String) throws(SigV4Failure) {
        let text = authorization.utf8
        let end = text.firstIndex(of: UInt8(ascii: " ")) ?? text.endIndex
        guard text[..<end].elementsEqual(SigV4Signature.algorithm.utf8) else { throw .unsupportedAlgorithm }
        var values: [String: String] = [:]
        for part in text[end...].split(separator: UInt8(ascii: ",")) {
            let part = Self.trimmed(part)
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")) else { throw .malformed("Authorization") }
            let name = String(Substring(part[..<equals]))
            guard ["Credential", "SignedHeaders", "Signature"].contains(name) else { throw .malformed("Authorization") }
            guard values[name] == nil else { throw .duplicate(name) }
            values[name] = String(Substring(part[part.index(after: equals)...]))
        }
        func value(_ name: String) throws(SigV4Failure) -> String {
            guard let value = values[name] else { throw .missingParameter(name) }
            return value
        }
        isQuery = false
        credential = try value("Credential")
        signedHeaders = try Self.names(try value("SignedHeaders"))
        signature = try Self.signature(try value("Signature"))
        date = nil
        lifetime = nil
        token = nil
    }

    init(query: [SigV4Field]) throws(SigV4Failure) {
        func optional(_ name: String) throws(SigV4Failure) -> String? {
            let values = query.filter { $0.name == name }
            guard values.count <= 1 else { throw .duplicate(name) }
            return values.first?.value
        }
        func value(_ name: String) throws(SigV4Failure) -> String {
            guard let value = try optional(name) else { throw .missingParameter(name) }
            return value
        }
        guard try value("X-Amz-Algorithm") == SigV4Signature.algorithm else { throw .unsupportedAlgorithm }
        isQuery = true
        credential = try value("X-Amz-Credential")
        signedHeaders = try Self.names(try value("X-Amz-SignedHeaders"))
        signature = try Self.signature(try value("X-Amz-Signature"))
        date = try value("X-Amz-Date")
        lifetime = try value("X-Amz-Expires")
        token = try optional("X-Amz-Security-Token")
    }

    /// Whether there is anything of a signature in a query.
    static func areIn(_ query: [SigV4Field]) -> Bool {
        query.contains { ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"].contains($0.name) }
    }

    private static func trimmed(_ text: Substring.UTF8View) -> Substring.UTF8View {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
        var text = text.drop(while: isSpace)
        while let last = text.last, isSpace(last) { text.removeLast() }
        return text
    }

    /// Names in lower case, each once and in order; otherwise the canonical request would not be the signer's.
    private static func names(_ list: String) throws(SigV4Failure) -> [String] {
        let names = list.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
        for (index, name) in names.enumerated() {
            guard !name.isEmpty, !name.contains(where: { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }),
                index == 0 || names[index - 1].lexicographicallyPrecedes(name)
            else { throw .malformed("SignedHeaders") }
        }
        return names.map { String(Substring($0)) }
    }

    private static func signature(_ text: String) throws(SigV4Failure) -> String {
        guard SigV4Hash(text) != nil else { throw .malformed("Signature") }
        return text
    }
}
