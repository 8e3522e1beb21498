/// What of a grant a vendor's session policy has no words for.
package struct InexpressibleGrant: Error, Sendable, Equatable {
    package struct Problem: Sendable, Equatable {
        /// As requests for session tokens name it.
        package let field: String
        /// What to change, to be read behind the field.
        package let message: String
    }

    /// Not empty.
    package let problems: [Problem]
}
