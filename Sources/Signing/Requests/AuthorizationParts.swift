/// The `Authorization` header of schemes modelled on AWS Signature Version 4: the algorithm, a space, and `name=value`
/// in any order, separated by commas with or without white space.
struct AuthorizationParts {
    private let values: [String: String]

    /// - Throws: `.unsupportedAlgorithm`, `.malformed`, `.duplicate`.
    init(_ authorization: String, algorithm: String) throws(RequestSignatureFailure) {
        let text = authorization.utf8
        let end = text.firstIndex(of: UInt8(ascii: " ")) ?? text.endIndex
        guard text[..<end].elementsEqual(algorithm.utf8) else { throw .unsupportedAlgorithm }
        var values: [String: String] = [:]
        for part in text[end...].split(separator: UInt8(ascii: ",")) {
            let part = SigningText.trimmed(Substring(part)).utf8
            guard let equals = part.firstIndex(of: UInt8(ascii: "=")) else { throw .malformed("Authorization") }
            let name = String(Substring(part[..<equals]))
            guard values[name] == nil else { throw .duplicate(name) }
            values[name] = String(Substring(part[part.index(after: equals)...]))
        }
        self.values = values
    }

    /// - Throws: `.malformed` if there is any other name.
    func allow(_ names: Set<String>) throws(RequestSignatureFailure) {
        guard names.isSuperset(of: values.keys) else { throw .malformed("Authorization") }
    }

    subscript(name: String) -> String? { values[name] }

    func value(_ name: String) throws(RequestSignatureFailure) -> String {
        guard let value = values[name] else { throw .missingParameter(name) }
        return value
    }

    /// Parses names in lower case, ordered and without duplicates; otherwise the canonical request would differ from
    /// the signer's.
    static func names(_ list: String, _ part: String) throws(RequestSignatureFailure) -> [String] {
        let names = list.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)
        for (index, name) in names.enumerated() {
            guard !name.isEmpty, !name.contains(where: { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }),
                index == 0 || names[index - 1].lexicographicallyPrecedes(name)
            else { throw .malformed(part) }
        }
        return names.map { String(Substring($0)) }
    }

    /// The access key, which can contain `/`, and the `count` parts of the scope after it.
    static func credential(
        _ text: String,
        count: Int
    ) throws(RequestSignatureFailure) -> (accessKeyID: String, scope: [String]) {
        let parts = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map {
            String(Substring($0))
        }
        guard parts.count > count else { throw .malformed("Credential") }
        let accessKeyID = parts.dropLast(count).joined(separator: "/")
        guard !accessKeyID.isEmpty else { throw .malformed("Credential") }
        return (accessKeyID, Array(parts.suffix(count)))
    }

    /// A signature of `count` bytes in lower-case hexadecimal.
    static func signature(_ text: String, count: Int) throws(RequestSignatureFailure) -> String {
        guard SigningText.isHexadecimal(text, count: count) else { throw .malformed("Signature") }
        return text
    }
}
