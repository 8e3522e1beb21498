/// Headers by their names in lower case.
struct RequestHeaders {
    private let fields: [String: [String]]
    /// In the order of their bytes, so that of several wrong ones always the same is reported.
    let names: [String]

    init(_ headers: [SigningField]) {
        fields = Dictionary(grouping: headers) { SigningText.lowercased($0.name) }.mapValues { $0.map(\.value) }
        names = fields.keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }

    func contains(_ name: String) -> Bool { fields[name] != nil }

    /// The values of a header, in the order in which they came.
    func values(_ name: String) -> [String] { fields[name] ?? [] }

    /// The value of a header that may stand once only, without white space around it.
    func single(_ name: String) throws(RequestSignatureFailure) -> String? {
        guard let values = fields[name] else { return nil }
        guard values.count == 1 else { throw .duplicate(name) }
        return SigningText.trimmed(values[0])
    }

    /// The value of a header that must stand once.
    func required(_ name: String) throws(RequestSignatureFailure) -> String {
        guard let value = try single(name), !value.isEmpty else { throw .missingHeader(name) }
        return value
    }
}

extension [SigningField] {
    /// The value of a parameter that may stand once only.
    func optional(_ name: String) throws(RequestSignatureFailure) -> String? {
        let values = filter { $0.name == name }
        guard values.count <= 1 else { throw .duplicate(name) }
        return values.first?.value
    }

    /// For schemes that sort the parameters by their names, so that of a repeated one the signature does not tell the first.
    func checkNoneIsRepeated() throws(RequestSignatureFailure) {
        var names: Set<String> = []
        for field in self where !names.insert(field.name).inserted { throw .duplicate(field.name) }
    }

    /// The value of a parameter that must stand once.
    func single(_ name: String) throws(RequestSignatureFailure) -> String {
        guard let value = try optional(name) else { throw .missingParameter(name) }
        return value
    }
}
