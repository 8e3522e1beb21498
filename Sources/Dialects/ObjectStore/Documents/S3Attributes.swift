internal import Signing
internal import UploadModel

extension S3AttributesQuery {
    /// A document `GetObjectAttributesResponse`.
    ///
    /// Parts have the numbers that GetObject accepts, and their checksums if the object's is composite.
    ///
    /// - Parameters:
    ///   - known: The known attributes of the object.
    ///   - size: Object size in bytes.
    /// - Returns: XML.
    func document(_ known: ObjectAttributes?, size: Int64) -> [UInt8] {
        var document = XMLWriter("GetObjectAttributesResponse", .aws)
        if attributes.contains(.entityTag) { document.element("ETag", ifPresent: known?.entityTag) }
        if attributes.contains(.checksum), let checksum = known?.checksum,
            let text = checksum.text(parts: known?.partSizes?.count)
        {
            document.element("Checksum") { node in
                node.element(checksum.algorithm.s3Element, text)
                node.element("ChecksumType", checksum.s3Type)
            }
        }
        if attributes.contains(.parts), let sizes = known?.partSizes {
            document.element("ObjectParts") { self.write(sizes, known, to: &$0) }
        }
        if attributes.contains(.storageClass) { document.element("StorageClass", Vendor.aws.profile.storageClass) }
        if attributes.contains(.size) { document.element("ObjectSize", size) }
        return document.finished()
    }

    private func write(_ sizes: PartSizes, _ known: ObjectAttributes?, to node: inout XMLWriter) {
        let first = min(partMarker, sizes.count)
        let shown = first..<min(first + maximumParts, sizes.count)
        // SDKs call it `TotalPartsCount`.
        node.element("PartsCount", sizes.count)
        node.element("PartNumberMarker", partMarker)
        node.element("NextPartNumberMarker", shown.isEmpty ? partMarker : shown.upperBound)
        node.element("MaxParts", maximumParts)
        node.element("IsTruncated", maximumParts > 0 && shown.upperBound < sizes.count)
        for (index, size) in zip(shown, sizes.sizes(at: shown)) {
            node.element("Part") { part in
                part.element("PartNumber", index + 1)
                part.element("Size", size)
                if let checksum = known?.checksum(ofPart: index + 1) {
                    part.element(checksum.algorithm.s3Element, ifPresent: checksum.text(parts: nil))
                }
            }
        }
    }
}
