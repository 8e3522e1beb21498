/// Conditional requests (RFC 9110 §13).
package enum EntityTagConditions {
    package enum Outcome: Equatable, Sendable {
        /// Do what the method asks for.
        case proceed
        /// Answer 304.
        case notModified
        /// Answer 412 and do nothing.
        case preconditionFailed
    }

    /// Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since in the order of RFC 9110 §13.2.2.
    ///
    /// - Parameters:
    ///   - fields: Of the request.
    ///   - method: Of the request.
    ///   - tag: Of the current representation.
    ///   - lastModified: Of the current representation, in Unix seconds.
    ///   - exists: Whether there is a current representation.
    /// - Returns: What to answer with.
    package static func evaluate(
        _ fields: HTTPFields,
        method: HTTPMethod,
        tag: EntityTag?,
        lastModified: Int64? = nil,
        exists: Bool = true
    ) -> Outcome {
        let isRead = method == .get || method == .head
        if let condition = fields["If-Match"] {
            // §13.1.1: strong comparison.
            let holds = matches(condition, exists: exists) { other in tag?.matchesStrongly(other) ?? false }
            if !holds { return .preconditionFailed }
        } else if let date = date(fields, "If-Unmodified-Since"), let lastModified, lastModified > date {
            return .preconditionFailed
        }
        if let condition = fields["If-None-Match"] {
            // §13.1.2: weak comparison.
            let holds = matches(condition, exists: exists) { other in tag?.matchesWeakly(other) ?? false }
            if holds { return isRead ? .notModified : .preconditionFailed }
        } else if isRead, let date = date(fields, "If-Modified-Since"), let lastModified, lastModified <= date {
            return .notModified
        }
        return .proceed
    }

    /// Whether the Range field counts: If-Range is absent or names the current representation (RFC 9110 §13.1.5).
    ///
    /// A date must be the very one that was sent as Last-Modified; the caller offers one only where it is a strong
    /// validator, that is, where the representation never changes twice within a second (§8.8.2.2).
    package static func honoursRange(_ fields: HTTPFields, tag: EntityTag?, lastModified: Int64? = nil) -> Bool {
        guard let condition = fields["If-Range"] else { return true }
        if let other = EntityTag(condition) { return tag?.matchesStrongly(other) ?? false }
        guard let date = HTTPDate.parse(condition) else { return false }
        return date == lastModified
    }

    /// `*` or a list of tags; what is neither matches nothing.
    private static func matches(_ condition: String, exists: Bool, _ isEqual: (EntityTag) -> Bool) -> Bool {
        guard condition != "*" else { return exists }
        return exists && split(condition).compactMap { EntityTag($0) }.contains(where: isEqual)
    }

    /// Splits at commas outside of quotes.
    ///
    /// A backslash is an ordinary character in a tag, other than in a quoted string.
    private static func split(_ list: String) -> [String] {
        var isQuoted = false
        return list.utf8.split { byte in
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            return byte == UInt8(ascii: ",") && !isQuoted
        }.map { Substring($0).trimmingWhitespace() }
    }

    /// Invalid dates are ignored (§13.1.3, §13.1.4).
    private static func date(_ fields: HTTPFields, _ name: FieldName) -> Int64? {
        fields[name].flatMap { HTTPDate.parse($0) }
    }
}
