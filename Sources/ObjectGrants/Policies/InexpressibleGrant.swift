/// The parts of a grant that a vendor's session policy cannot express.
package struct InexpressibleGrant: Error, Sendable, Equatable {
    package struct Problem: Sendable, Equatable {
        /// The name in requests for session tokens.
        package let field: String
        /// What to change; follows the field name in a message.
        package let message: String
    }

    /// Not empty.
    package let problems: [Problem]
}
