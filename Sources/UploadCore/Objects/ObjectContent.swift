package import Bytes

/// The bytes of an object or of a part as they come, and what is known of them at their end.
package struct ObjectContent {
    package let source: any ByteSource
    /// Bytes that the source brings; `nil` if that shows at its end only, which must not be for a part.
    package let size: Int64?
    private let finish: () async throws(UploadError) -> ContentDigests

    /// - Parameters:
    ///   - source: Looked at while it is pulled.
    ///   - size: Bytes that it brings, if that is known.
    ///   - finish: Called once, after the last byte has come; throws if they are not those that were announced.
    package init(
        _ source: any ByteSource,
        size: Int64?,
        finish: @escaping () async throws(UploadError) -> ContentDigests
    ) {
        self.source = source
        self.size = size
        self.finish = finish
    }

    /// - Throws: `.checksumMismatch`, or whatever else is wrong with what came.
    package func digests() async throws(UploadError) -> ContentDigests { try await finish() }
}

/// What is computed of bytes on their way into an object.
package struct ContentDigests: Sendable, Equatable {
    /// 16 bytes.
    package var md5: [UInt8]
    /// CRC-64/XZ.
    package var crc64: UInt64
    /// By the algorithm that was asked for; `nil` if none was.
    package var checksum: [UInt8]?

    package init(md5: [UInt8], crc64: UInt64, checksum: [UInt8]? = nil) {
        self.md5 = md5
        self.crc64 = crc64
        self.checksum = checksum
    }
}

/// A part as a client names it when it completes an upload.
package struct NamedPart: Sendable, Equatable {
    package var number: Int
    /// Without quotes.
    package var entityTag: String
    /// By the algorithm of the upload, if the client tells it.
    package var checksum: [UInt8]?

    package init(number: Int, entityTag: String, checksum: [UInt8]? = nil) {
        self.number = number
        self.entityTag = entityTag
        self.checksum = checksum
    }
}
