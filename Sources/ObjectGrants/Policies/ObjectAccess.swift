/// The access that a request needs, in the terms of policies.
package struct ObjectAccess: Sendable, Equatable {
    package var action: ObjectAction
    package var bucket: String
    /// The key; for a listing, the key prefix; empty for operations on the bucket itself.
    package var key: String
    /// Size of the request's content in bytes; `nil` if unknown.
    package var contentLength: Int64?
    /// Media type of the object to create; `nil` if the request does not declare it.
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
