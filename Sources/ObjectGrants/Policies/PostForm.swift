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

    /// Bytes of all values with the file name in place of `${filename}`, at most: a name that stands in a form thousands of
    /// times would make megabytes of it.
    package static let maximumExpanded = 20 << 10

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
    /// - Throws: `.repeatedField`, `.unfitFileName`.
    package init(
        _ fields: [(name: String, value: String)],
        fileName: String,
        vendor: Vendor? = nil
    ) throws(PostPolicyProblem) {
        let vendor = vendor ?? Vendor(ofForm: fields.map(\.name))
        let path = Array(fileName.utf8)
        let separator = path.lastIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") }
        let lastComponent = path[(separator.map { $0 + 1 } ?? 0)...]
        var room = Self.maximumExpanded
        var expanded: [Field] = []
        var values = ExactNames<String>()
        for (name, value) in fields {
            let lowercased = name.lowercasedASCII()
            let hasVariables = lowercased == "key" || vendor == .aws && !Self.isLiteral(lowercased)
            guard let value = hasVariables ? Self.expanded(value, lastComponent, &room) : value else {
                throw .unfitFileName(name)
            }
            guard values.updateValue(value, forKey: lowercased) == nil else {
                throw .repeatedField(name)
            }
            expanded.append(Field(name: name, value: value))
        }
        self.fields = expanded
        self.vendor = vendor
        self.values = values
    }

    /// A value with a file name in place of each variable.
    ///
    /// - Returns: `nil` for more than `room` bytes, or for what is no `ClientText`: two texts together may not be one.
    private static func expanded(_ value: String, _ fileName: some Collection<UInt8>, _ room: inout Int) -> String? {
        var rest = Array(value.utf8)[...]
        var expanded: [UInt8] = []
        while let variable = rest.firstRange(of: Array("${filename}".utf8)) {
            expanded += rest[..<variable.lowerBound]
            expanded += fileName
            guard expanded.count <= room else { return nil }
            rest = rest[variable.upperBound...]
        }
        if rest.startIndex == 0 { return value }
        expanded += rest
        room -= expanded.count
        return room < 0 ? nil : String(clientText: expanded)
    }

    package subscript(_ name: String) -> String? { values[name.lowercasedASCII()] }

    /// Whether a field stays unchanged, because it is signed or the signature.
    private static func isLiteral(_ name: String) -> Bool { name == "policy" || name == "x-amz-signature" }
}
