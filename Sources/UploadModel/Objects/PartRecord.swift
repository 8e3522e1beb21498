internal import Bytes
package import Foundation

/// A stored part of a multipart upload.
package struct PartRecord: Sendable, Equatable {
    /// 1 to 10,000.
    package var number: Int
    /// Bytes.
    package var size: Int64
    /// 16 bytes; the entity tag is their hexadecimal form.
    package var md5: [UInt8]
    /// CRC-64/XZ.
    package var crc64: UInt64
    /// The digest by the upload's algorithm; `nil` if it has none.
    package var checksum: [UInt8]?
    /// Where the part is, in the storage's own format; unique even among parts with the same number.
    package var location: String
    package var storedAt: Date

    package init(
        number: Int,
        size: Int64,
        md5: [UInt8],
        crc64: UInt64,
        checksum: [UInt8]? = nil,
        location: String,
        storedAt: Date
    ) {
        self.number = number
        self.size = size
        self.md5 = md5
        self.crc64 = crc64
        self.checksum = checksum
        self.location = location
        self.storedAt = storedAt
    }

    /// Valid part numbers ("Amazon S3 multipart upload limits").
    package static let numbers = 1...10_000
}

/// A bucket of the object endpoint: a named set of keys.
package struct BucketRecord: Sendable, Equatable {
    package let name: String
    package var createdAt: Date
    /// Documents set by clients, unchanged, by the name of the subresource, such as `cors`.
    package var documents: [String: String]

    package init(name: String, createdAt: Date, documents: [String: String] = [:]) {
        self.name = name
        self.createdAt = createdAt
        self.documents = documents
    }
}

/// Why the listed parts cannot be joined.
package enum PartsProblem: Sendable, Equatable {
    /// The list is empty.
    case empty
    /// The numbers are not in ascending order.
    case order
    /// No such part is stored, or its entity tag or checksum differs.
    case unknown(number: Int)
    /// The part is smaller than the minimum for all parts but the last.
    case tooSmall(number: Int, size: Int64, minimum: Int64)
    /// Stored parts are missing from the list, and the store cannot leave out any.
    case unnamed
}

extension PartRecord {
    /// The MD5 in hexadecimal.
    package var entityTag: String { Hexadecimal.encode(md5) }
}
