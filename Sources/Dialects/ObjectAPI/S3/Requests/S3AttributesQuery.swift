package import HTTPWire

/// What of an object is asked for ("GetObjectAttributes", Amazon S3 API Reference).
package struct S3AttributesQuery: Sendable, Equatable {
    /// The raw values are those of `x-amz-object-attributes`.
    package enum Attribute: String, Sendable, CaseIterable {
        case entityTag = "ETag"
        case checksum = "Checksum"
        case parts = "ObjectParts"
        case storageClass = "StorageClass"
        case size = "ObjectSize"
    }

    /// Not empty.
    package let attributes: Set<Attribute>
    /// Parts with greater numbers are wanted.
    package let partMarker: Int
    /// Most parts of an answer, 0 to 1000.
    package let maximumParts: Int

    /// - Parameter fields: Of an effective head.
    /// - Throws: `InvalidArgument` without `x-amz-object-attributes`, for an attribute that there is not, and for numbers that are
    ///   none.
    package init(_ fields: HTTPFields) throws(S3Error) {
        let names = fields.list("x-amz-object-attributes")
        var attributes: Set<Attribute> = []
        for name in names {
            guard let attribute = Attribute(rawValue: name) else {
                throw .argument("x-amz-object-attributes", name, "Invalid attribute name specified.")
            }
            attributes.insert(attribute)
        }
        guard !attributes.isEmpty else {
            throw S3Error(
                .invalidRequest,
                "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty"
            )
        }
        self.attributes = attributes
        func number(_ name: FieldName) throws(S3Error) -> Int? {
            guard let text = fields[name] else { return nil }
            guard let number = S3Parameters.number(text), number <= 2_147_483_647 else {
                let message = "Argument \(name.spelling) must be an integer between 0 and 2147483647"
                throw .argument(name.spelling, text, message)
            }
            return number
        }
        partMarker = try number("x-amz-part-number-marker") ?? 0
        maximumParts = min(try number("x-amz-max-parts") ?? S3Parameters.maximumPage, S3Parameters.maximumPage)
    }
}
