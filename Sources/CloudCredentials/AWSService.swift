/// The endpoints of AWS's services ("AWS service endpoints", AWS General Reference).
package enum AWSService {
    /// For example `https://sts.eu-west-1.amazonaws.com`.
    package static func url(_ service: String, region: String) -> String {
        "https://\(service).\(region).\(region.hasPrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com")"
    }

    /// Whether a text can be the name of a region: lower-case letters, digits and hyphens.
    package static func isRegion(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                    || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || byte == UInt8(ascii: "-")
            }
    }
}
