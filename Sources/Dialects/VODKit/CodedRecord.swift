internal import Bytes
package import Foundation
package import UploadModel

/// Content whose records are found by terms.
package protocol FoundByTerms {
    /// - Parameter time: When the record was created.
    /// - Returns: The terms, each once.
    func terms(createdAt time: Date) -> [DialectTerm]
}

/// A record with its decoded content.
package struct CodedRecord<Content: Sendable & Codable>: Sendable {
    package private(set) var record: DialectRecord
    package private(set) var content: Content

    package init(_ kind: String, _ key: String, _ content: Content, at now: Date, until end: Date?) {
        record = DialectRecord(kind: kind, key: key, text: Self.text(content), createdAt: now, expiresAt: end)
        self.content = content
        takeTerms()
    }

    /// - Throws: `.storageFailure` if another version of this server wrote something else.
    package init(_ record: DialectRecord) throws(UploadError) {
        guard let content = try? JSONDecoder().decode(Content.self, from: Data(record.text.utf8)) else {
            throw UploadError(.storageFailure, "The record \(record.kind) \(record.key) cannot be read.")
        }
        self.record = record
        self.content = content
        takeTerms()
    }

    private mutating func takeTerms() {
        record.terms = (content as? any FoundByTerms)?.terms(createdAt: record.createdAt)
    }

    /// Whether the content is the same, byte by byte: `==` finds canonically equivalent texts equal.
    package func has(_ content: Content) -> Bool where Content: Equatable {
        content == self.content && Self.text(content, .sortedKeys).isExactly(Self.text(self.content, .sortedKeys))
    }

    /// The record with this content, for `DialectRecords.replace`.
    package func replaced(by content: Content, until end: Date?) -> CodedRecord {
        var copy = self
        copy.content = content
        copy.record.text = Self.text(content)
        copy.record.expiresAt = end
        copy.takeTerms()
        return copy
    }

    /// The record as it is after a successful `DialectRecords.replace`.
    package var next: CodedRecord {
        var copy = self
        copy.record.version += 1
        return copy
    }

    private static func text(_ content: Content, _ formatting: JSONEncoder.OutputFormatting = []) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = formatting
        // Texts, numbers and flags always encode.
        return String(decoding: (try? encoder.encode(content)) ?? Data(), as: UTF8.self)
    }
}
