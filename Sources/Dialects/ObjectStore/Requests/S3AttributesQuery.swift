internal import HTTPWire

/// The requested attributes of an object ("GetObjectAttributes", Amazon S3 API Reference).
package struct S3AttributesQuery: Sendable, Equatable {
    /// Raw values as in `x-amz-object-attributes`.
    package enum Attribute: String, Sendable, CaseIterable {
        case entityTag = "ETag"
        case checksum = "Checksum"
        case parts = "ObjectParts"
        case storageClass = "StorageClass"
        case size = "ObjectSize"
    }

    /// Not empty.
    package let attributes: Set<Attribute>
    /// Only parts with greater numbers are returned.
    package let partMarker: Int
    /// Maximum number of parts in the response, 0 to 1000.
    package let maximumParts: Int

    /// - Parameter request: With `object-attributes`.
    /// - Throws: `InvalidArgument` if `x-amz-object-attributes` is missing or names an unknown attribute, or if a
    ///   number is invalid.
    init(_ request: RequestReader) throws(ObjectError) {
        let names = (request["object-attributes"] ?? "").split(separator: ",")
            .map { Substring($0).trimmingWhitespace() }.filter { !$0.isEmpty }.map { String($0) }
        var attributes: Set<Attribute> = []
        for name in names {
            guard let attribute = Attribute(rawValue: name) else {
                throw .argument("x-amz-object-attributes", name, "Invalid attribute name specified.")
            }
            attributes.insert(attribute)
        }
        guard !attributes.isEmpty else {
            throw ObjectError(
                .invalidRequest,
                "The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty"
            )
        }
        self.attributes = attributes
        func number(_ name: String) throws(ObjectError) -> Int? {
            guard let text = request[name] else { return nil }
            guard let number = ObjectParameters.number(text), number <= 2_147_483_647 else {
                let message = "Argument x-amz-\(name) must be an integer between 0 and 2147483647"
                throw .argument("x-amz-" + name, text, message)
            }
            return number
        }
        partMarker = try number("part-number-marker") ?? 0
        maximumParts = min(try number("max-parts") ?? ObjectParameters.maximumPage, ObjectParameters.maximumPage)
    }
}
