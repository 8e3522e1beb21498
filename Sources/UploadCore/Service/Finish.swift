/// How a request finishes an upload.
package enum Finish: Sendable, Equatable {
    /// With the last byte of its length (tus): whoever sees a full upload takes it for a complete one.
    case whenFull
    /// By saying so (draft-ietf-httpbis-resumable-upload): if this is the end, its last byte is that of the upload.
    ///
    /// An upload that was created to be complete when it is full stays so.
    case told(isLast: Bool)
}
