/// What is wrong with one field of a request.
package struct FieldProblem: Sendable, Equatable, Encodable {
    /// The name of the field.
    package let field: String
    /// The rule, worded to follow the name: "must be an integer".
    package let message: String

    package init(field: String, message: String) {
        self.field = field
        self.message = message
    }
}

/// An invalid request for a signature.
package struct InvalidSignatureRequest: Error, Sendable, Equatable {
    /// What to change, in one sentence; contains all `problems`.
    package let message: String
    /// All invalid fields, the documented ones first; empty if the body is not a JSON object.
    package let problems: [FieldProblem]

    init(message: String) {
        self.message = message
        problems = []
    }

    init(problems: [FieldProblem]) {
        message = problems.map { "\($0.field) \($0.message)" }.joined(separator: "; ") + "."
        self.problems = problems
    }
}
