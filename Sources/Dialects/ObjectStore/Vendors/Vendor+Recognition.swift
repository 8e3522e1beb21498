internal import Bytes
internal import HTTPWire
internal import Signing

extension Vendor {
    /// Detects the vendor of a request by its signature.
    ///
    /// An unsigned request is recognised by vendor header fields and by the host name, so that the client understands
    /// the response; the default is S3.
    init(of head: RequestHead) {
        self =
            Self.named(in: head.fields["Authorization"] ?? "") ?? Self.signing(head) ?? Self.addressed(by: head) ?? .aws
    }

    private static func named(in authorization: String) -> Vendor? {
        if authorization.hasPrefix("AWS") { return .aws }
        if authorization.hasPrefix("OSS") { return .aliyun }
        return authorization.hasPrefix("q-") ? .tencent : nil
    }

    private static func signing(_ head: RequestHead) -> Vendor? {
        guard let items = try? head.target.queryItems().items else { return nil }
        let names = Set(items.map(\.name))
        func has(_ some: String...) -> Bool { some.contains(where: names.contains) }
        if has("X-Amz-Algorithm", "X-Amz-Signature", "AWSAccessKeyId") { return .aws }
        if has("OSSAccessKeyId", "x-oss-signature-version", "x-oss-credential", "x-oss-signature") { return .aliyun }
        let isWhole = items.contains { COSVerifier.isWhole(SigningField($0.name, $0.value)) }
        return isWhole || has("q-sign-algorithm", "q-ak", "q-signature") ? .tencent : nil
    }

    private static func addressed(by head: RequestHead) -> Vendor? {
        let names = head.fields.entries.indices.map { head.fields.name(at: $0).lowercasedASCII() }
        for vendor in [Vendor.aliyun, .tencent] where names.contains(where: { $0.hasPrefix(vendor.fieldPrefix) }) {
            return vendor
        }
        if names.contains(COSVerifier.forwardedHost) { return .tencent }
        let host = (head.target.authority ?? head.fields["Host"] ?? "").lowercasedASCII()
        let labels = host.split(separator: ".")
        if labels.contains(where: { $0 == "oss" || $0.hasPrefix("oss-") }) { return .aliyun }
        return labels.contains("cos") ? .tencent : nil
    }
}
