internal import Signing

/// Resource names in each vendor's policies.
enum ResourceNames {
    /// Converts a resource name to a pattern for bucket and key.
    ///
    /// - Parameters:
    ///   - name: `*`, or the vendor's name for a bucket or an object: `arn:aws:s3:::bucket/key`,
    ///     `acs:oss:region:account:bucket/key`, `acs:vod:region:account:*`,
    ///     `qcs::cos:region:uid/appid:bucket-appid/key`.
    ///   - vendor: The vendor of the policy.
    /// - Returns: `nil` for any other name.
    static func pattern(of name: String, in vendor: Vendor) -> WildcardPattern? {
        if name == "*" { return WildcardPattern("*") }
        // Policy variables are not supported, so they must not be taken literally.
        guard !name.contains("${") else { return nil }
        // Keys may contain colons.
        let parts = name.split(separator: ":", maxSplits: vendor == .aliyun ? 4 : 5, omittingEmptySubsequences: false)
            .map(String.init)
        switch vendor {
        case .aws:
            guard parts.count == 6, parts[0] == "arn", ["aws", "aws-cn", "aws-us-gov"].contains(parts[1]),
                parts[2] == "s3", parts[3].isEmpty, parts[4].isEmpty
            else { return nil }
        case .aliyun:
            guard parts.count == 5, parts[0] == "acs", isRegion(parts[2]), parts[3] == "*" || isNumber(parts[3])
            else { return nil }
            // ApsaraVideo VOD has no smaller resources.
            if parts[1] == "vod", parts[4] == "*" { return WildcardPattern(videoCalls) }
            guard parts[1] == "oss" else { return nil }
        case .tencent:
            guard parts.count == 6, parts[0] == "qcs", parts[1].isEmpty, parts[2] == "cos", isRegion(parts[3]),
                isAccount(parts[4], ofBucketIn: parts[5])
            else { return nil }
        }
        guard let resource = parts.last, isBucketPattern(resource.prefix { $0 != "/" }) else { return nil }
        return WildcardPattern(resource)
    }

    /// What stands for all of ApsaraVideo VOD; no bucket can have this name.
    static let videoCalls = "vod:"

    private static func isRegion(_ text: String) -> Bool {
        text == "*" || !text.isEmpty && text.utf8.allSatisfy { isLowercaseOrDigit($0) || $0 == UInt8(ascii: "-") }
    }

    private static func isNumber(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    /// `uid/` and an app id, which must match the end of the bucket name unless that ends with an asterisk.
    private static func isAccount(_ text: String, ofBucketIn resource: String) -> Bool {
        if text == "*" || text == "uid/*" { return true }
        guard text.hasPrefix("uid/"), isNumber(text.dropFirst(4)) else { return false }
        let bucket = resource.prefix { $0 != "/" }
        return bucket.hasSuffix("*") || bucket.hasSuffix("-" + text.dropFirst(4))
    }

    private static func isBucketPattern(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { isLowercaseOrDigit($0) || "-.*?".utf8.contains($0) }
    }

    private static func isLowercaseOrDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
