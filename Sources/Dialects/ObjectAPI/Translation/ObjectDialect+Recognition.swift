internal import HTTPWire
internal import Signing

extension ObjectDialect {
    /// Whose client sends a request, by its signature.
    ///
    /// One without a signature is told by the vendor's header fields, and by the name of the host, so that its answer is one that
    /// its client understands; it is S3's otherwise.
    init(of head: RequestHead) {
        self =
            Self.named(in: head.fields["Authorization"] ?? "") ?? Self.signing(head) ?? Self.addressed(by: head) ?? .s3
    }

    /// Whose client filled in a form, by the names of its fields, in any case.
    init(ofForm names: [String]) {
        let names = names.map { $0.lowercased() }
        func has(_ some: String...) -> Bool { some.contains(where: names.contains) }
        if has("ossaccesskeyid", "x-oss-signature-version", "x-oss-credential", "x-oss-signature") {
            self = .oss
        } else {
            self = has("q-sign-algorithm", "q-ak", "q-key-time", "q-signature") ? .cos : .s3
        }
    }

    private static func named(in authorization: String) -> ObjectDialect? {
        if authorization.hasPrefix("AWS") { return .s3 }
        if authorization.hasPrefix("OSS") { return .oss }
        return authorization.hasPrefix("q-") ? .cos : nil
    }

    private static func signing(_ head: RequestHead) -> ObjectDialect? {
        guard let items = try? head.target.queryItems().items else { return nil }
        let names = Set(items.map(\.name))
        func has(_ some: String...) -> Bool { some.contains(where: names.contains) }
        if has("X-Amz-Algorithm", "X-Amz-Signature", "AWSAccessKeyId") { return .s3 }
        if has("OSSAccessKeyId", "x-oss-signature-version", "x-oss-credential", "x-oss-signature") { return .oss }
        return has("q-sign-algorithm", "q-ak", "q-signature") ? .cos : nil
    }

    private static func addressed(by head: RequestHead) -> ObjectDialect? {
        let names = head.fields.entries.indices.map { head.fields.name(at: $0).lowercased() }
        for dialect in [ObjectDialect.oss, .cos] where names.contains(where: { $0.hasPrefix(dialect.fieldPrefix) }) {
            return dialect
        }
        let host = (head.target.authority ?? head.fields["Host"] ?? "").lowercased()
        let labels = host.split(separator: ".")
        if labels.contains(where: { $0 == "oss" || $0.hasPrefix("oss-") }) { return .oss }
        return labels.contains("cos") ? .cos : nil
    }
}
