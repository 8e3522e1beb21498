/// The name of an object: a key in a bucket.
///
/// Both are compared byte by byte: two keys that look the same may differ.
package struct ObjectName: Sendable {
    /// The bucket as clients name it.
    package var bucket: String
    /// 1 to 1024 bytes of UTF-8 without U+0000, which some databases cannot store; not a file path.
    package var key: String

    package init(bucket: String, key: String) {
        self.bucket = bucket
        self.key = key
    }
}

extension ObjectName: Hashable {
    package static func == (left: ObjectName, right: ObjectName) -> Bool {
        left.bucket.utf8.elementsEqual(right.bucket.utf8) && left.key.utf8.elementsEqual(right.key.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        for byte in bucket.utf8 { hasher.combine(byte) }
        hasher.combine(0 as UInt8)
        for byte in key.utf8 { hasher.combine(byte) }
    }
}
