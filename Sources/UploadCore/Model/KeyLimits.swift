/// What an API key is limited to, beside its scopes; each list that is empty limits nothing.
package struct KeyLimits: Sendable, Equatable, Codable {
    /// Names of app users; one that ends with `*` stands for all that begin with what is before it.
    package var subjects: [String]
    /// Of the object endpoint, by their names.
    package var buckets: [String]
    /// What keys of objects in these buckets begin with.
    package var prefixes: [String]

    package init(subjects: [String] = [], buckets: [String] = [], prefixes: [String] = []) {
        self.subjects = subjects
        self.buckets = buckets
        self.prefixes = prefixes
    }

    package var isEmpty: Bool { subjects.isEmpty && buckets.isEmpty && prefixes.isEmpty }

    /// Whether only objects in some buckets are meant, so that uploads by tus and the like are none of the key's business.
    package var isForObjectsOnly: Bool { !buckets.isEmpty || !prefixes.isEmpty }

    /// The only user whom the key is for; `nil` if there are several, or any.
    package var onlySubject: String? {
        guard subjects.count == 1, let only = subjects.first, !only.hasSuffix("*") else { return nil }
        return only
    }

    /// Whether the key may do something for this app user, or for nobody in particular.
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

    /// Whether all keys that begin with `key`, or the key itself, are among those that the key is for.
    package func allows(bucket: String, key: String) -> Bool {
        allows(bucket: bucket)
            && (prefixes.isEmpty || prefixes.contains { key.utf8.starts(with: $0.utf8) })
    }

    /// Whether an upload or media is among what the key is for.
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

    /// What is wrong with the limits, for whoever makes the key; `nil` if nothing is.
    package func problem(with scopes: Set<Scope>) -> String? {
        if isEmpty { return nil }
        if scopes.contains(.admin) {
            return "a key with the scope `admin` can not be limited; name the scopes that it needs"
        }
        if !subjects.allSatisfy(SubjectText.isValid) { return "a subject \(SubjectText.rule)" }
        if subjects.contains("*") { return "the subject * limits nothing; leave it out" }
        if !prefixes.isEmpty, buckets.isEmpty { return "a prefix is one of keys in a bucket: name the bucket, too" }
        // In a policy of a session they would stand for other characters.
        let isPlain = (buckets + prefixes).allSatisfy { text in
            KeyPrefix(text) != nil && SubjectText.isPlain(text)
        }
        if !isPlain { return "a bucket or prefix must not be empty, and must have no control characters, * or ?" }
        return nil
    }
}

extension SubjectText {
    /// Whether there is neither a control character nor a wildcard in a text.
    fileprivate static func isPlain(_ text: String) -> Bool {
        !text.unicodeScalars.contains { $0.properties.generalCategory == .control || $0 == "*" || $0 == "?" }
    }
}
