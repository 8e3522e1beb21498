/// Conditional requests (RFC 9110 §13).
package enum EntityTagConditions {
    package enum Outcome: Equatable, Sendable {
        /// Process the request.
        case proceed
        /// Respond 304.
        case notModified
        /// Respond 412 and do nothing.
        case preconditionFailed
    }

    /// Evaluates If-Match, If-Unmodified-Since, If-None-Match and If-Modified-Since in the order of RFC 9110 §13.2.2.
    ///
    /// - Parameters:
    ///   - fields: The request's fields.
    ///   - method: The request's method.
    ///   - tag: The entity tag of the current representation.
    ///   - lastModified: When the current representation was modified, in Unix seconds.
    ///   - exists: Whether there is a current representation.
    /// - Returns: How to respond.
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

    /// Whether the Range field applies: If-Range is absent or matches the current representation (RFC 9110 §13.1.5).
    ///
    /// A date must equal the Last-Modified value. The caller passes `lastModified` only if it is a strong validator,
    /// that is, if the representation never changes twice within a second (§8.8.2.2).
    package static func honoursRange(_ fields: HTTPFields, tag: EntityTag?, lastModified: Int64? = nil) -> Bool {
        guard let condition = fields["If-Range"] else { return true }
        if let other = EntityTag(condition) { return tag?.matchesStrongly(other) ?? false }
        guard let date = HTTPDate.parse(condition) else { return false }
        return date == lastModified
    }

    /// `*` or a list of tags; anything else matches nothing.
    private static func matches(_ condition: String, exists: Bool, _ isEqual: (EntityTag) -> Bool) -> Bool {
        guard condition != "*" else { return exists }
        return exists && split(condition).compactMap { EntityTag($0) }.contains(where: isEqual)
    }

    /// Splits at commas outside quotes.
    ///
    /// In a tag a backslash is an ordinary character, unlike in a quoted string.
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
