internal import Bytes
internal import Signing

extension Vendor {
    /// The vendor of a form, by the names of its fields, case-insensitive.
    init(ofForm names: [String]) {
        let names = names.map { $0.lowercasedASCII() }
        func has(_ some: String...) -> Bool { some.contains(where: names.contains) }
        if has("ossaccesskeyid", "x-oss-signature-version", "x-oss-credential", "x-oss-signature") {
            self = .aliyun
        } else {
            self = has("q-sign-algorithm", "q-ak", "q-key-time", "q-signature") ? .tencent : .aws
        }
    }
}
