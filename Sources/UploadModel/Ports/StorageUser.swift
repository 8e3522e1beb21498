internal import Bytes

/// The app user for whom the current task stores content.
///
/// A store that keeps content in memory before it is durable gives nobody so much of it that others have none.
package enum StorageUser {
    /// `nil` for the app's own uploads, and where it is not known.
    @TaskLocal package static var current: SubjectName?

    /// Stores content for a user.
    ///
    /// - Parameters:
    ///   - subject: The user; `nil` for the app's own uploads.
    ///   - body: What it does.
    /// - Returns: The result of `body`.
    /// - Throws: The error of `body`.
    package static func storing<Success, Failure: Error>(
        for subject: String?,
        _ body: () async throws(Failure) -> Success
    ) async throws(Failure) -> Success {
        try await $current.with(subject.map { SubjectName($0) }, body)
    }
}
