package import UploadModel

/// The result of a form.
package struct FormOutcome: Sendable {
    /// The files that became media, in order, each with the name of its control.
    package var media: [(field: String, media: Media)] = []
    /// Text fields in the order of their first appearance, without the credential.
    ///
    /// The last value of a repeated name counts.
    package var fields: [(name: String, value: String)] = []
    /// Failures, in order.
    package var failures: [FormFailure] = []

    package init() {}
}

/// Why a file of a form did not become media, or why the rest of the form could not be read.
package struct FormFailure: Sendable {
    /// The name of the control; `nil` for the whole form.
    package var field: String?
    package var filename: String?
    package var error: UploadError
}

/// Limits of a form, besides those of each file.
package struct FormLimits: Sendable, Equatable {
    /// Number of files: each is an upload, with its transactions and events, however small it is.
    package var maximumFiles: Int
    /// Number of text fields.
    package var maximumFields: Int
    /// Bytes of the names and values of all text fields together.
    ///
    /// They become metadata of each file after them.
    package var maximumFieldBytes: Int
    /// Bytes of refused files that are read and discarded so that later files can be stored.
    package var maximumSkippedBytes: Int64

    package init(
        maximumFiles: Int = 100,
        maximumFields: Int = 100,
        maximumFieldBytes: Int = 8192,
        maximumSkippedBytes: Int64 = 64 << 20
    ) {
        self.maximumFiles = maximumFiles
        self.maximumFields = maximumFields
        self.maximumFieldBytes = maximumFieldBytes
        self.maximumSkippedBytes = maximumSkippedBytes
    }
}
