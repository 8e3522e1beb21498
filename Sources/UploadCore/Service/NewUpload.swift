/// What a client asks for when it creates an upload.
package struct NewUpload: Sendable, Equatable {
    /// The protocol that asks, such as `tus`.
    package var dialect: String
    /// Final size in bytes.
    package var length: Int64?
    package var metadata: UploadMetadata

    package init(dialect: String, length: Int64?, metadata: UploadMetadata = UploadMetadata()) {
        self.dialect = dialect
        self.length = length
        self.metadata = metadata
    }
}
