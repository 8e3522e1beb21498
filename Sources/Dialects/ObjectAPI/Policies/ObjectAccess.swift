/// What a request wants to do, as far as policies ask.
package struct ObjectAccess: Sendable, Equatable {
    package var action: ObjectAction
    package var bucket: String
    /// The key; of a listing the prefix of keys; empty for what is about the bucket alone.
    package var key: String
    /// Bytes of content that the request brings; `nil` if it does not tell.
    package var contentLength: Int64?
    /// The media type that the object shall have; `nil` if the request does not tell.
    package var contentType: String?

    package init(
        _ action: ObjectAction,
        bucket: String,
        key: String = "",
        contentLength: Int64? = nil,
        contentType: String? = nil
    ) {
        self.action = action
        self.bucket = bucket
        self.key = key
        self.contentLength = contentLength
        self.contentType = contentType
    }
}
