/// The text fields of a form that uploads a file to a bucket.
///
/// Names are compared without regard to case. The variable `${filename}` is replaced by the last component of the name that
/// the file has at the client: in all fields for S3, in the key for OSS and COS.
package struct PostForm: Sendable, Equatable {
    package struct Field: Sendable, Equatable {
        /// As it was sent.
        package let name: String
        package let value: String
    }

    package let fields: [Field]
    /// Whose form it is.
    package let dialect: ObjectDialect
    private let values: [String: String]

    /// The form with these fields.
    ///
    /// - Parameters:
    ///   - fields: All but the file, in their order.
    ///   - fileName: As the client gives it, perhaps with a path; empty if it gives none.
    ///   - dialect: Whose form it is; `nil` for what its fields tell.
    /// - Throws: `.repeatedField`.
    package init(
        _ fields: [(name: String, value: String)],
        fileName: String,
        dialect: ObjectDialect? = nil
    ) throws(PostPolicyProblem) {
        let dialect = dialect ?? ObjectDialect(ofForm: fields.map(\.name))
        let lastComponent = String(
            fileName[
                (fileName.lastIndex { $0 == "/" || $0 == "\\" }.map(fileName.index(after:)) ?? fileName.startIndex)...
            ]
        )
        var expanded: [Field] = []
        var values: [String: String] = [:]
        for (name, value) in fields {
            let lowercased = name.lowercased()
            let hasVariables = lowercased == "key" || dialect == .s3 && !Self.isLiteral(lowercased)
            let value = hasVariables ? value.replacing("${filename}", with: lastComponent) : value
            guard values.updateValue(value, forKey: lowercased) == nil else {
                throw .repeatedField(name)
            }
            expanded.append(Field(name: name, value: value))
        }
        self.fields = expanded
        self.dialect = dialect
        self.values = values
    }

    package subscript(_ name: String) -> String? { values[name.lowercased()] }

    /// What was signed, and the signature, stay as they are.
    private static func isLiteral(_ name: String) -> Bool { name == "policy" || name == "x-amz-signature" }
}
