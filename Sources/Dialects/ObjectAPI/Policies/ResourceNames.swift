/// The names of resources in the policies of each vendor.
enum ResourceNames {
    /// The pattern for bucket and key in the name of a resource.
    ///
    /// - Parameters:
    ///   - name: `*`, or what the vendor calls a bucket or an object:
    ///     `arn:aws:s3:::bucket/key`, `acs:oss:region:account:bucket/key`, `qcs::cos:region:uid/appid:bucket-appid/key`.
    ///   - dialect: Whose names.
    /// - Returns: `nil` for any other name.
    static func pattern(of name: String, in dialect: ObjectDialect) -> WildcardPattern? {
        if name == "*" { return WildcardPattern("*") }
        // Policy variables are not replaced, so they must not be taken for text.
        guard !name.contains("${") else { return nil }
        // Keys may hold colons.
        let parts = name.split(separator: ":", maxSplits: dialect == .oss ? 4 : 5, omittingEmptySubsequences: false)
            .map(String.init)
        switch dialect {
        case .s3:
            guard parts.count == 6, parts[0] == "arn", ["aws", "aws-cn", "aws-us-gov"].contains(parts[1]),
                parts[2] == "s3", parts[3].isEmpty, parts[4].isEmpty
            else { return nil }
        case .oss:
            guard parts.count == 5, parts[0] == "acs", parts[1] == "oss", isRegion(parts[2]),
                parts[3] == "*" || isNumber(parts[3])
            else { return nil }
        case .cos:
            guard parts.count == 6, parts[0] == "qcs", parts[1].isEmpty, parts[2] == "cos", isRegion(parts[3]),
                isAccount(parts[4], ofBucketIn: parts[5])
            else { return nil }
        }
        guard let resource = parts.last, isBucketPattern(resource.prefix { $0 != "/" }) else { return nil }
        return WildcardPattern(resource)
    }

    private static func isRegion(_ text: String) -> Bool {
        text == "*" || !text.isEmpty && text.utf8.allSatisfy { isLowercaseOrDigit($0) || $0 == UInt8(ascii: "-") }
    }

    private static func isNumber(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    /// `uid/` and an app id, which the bucket's name ends with, too, unless it ends with an asterisk.
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
