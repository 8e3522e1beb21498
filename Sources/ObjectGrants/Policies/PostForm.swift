internal import Bytes
package import Signing

/// The text fields of a form that uploads a file to a bucket.
///
/// Names are case-insensitive. The variable `${filename}` is replaced by the last component of the client's file name:
/// in all fields for S3, in the key only for OSS and COS.
package struct PostForm: Sendable, Equatable {
    package struct Field: Sendable, Equatable {
        /// The name, unchanged.
        package let name: String
        package let value: String
    }

    package let fields: [Field]
    /// The vendor of the form.
    package let vendor: Vendor
    private let values: ExactNames<String>

    /// The form with these fields.
    ///
    /// - Parameters:
    ///   - fields: All fields except the file, in order.
    ///   - fileName: As the client gives it, possibly with a path; empty if it gives none.
    ///   - vendor: The vendor of the form; `nil` detects it from the fields.
    /// - Throws: `.repeatedField`.
    package init(
        _ fields: [(name: String, value: String)],
        fileName: String,
        vendor: Vendor? = nil
    ) throws(PostPolicyProblem) {
        let vendor = vendor ?? Vendor(ofForm: fields.map(\.name))
        let lastComponent = String(
            fileName[
                (fileName.lastIndex { $0 == "/" || $0 == "\\" }.map(fileName.index(after:)) ?? fileName.startIndex)...
            ]
        )
        var expanded: [Field] = []
        var values = ExactNames<String>()
        for (name, value) in fields {
            let lowercased = name.lowercasedASCII()
            let hasVariables = lowercased == "key" || vendor == .aws && !Self.isLiteral(lowercased)
            let value = hasVariables ? value.replacing("${filename}", with: lastComponent) : value
            guard values.updateValue(value, forKey: lowercased) == nil else {
                throw .repeatedField(name)
            }
            expanded.append(Field(name: name, value: value))
        }
        self.fields = expanded
        self.vendor = vendor
        self.values = values
    }

    package subscript(_ name: String) -> String? { values[name.lowercasedASCII()] }

    /// Whether a field stays unchanged, because it is signed or the signature.
    private static func isLiteral(_ name: String) -> Bool { name == "policy" || name == "x-amz-signature" }
}
