package import Bytes
package import UploadModel

/// The incoming bytes of an object or a part, with digests that are available at the end.
package struct ObjectContent {
    package let source: any ByteSource
    /// Number of bytes in the source; `nil` if that is known only at its end.
    package let size: Int64?
    /// The same bytes without the computation of digests; `nil` if only `source` can be pulled.
    package let plain: Plain?
    private let finish: () async throws(UploadError) -> ContentDigests

    /// Bytes that are pulled first and hashed afterwards, in one step.
    package struct Plain {
        package let source: any ByteSource
        /// Call it once with all bytes, before `digests`; it can take some tenths of a millisecond.
        package let hash: @Sendable ([UInt8]) -> Void

        package init(_ source: any ByteSource, hash: @escaping @Sendable ([UInt8]) -> Void) {
            self.source = source
            self.hash = hash
        }
    }

    /// - Parameters:
    ///   - source: Digests are computed while it is pulled.
    ///   - size: Number of bytes in the source, if known.
    ///   - plain: The same bytes; all of them are pulled either from here or from `source`.
    ///   - finish: Called once, after the last byte; throws if the bytes do not match what was announced.
    package init(
        _ source: any ByteSource,
        size: Int64?,
        plain: Plain? = nil,
        finish: @escaping () async throws(UploadError) -> ContentDigests
    ) {
        self.source = source
        self.size = size
        self.plain = plain
        self.finish = finish
    }

    /// - Throws: `.checksumMismatch`, or another error for invalid content.
    package func digests() async throws(UploadError) -> ContentDigests { try await finish() }
}

/// Digests computed from the bytes of an object while they arrive.
package struct ContentDigests: Sendable, Equatable {
    /// 16 bytes.
    package var md5: [UInt8]
    /// CRC-64/XZ.
    package var crc64: UInt64
    /// The digest by the requested algorithm; `nil` if none was requested.
    package var checksum: [UInt8]?

    package init(md5: [UInt8], crc64: UInt64, checksum: [UInt8]? = nil) {
        self.md5 = md5
        self.crc64 = crc64
        self.checksum = checksum
    }
}

/// A part as a client lists it when completing an upload.
package struct NamedPart: Sendable, Equatable {
    package var number: Int
    /// The entity tag without quotes.
    package var entityTag: String
    /// The digest by the upload's algorithm, if the client sends it.
    package var checksum: [UInt8]?

    package init(number: Int, entityTag: String, checksum: [UInt8]? = nil) {
        self.number = number
        self.entityTag = entityTag
        self.checksum = checksum
    }
}
