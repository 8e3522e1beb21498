/// What is told of an object besides its bytes, as `Upload` and `Media` keep it.
package struct ObjectAttributes: Sendable, Equatable, Codable {
    /// Header fields that are told again with the object, by their names in lower case, such as `cache-control`.
    package var headers: [String: String]
    /// Labels that a client put on it, by their names.
    package var tags: [String: String]
    /// Without quotes; `nil` until it is known.
    ///
    /// The MD5 of the bytes in hexadecimal, or that of the MD5s of the parts with `-` and their number.
    package var entityTag: String?
    /// CRC-64/XZ of the bytes, as OSS and COS tell it.
    package var crc64: UInt64?
    /// What the client asked for, or announced.
    package var checksum: ObjectChecksum?
    /// Bytes of each part in their order; `nil` for what did not come in parts.
    package var partSizes: [Int64]?
    /// Whether bytes may be put behind those that it has; `nil` for not.
    package var isAppendable: Bool?
    /// Of an open upload whose completion was begun: the numbers of its parts in their order.
    package var completing: [Int]?
    /// Of an open upload whose parts were put together, and which was then refused.
    ///
    /// It is completed when a client asks for it again, and not by itself. `nil` for not.
    package var isHeld: Bool?
    /// Of an open upload: what must hold when it becomes the object.
    package var condition: ObjectCondition?

    package init(headers: [String: String] = [:], tags: [String: String] = [:], checksum: ObjectChecksum? = nil) {
        self.headers = headers
        self.tags = tags
        self.checksum = checksum
    }
}

/// A checksum of an object by an algorithm of the client's choice ("Checking object integrity", Amazon S3 User Guide).
package struct ObjectChecksum: Sendable, Equatable, Codable {
    package enum Algorithm: String, Sendable, CaseIterable, Codable {
        case crc32, crc32c, crc64nvme, sha1, sha256
    }

    package var algorithm: Algorithm
    /// Of the checksums of the parts, and not of the bytes.
    package var isComposite: Bool
    /// As many bytes as the algorithm gives; `nil` until it is known.
    package var value: [UInt8]?

    package init(_ algorithm: Algorithm, isComposite: Bool = false, value: [UInt8]? = nil) {
        self.algorithm = algorithm
        self.isComposite = isComposite
        self.value = value
    }
}

/// What must hold of the object that has a name before another one takes its place, or it is removed.
package enum ObjectCondition: Sendable, Equatable, Codable {
    /// There is none.
    case isAbsent
    /// There is one.
    case isPresent
    /// There is one with this entity tag, without quotes.
    case hasTag(String)

    package func holds(for object: Media?) -> Bool {
        switch self {
        case .isAbsent: object == nil
        case .isPresent: object != nil
        case .hasTag(let tag): object?.attributes?.entityTag == tag
        }
    }
}
