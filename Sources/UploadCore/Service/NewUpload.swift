/// What a client asks for when it creates an upload.
package struct NewUpload: Sendable, Equatable {
    /// The protocol that asks, such as `tus`.
    package var dialect: String
    /// Final size in bytes; `nil` if the client will tell it with a later append.
    package var length: Int64?
    package var metadata: UploadMetadata
    /// Of a final upload the length is not told.
    package var concatenation: Concatenation?
    /// What all its bytes must hash to.
    package var expectedDigests: DigestValues
    /// With its last byte it is complete.
    package var completesWhenFull: Bool
    /// Its bytes are fetched; `nil` if clients send them.
    package var pull: NewPull?
    /// What it becomes at the object endpoint; `nil` for other media.
    package var object: NewObject?

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

/// What an upload to the object endpoint is to become.
package struct NewObject: Sendable, Equatable {
    package var name: ObjectName
    package var attributes: ObjectAttributes
    /// Its bytes come in parts.
    package var takesParts: Bool

    package init(_ name: ObjectName, attributes: ObjectAttributes = ObjectAttributes(), takesParts: Bool = false) {
        self.name = name
        self.attributes = attributes
        self.takesParts = takesParts
    }
}
