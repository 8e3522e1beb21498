/// What is wrong with one field of a request.
package struct FieldProblem: Sendable, Equatable, Encodable {
    /// The name of the field.
    package let field: String
    /// What it must be, to be read after the name: "must be an integer".
    package let message: String

    package init(field: String, message: String) {
        self.field = field
        self.message = message
    }
}

/// A request for a signature that can not be met.
package struct InvalidSignatureRequest: Error, Sendable, Equatable {
    /// What to change, in one sentence; holds all `problems`.
    package let message: String
    /// Everything that is wrong with fields, the documented ones first; empty if the body is no JSON object.
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
