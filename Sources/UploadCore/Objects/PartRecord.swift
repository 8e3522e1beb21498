package import Foundation

/// A part of a multipart upload that is stored.
package struct PartRecord: Sendable, Equatable {
    /// 1 to 10,000.
    package var number: Int
    /// Bytes.
    package var size: Int64
    /// 16 bytes; in hexadecimal it is the entity tag.
    package var md5: [UInt8]
    /// CRC-64/XZ.
    package var crc64: UInt64
    /// By the algorithm that the upload was created with; `nil` if there is none.
    package var checksum: [UInt8]?
    /// Where it is, in the words of the storage; another part with the same number has another one.
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

    /// What a part may be numbered with ("Amazon S3 multipart upload limits").
    package static let numbers = 1...10_000
}

/// A bucket of the object endpoint: a set of keys with a name.
package struct BucketRecord: Sendable, Equatable {
    package let name: String
    package var createdAt: Date
    /// Documents that clients have set, by the name of the subresource, such as `cors`; as they were sent.
    package var documents: [String: String]

    package init(name: String, createdAt: Date, documents: [String: String] = [:]) {
        self.name = name
        self.createdAt = createdAt
        self.documents = documents
    }
}

/// Why named parts can not be joined.
package enum PartsProblem: Sendable, Equatable {
    /// None is named.
    case empty
    /// Their numbers do not grow.
    case order
    /// There is no such part, or it has another entity tag or checksum.
    case unknown(number: Int)
    /// Smaller than a part before the last may be.
    case tooSmall(number: Int, size: Int64, minimum: Int64)
    /// Parts were stored that are not named, and the store leaves none out.
    case unnamed
}
