internal import Bytes
package import HTTPWire
internal import UploadCore
package import UploadModel

/// tus 1.0.0, `Upload-Metadata`: `key base64,key base64,…`.
package enum TusMetadata {
    /// Parses the field of a request, which other protocols use, too.
    ///
    /// - Throws: `.invalidRequest`.
    package static func parse(_ fields: HTTPFields, maximumBytes: Int) throws(UploadError) -> UploadMetadata {
        do throws(TusFailure) {
            return try parse(fields["Upload-Metadata"], maximumBytes: maximumBytes)
        } catch {
            switch error {
            case .upload(let error): throw error
            case .refused(.invalidMetadata(let text)): throw UploadError(.invalidRequest, text)
            case .refused: throw UploadError(.invalidRequest, "Upload-Metadata is malformed.")
            }
        }
    }

    /// Validates the text and decodes the values that are UTF-8.
    ///
    /// An empty field means no metadata (tuspy always sends the field). Spaces around commas are allowed, as in any
    /// list field; several fields are joined (RFC 9110 §5.3).
    ///
    /// - Throws: `.invalidMetadata` with the position of the pair, counted from 1. The message does not repeat its
    ///   text, which can be anything.
    static func parse(_ field: String?, maximumBytes: Int) throws(TusFailure) -> UploadMetadata {
        guard let raw = field?.trimmingWhitespace(), !raw.isEmpty else { return UploadMetadata() }
        guard raw.utf8.count <= maximumBytes else {
            throw .refused(.invalidMetadata("Upload-Metadata is longer than \(maximumBytes) bytes."))
        }
        var keys: Set<String> = []
        var values: [String: String] = [:]
        for (index, element) in raw.split(separator: ",", omittingEmptySubsequences: false).enumerated() {
            let position = index + 1
            let parts = element.trimmingWhitespace().split(separator: " ", omittingEmptySubsequences: false)
            guard let first = parts.first, isKey(first) else {
                throw invalid(position, "has no key: keys are not empty, are UTF-8 and hold neither space nor comma.")
            }
            guard parts.count <= 2 else {
                throw invalid(position, "has more than one space: key and value are separated by exactly one.")
            }
            let key = String(first)
            guard keys.insert(key).inserted else { throw invalid(position, "repeats the key of an earlier pair.") }
            guard let decoded = parts.count == 2 ? Base64.decode(parts[1]) : [] else {
                throw invalid(position, "has a value that is not padded base64.")
            }
            if let value = String(clientText: decoded) { values[key] = value }
        }
        return UploadMetadata(raw: raw, values: values)
    }

    /// Refuses the replacement character: it stands for bytes that are not UTF-8, which could not be returned
    /// unchanged.
    private static func isKey(_ text: Substring) -> Bool {
        !text.isEmpty && !text.unicodeScalars.contains { $0 == "\u{FFFD}" || $0.properties.isWhitespace }
    }

    private static func invalid(_ position: Int, _ problem: String) -> TusFailure {
        .refused(.invalidMetadata("Pair \(position) of Upload-Metadata \(problem)"))
    }
}
