package import Foundation
package import UploadModel

/// A client's request to create an upload.
package struct NewUpload: Sendable, Equatable {
    /// The client's protocol, such as `tus`.
    package var dialect: String
    /// Final size in bytes; `nil` if the client declares it with a later append.
    package var length: Int64?
    package var metadata: UploadMetadata
    /// `nil` for an ordinary upload; a final upload declares no length.
    package var concatenation: Concatenation?
    /// Expected digests of all its bytes.
    package var expectedDigests: DigestValues
    /// Whether the last byte completes it.
    package var completesWhenFull: Bool
    /// Set if the gateway fetches the bytes; `nil` if clients send them.
    package var pull: NewPull?
    /// The object to create at the object endpoint; `nil` for other media.
    package var object: NewObject?
    /// Its id, for a caller that records it before; `nil` for a new one.
    package var id: UploadID?
    /// Seconds for which it is kept at least, where uploads expire.
    package var keptFor: TimeInterval?

    package init(
        dialect: String,
        length: Int64?,
        metadata: UploadMetadata = UploadMetadata(),
        concatenation: Concatenation? = nil,
        expectedDigests: DigestValues = [:],
        completesWhenFull: Bool = true,
        pull: NewPull? = nil
    ) {
        self.dialect = dialect
        self.length = length
        self.metadata = metadata
        self.concatenation = concatenation
        self.expectedDigests = expectedDigests
        self.completesWhenFull = completesWhenFull
        self.pull = pull
    }
}

/// The object that an upload is to become.
package struct NewObject: Sendable, Equatable {
    package var name: ObjectName
    package var attributes: ObjectAttributes
    /// Whether its bytes arrive in parts.
    package var takesParts: Bool
    /// The file names in its Content-Disposition; `nil` if they cannot be read.
    package var fileNames: [String]? = []

    package init(_ name: ObjectName, attributes: ObjectAttributes = ObjectAttributes(), takesParts: Bool = false) {
        self.name = name
        self.attributes = attributes
        self.takesParts = takesParts
    }
}
