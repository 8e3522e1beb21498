/// Whose protocols a client speaks: those of one object store, and of the token service beside it.
///
/// The raw values are in the API, as `format`.
package enum Vendor: String, Sendable, CaseIterable {
    /// Amazon S3, and AWS's token service.
    case aws
    /// Alibaba Cloud OSS, and Alibaba Cloud's token service.
    case aliyun
    /// Tencent Cloud COS, and Tencent Cloud's token service.
    case tencent

    /// The short name of the store's protocol: `s3`, `oss` or `cos`.
    ///
    /// It is recorded with uploads and in session tokens: it never changes.
    package var storeName: String {
        Self.storeNames[self]
    }

    private static let storeNames = PerVendor(aws: "s3", aliyun: "oss", tencent: "cos")

    /// The vendor whose store has this name; `nil` for any other text.
    package init?(storeName: String) {
        guard let vendor = Vendor.allCases.first(where: { $0.storeName == storeName }) else { return nil }
        self = vendor
    }

    /// As it is called in messages, logs and metrics.
    package var cloudName: String {
        Self.cloudNames[self]
    }

    private static let cloudNames = PerVendor(aws: "AWS", aliyun: "Alibaba Cloud", tencent: "Tencent Cloud")
}

/// A value for each vendor: what differs between them is such a value, so that code seldom has to ask which vendor it is.
package struct PerVendor<Value: Sendable>: Sendable {
    private let aws: Value
    private let aliyun: Value
    private let tencent: Value

    package init(aws: Value, aliyun: Value, tencent: Value) {
        self.aws = aws
        self.aliyun = aliyun
        self.tencent = tencent
    }

    package subscript(vendor: Vendor) -> Value {
        switch vendor {
        case .aws: aws
        case .aliyun: aliyun
        case .tencent: tencent
        }
    }
}
