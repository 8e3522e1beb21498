/// Limits of an API key in addition to its scopes; an empty list limits nothing.
package struct KeyLimits: Sendable, Equatable, Codable {
    /// Names of app users; a trailing `*` matches any suffix.
    package var subjects: [String]
    /// Names of buckets of the object endpoint.
    package var buckets: [String]
    /// Prefixes of object keys in these buckets.
    package var prefixes: [String]

    package init(subjects: [String] = [], buckets: [String] = [], prefixes: [String] = []) {
        self.subjects = subjects
        self.buckets = buckets
        self.prefixes = prefixes
    }

    package var isEmpty: Bool { subjects.isEmpty && buckets.isEmpty && prefixes.isEmpty }

    /// Whether the key is limited to objects in some buckets, so that it has no access to tus and other uploads.
    package var isForObjectsOnly: Bool { !buckets.isEmpty || !prefixes.isEmpty }

    /// The only user for whom the key is valid; `nil` if there are several, or no limit.
    package var onlySubject: String? {
        guard subjects.count == 1, let only = subjects.first, !only.hasSuffix("*") else { return nil }
        return only
    }

    /// Whether the key may act for this app user; `nil` for no particular user.
    package func allows(subject: String?) -> Bool {
        if subjects.isEmpty { return true }
        guard let subject else { return false }
        return subjects.contains { limit in
            limit.hasSuffix("*")
                ? subject.utf8.starts(with: limit.utf8.dropLast()) : subject.utf8.elementsEqual(limit.utf8)
        }
    }

    package func allows(bucket: String) -> Bool {
        buckets.isEmpty || buckets.contains { $0.utf8.elementsEqual(bucket.utf8) }
    }

    /// Whether the key may access `key` and all keys that begin with it.
    package func allows(bucket: String, key: String) -> Bool {
        allows(bucket: bucket)
            && (prefixes.isEmpty || prefixes.contains { key.utf8.starts(with: $0.utf8) })
    }

    /// Whether the key may access an upload or media.
    package func covers(subject: String?, bucket: String?, key: String?) -> Bool {
        guard allows(subject: subject) else { return false }
        if !isForObjectsOnly { return true }
        guard let bucket, let key else { return false }
        return allows(bucket: bucket, key: key)
    }

    package func covers(_ upload: Upload) -> Bool {
        covers(subject: upload.subject, bucket: upload.bucket, key: upload.key)
    }

    package func covers(_ media: Media) -> Bool {
        covers(subject: media.subject, bucket: media.bucket, key: media.key)
    }

    // MARK: Making

    /// What is wrong with the limits, as a message for the key's creator; `nil` if they are valid.
    package func problem(with scopes: Set<Scope>) -> String? {
        if isEmpty { return nil }
        if scopes.contains(.admin) {
            return "a key with the scope `admin` cannot be limited; name the scopes that it needs"
        }
        if !subjects.allSatisfy(SubjectText.isValid) { return "a subject \(SubjectText.rule)" }
        if subjects.contains("*") { return "the subject * limits nothing; leave it out" }
        if !prefixes.isEmpty, buckets.isEmpty { return "a prefix is one of keys in a bucket: name the bucket, too" }
        // The policy of a session would interpret these characters as wildcards.
        let isPlain = (buckets + prefixes).allSatisfy { text in
            KeyPrefix(text) != nil && SubjectText.isPlain(text)
        }
        if !isPlain { return "a bucket or prefix must not be empty, and must have no control characters, * or ?" }
        return nil
    }
}

extension SubjectText {
    /// Whether a text contains neither control characters nor wildcards.
    fileprivate static func isPlain(_ text: String) -> Bool {
        !text.unicodeScalars.contains { $0.properties.generalCategory == .control || $0 == "*" || $0 == "?" }
    }
}
