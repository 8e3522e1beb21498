internal import Bytes

/// Headers by lower-case name.
struct RequestHeaders {
    private let fields: [String: [String]]
    /// In byte order, so that the first of several problems is always the same.
    let names: [String]

    init(_ headers: [SigningField]) {
        fields = Dictionary(grouping: headers) { SigningText.lowercased($0.name) }.mapValues { $0.map(\.value) }
        names = fields.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    func contains(_ name: String) -> Bool { fields[name] != nil }

    /// The values of a header, in order.
    func values(_ name: String) -> [String] { fields[name] ?? [] }

    /// The trimmed value of a header that must not be repeated.
    func single(_ name: String) throws(RequestSignatureFailure) -> String? {
        guard let values = fields[name] else { return nil }
        guard values.count == 1 else { throw .duplicate(name) }
        return SigningText.trimmed(values[0])
    }

    /// The value of a header that must be present exactly once.
    func required(_ name: String) throws(RequestSignatureFailure) -> String {
        guard let value = try single(name), !value.isEmpty else { throw .missingHeader(name) }
        return value
    }
}

extension [SigningField] {
    /// The value of a parameter that must not be repeated.
    func optional(_ name: String) throws(RequestSignatureFailure) -> String? {
        let values = filter { $0.name.isExactly(name) }
        guard values.count <= 1 else { throw .duplicate(name) }
        return values.first?.value
    }

    /// For schemes that sort parameters by name only: the signature does not determine the order of repeated ones.
    func checkNoneIsRepeated() throws(RequestSignatureFailure) {
        var names: Set<String> = []
        for field in self where !names.insert(field.name).inserted { throw .duplicate(field.name) }
    }

    /// The value of a parameter that must be present exactly once.
    func single(_ name: String) throws(RequestSignatureFailure) -> String {
        guard let value = try optional(name) else { throw .missingParameter(name) }
        return value
    }
}
