internal import Bytes
internal import CloudCalls
internal import Foundation
internal import GatewayKit
internal import UploadModel

/// The parameters of a call: texts by name.
///
/// Names that an action does not know are ignored, as the vendor does: SDKs send some that are not documented.
struct ApsaraParameters: Sendable {
    private let values: ExactNames<String>

    /// - Throws: `InvalidParameter` if a name is repeated.
    init(_ parameters: [(name: String, value: String)]) throws(ApsaraError) {
        var values = ExactNames<String>()
        for (name, value) in parameters {
            guard values.updateValue(value, forKey: name) == nil else { throw .invalid(name, "must occur once") }
        }
        self.values = values
    }

    /// - Parameter parameters: Each name once.
    init(distinct parameters: [(name: String, value: String)]) {
        values = ExactNames(uniqueKeysWithValues: parameters.map { ($0.name, $0.value) })
    }

    /// All but the common ones, for another service.
    var forCloud: [(name: String, value: String)] {
        let common = AliyunCalls.commonParameters.union(["Action", "Version"])
        return values.sorted { $0.key < $1.key }.filter { !common.contains($0.key) }.map {
            (name: $0.key, value: $0.value)
        }
    }

    /// The value as sent; `nil` if it is missing or empty.
    subscript(_ name: String) -> String? { values[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// Whether the caller sent it, perhaps empty.
    func has(_ name: String) -> Bool { values[name] != nil }

    func required(_ name: String) throws(ApsaraError) -> String {
        guard let value = self[name] else { throw .missing(name) }
        return value
    }

    /// A text of limited length, in Unicode scalars.
    ///
    /// - Throws: `LengthExceededMax`, `IllegalCharacters`.
    func text(_ name: String, atMost limit: Int) throws(ApsaraError) -> String? {
        guard let text = self[name] else { return nil }
        guard text.hasScalars(atMost: limit) else { throw Self.tooLong(name, limit) }
        guard Self.isLegal(text) else { throw Self.illegal(name) }
        return text
    }

    static func tooLong(_ name: String, _ limit: Int) -> ApsaraError {
        ApsaraError(400, "LengthExceededMax", "`\(name)` must have at most \(limit) characters.")
    }

    static func illegal(_ name: String) -> ApsaraError {
        ApsaraError(400, "IllegalCharacters", "`\(name)` must have no control characters.")
    }

    static func isLegal(_ text: String) -> Bool {
        !text.unicodeScalars.contains { scalar in
            scalar.properties.generalCategory == .control && scalar != "\n" && scalar != "\r" && scalar != "\t"
                || scalar.properties.isNoncharacterCodePoint
        }
    }

    /// A whole number.
    func integer(_ name: String, in range: ClosedRange<Int64>) throws(ApsaraError) -> Int64? {
        guard let text = self[name] else { return nil }
        guard let number = Int64(text), range.contains(number), !text.hasPrefix("+") else {
            throw .invalid(name, "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A text out of some.
    func choice(_ name: String, of choices: [String]) throws(ApsaraError) -> String? {
        guard let text = self[name] else { return nil }
        guard choices.contains(text) else {
            throw .invalid(name, "must be \(choices.joined(separator: ", "))")
        }
        return text
    }

    /// Texts separated by commas.
    func list(_ name: String) -> [String] {
        (self[name] ?? "").split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
            .filter { !$0.isEmpty }
    }

    /// Tags separated by commas: at most 16 of 32 characters.
    ///
    /// - Throws: `TagsExceededMax`, `LengthExceededMax`, `IllegalCharacters`.
    func tags() throws(ApsaraError) -> [String]? {
        guard has("Tags") else { return nil }
        let tags = list("Tags")
        guard tags.count <= 16 else {
            throw ApsaraError(400, "TagsExceededMax", "`Tags` must be at most 16, separated by commas.")
        }
        for tag in tags {
            guard tag.hasScalars(atMost: 32) else { throw Self.tooLong("Tags", 32) }
            guard Self.isLegal(tag) else { throw Self.illegal("Tags") }
        }
        return tags
    }

    /// - Throws: `InvalidParameter` unless it is 6 to 64 letters, digits, hyphens and underscores.
    func referenceID() throws(ApsaraError) -> String? {
        guard let text = self["ReferenceId"] else { return nil }
        guard (6...64).contains(text.utf8.count), AliyunVODSettings.isAppID(text) else {
            throw .invalid("ReferenceId", "must have 6 to 64 letters, digits, hyphens and underscores")
        }
        return text
    }
}
