package import Bytes
package import HTTPWire
internal import UploadModel

/// The members of a JSON object that a client sent.
///
/// Collects every error, so that one response reports them all.
package struct JSONFields {
    private var members: JSONMembers
    private var known: Set<ExactText> = []
    private var errors: [Problem.FieldError] = []

    /// Reads the content of `request`.
    ///
    /// - Throws: `Problem` 415, 413, 400 (`invalid_json`), or what cut off the content.
    package init(readingFrom request: Request, limit: Int) async throws(Problem) {
        let bytes = try await JSONFields.content(of: request, limit: limit)
        if bytes.isEmpty {
            members = [:]
            return
        }
        guard let value = JSONValue(json: bytes) else {
            throw Problem(400, "invalid_json", "the content must be one JSON object (RFC 8259)")
        }
        guard let members = value.members else {
            throw Problem(400, "invalid_json", "the content must be one JSON object, not another JSON value")
        }
        guard let repeated = JSONNames.repeated(in: bytes) else {
            throw Problem(400, "invalid_json", "a comma must not precede a closing bracket (RFC 8259)")
        }
        self.members = members
        for name in repeated { reject(name, "must occur only once") }
    }

    /// The JSON text of a request, within `limits`; empty if the request has no content, which counts as an empty
    /// object.
    package static func content(
        of request: Request,
        limit: Int,
        limits: JSONLimits = JSONLimits()
    ) async throws(Problem) -> [UInt8] {
        if request.body.remaining == 0 { return [] }
        let bytes: [UInt8]
        do throws(SourceFailure) {
            bytes = try await request.body.collect(limit: limit)
        } catch {
            throw RESTErrors.problem(error)
        }
        if bytes.isEmpty { return [] }
        // Fast path: most clients send exactly this type.
        if let text = request.head.fields["Content-Type"], text != "application/json" {
            // `curl -d` sends this type by default; it is accepted as JSON too.
            let accepted: Set = ["application/json", "application/x-www-form-urlencoded", "text/json"]
            guard let type = MediaType(text), accepted.contains(type.essence) || type.subtype.hasSuffix("+json") else {
                throw Problem(415, "unsupported_media_type", "send the content as Content-Type: application/json")
            }
        }
        if let allowed = limits.excess(in: bytes) {
            throw Problem(400, "invalid_json", "the JSON of this request may have \(allowed)")
        }
        return bytes
    }

    package mutating func string(_ name: String, maximumLength: Int, isRequired: Bool = false) -> String? {
        switch take(name) {
        case .string(let text)?:
            if text.utf8.count > maximumLength || text.unicodeScalars.contains(where: { $0.value < 0x20 }) {
                reject(name, "must be at most \(maximumLength) bytes of UTF-8 without control characters")
                return nil
            }
            return text
        case nil, .null?:
            if isRequired { reject(name, "is required: a string") }
            return nil
        default:
            reject(name, "must be a string")
            return nil
        }
    }

    /// `subject`: an app user.
    package mutating func subject(isRequired: Bool = false) -> String? {
        let subject = string("subject", maximumLength: SubjectText.maximumByteCount, isRequired: isRequired)
        if let subject, !SubjectText.isValid(subject) { reject("subject", SubjectText.rule) }
        return subject
    }

    /// A string to change, or to remove with null.
    ///
    /// - Returns: `nil` if it stays unchanged.
    package mutating func change(_ name: String, maximumLength: Int) -> String?? {
        switch members[name] {
        case .null?:
            known.insert(ExactText(name))
            return .some(nil)
        default:
            return string(name, maximumLength: maximumLength).map { .some($0) }
        }
    }

    /// Strings to change, or to remove with null: a merge patch (RFC 7396) of an object of strings.
    package mutating func changes(_ name: String, maximumCount: Int, maximumBytes: Int) -> [String: String?] {
        guard case .object(let values)? = members[name] else {
            return dictionary(name, maximumCount: 0, maximumBytes: 0)
        }
        members[name] = .object(values.filter { $0.value != .null })
        var changes: [String: String?] = dictionary(name, maximumCount: maximumCount, maximumBytes: maximumBytes)
            .mapValues { .some($0) }
        for removed in values.filter({ $0.value == .null }).keys { changes.updateValue(nil, forKey: removed) }
        return changes
    }

    package mutating func integer(_ name: String, in range: ClosedRange<Int64>, isRequired: Bool = false) -> Int64? {
        switch take(name) {
        case .integer(let value)? where range.contains(value): return value
        case nil, .null?:
            if isRequired { reject(name, "is required: an integer from \(range.lowerBound) to \(range.upperBound)") }
            return nil
        default:
            reject(name, "must be an integer from \(range.lowerBound) to \(range.upperBound)")
            return nil
        }
    }

    package mutating func bool(_ name: String) -> Bool? {
        switch take(name) {
        case .bool(let value)?: return value
        case nil, .null?: return nil
        default:
            reject(name, "must be true or false")
            return nil
        }
    }

    package mutating func strings(_ name: String, maximumCount: Int, where isValid: (String) -> Bool, _ hint: String)
        -> [String]
    {
        let rule = "must be an array of at most \(maximumCount) strings, each \(hint)"
        switch take(name) {
        case .array(let values)?:
            let strings = values.compactMap { if case .string(let text) = $0, isValid(text) { text } else { nil } }
            if strings.count != values.count || values.count > maximumCount { reject(name, rule) }
            return strings
        case nil, .null?: return []
        default:
            reject(name, rule)
            return []
        }
    }

    /// Distinct integers; `nil` if the member is missing.
    package mutating func integers(_ name: String, maximumCount: Int, in range: ClosedRange<Int>) -> [Int]? {
        let (lowest, highest) = (range.lowerBound, range.upperBound)
        let rule = "must be an array of 1 to \(maximumCount) different integers from \(lowest) to \(highest)"
        switch take(name) {
        case .array(let values)?:
            let numbers = values.compactMap { value -> Int? in
                guard case .integer(let wide) = value, let number = Int(exactly: wide) else { return nil }
                return range.contains(number) ? number : nil
            }
            let isRight =
                numbers.count == values.count && Set(numbers).count == numbers.count
                && (1...maximumCount).contains(numbers.count)
            if !isRight { reject(name, rule) }
            return numbers
        case nil, .null?: return nil
        default:
            reject(name, rule)
            return []
        }
    }

    /// An object of strings, such as metadata.
    package mutating func dictionary(_ name: String, maximumCount: Int, maximumBytes: Int) -> [String: String] {
        let rule =
            "must be an object of at most \(maximumCount) strings, \(maximumBytes) bytes in all, keys without spaces and commas"
        switch take(name) {
        case .object(let values)?:
            var strings: [String: String] = [:]
            for (key, value) in values {
                if case .string(let text) = value, !key.isEmpty,
                    key.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != 0x2C })
                {
                    strings[key] = text
                }
            }
            let size = strings.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
            if strings.count != values.count || values.count > maximumCount || size > maximumBytes {
                reject(name, rule)
            }
            return strings
        case nil, .null?: return [:]
        default:
            reject(name, rule)
            return [:]
        }
    }

    package mutating func reject(_ name: String, _ message: String) {
        errors.append(Problem.FieldError(field: name, message: message))
    }

    /// Throws if anything was wrong, including unknown members.
    package func finish() throws(Problem) {
        let unknown = members.keys.filter { !known.contains(ExactText($0)) }.sorted()
        let allowed = known.map(\.text).sorted().joined(separator: ", ")
        let errors =
            errors + unknown.map { .init(field: $0, message: "is unknown; allowed are \(allowed)") }
        if !errors.isEmpty { throw Problem.invalidFields(errors) }
    }

    private mutating func take(_ name: String) -> JSONValue? {
        known.insert(ExactText(name))
        return members[name]
    }
}
