/// A pattern in which `*` matches any number of characters, including `/`, and `?` matches one.
///
/// Characters are Unicode scalars, because strings that only look the same are different keys.
package struct WildcardPattern: Sendable, Equatable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package static func == (first: WildcardPattern, second: WildcardPattern) -> Bool {
        first.text.utf8.elementsEqual(second.text.utf8)
    }

    /// Whether the whole of `subject` matches; takes at most as many steps as the product of the lengths.
    package func matches(_ subject: String) -> Bool {
        let pattern = Array(text.unicodeScalars)
        let subject = Array(subject.unicodeScalars)
        var inPattern = 0
        var inSubject = 0
        // The last asterisk, and the end of what it matches so far.
        var asterisk: (pattern: Int, subject: Int)?
        while inSubject < subject.count {
            if inPattern < pattern.count, pattern[inPattern] == "*" {
                asterisk = (inPattern, inSubject)
                inPattern += 1
            } else if inPattern < pattern.count,
                pattern[inPattern] == "?" || pattern[inPattern] == subject[inSubject]
            {
                inPattern += 1
                inSubject += 1
            } else if let last = asterisk {
                asterisk = (last.pattern, last.subject + 1)
                inPattern = last.pattern + 1
                inSubject = last.subject + 1
            } else {
                return false
            }
        }
        return pattern[inPattern...].allSatisfy { $0 == "*" }
    }
}
