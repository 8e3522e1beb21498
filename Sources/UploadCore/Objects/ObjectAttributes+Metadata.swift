internal import Bytes
package import UploadModel

/// User metadata of objects: fields that are returned with them.
extension ObjectAttributes {
    /// What the names of user metadata begin with, in lower case.
    package static let userPrefix = "x-amz-meta-"

    /// The client's fields say nothing else than the app's metadata of the same names.
    ///
    /// What the client did not send is not added: readers of a public object would see it.
    mutating func agree(with metadata: [String: String]) {
        // Of names that are one field, always the same wins.
        for (name, value) in metadata.sorted(by: { $0.key < $1.key }) {
            let field = Self.userPrefix + name.lowercasedASCII()
            guard headers[field] != nil else { continue }
            headers[field] = MetadataText.isName(value) ? value : nil
        }
        for names in UploadMetadata.synonyms where names.contains(where: { metadata[$0] != nil }) {
            for name in names where metadata[name] == nil { headers[Self.userPrefix + name] = nil }
        }
        guard metadata["filename"] ?? metadata["name"] != nil else { return }
        // It may name the file otherwise.
        if headers["content-disposition"]?.lowercasedASCII().contains("filename") == true {
            headers["content-disposition"] = nil
        }
    }

    /// Keeps of the client's fields only those that the app has, with the app's values.
    mutating func replaceMetadata(by metadata: [String: String]) {
        let kept = Set(metadata.keys.map { Self.userPrefix + $0.lowercasedASCII() })
        headers = headers.filter { !$0.key.hasPrefix(Self.userPrefix) || kept.contains($0.key) }
        agree(with: metadata)
    }
}

extension UploadMetadata {
    /// Names with the same meaning.
    static let synonyms = [["filename", "name"], ["filetype", "type"]]
}
