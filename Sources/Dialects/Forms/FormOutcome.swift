package import UploadCore

/// What became of a form.
package struct FormOutcome: Sendable {
    /// The files that are media now, in their order, each with the name of its control.
    package var media: [(field: String, media: Media)] = []
    /// Text fields in the order of their first appearance, the credential left out; of a name that stands twice the last value
    /// counts.
    package var fields: [(name: String, value: String)] = []
    /// What went wrong, in its order.
    package var failures: [FormFailure] = []

    package init() {}
}

/// Why a file of a form did not become media, or why the form could not be read any further.
package struct FormFailure: Sendable {
    /// The name of the control; `nil` for the whole form.
    package var field: String?
    package var filename: String?
    package var error: UploadError
}

/// How much of everything but files a form may have.
package struct FormLimits: Sendable, Equatable {
    /// Text fields.
    package var maximumFields: Int
    /// Bytes of the names and values of all text fields together: they become metadata of each file after them.
    package var maximumFieldBytes: Int
    /// Bytes of refused files that are read and thrown away, so that the files after them are stored.
    package var maximumSkippedBytes: Int64

    package init(maximumFields: Int = 100, maximumFieldBytes: Int = 8192, maximumSkippedBytes: Int64 = 64 << 20) {
        self.maximumFields = maximumFields
        self.maximumFieldBytes = maximumFieldBytes
        self.maximumSkippedBytes = maximumSkippedBytes
    }
}
