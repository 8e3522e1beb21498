/// A failure during start, with a message for the operator.
package struct StartFailure: Error, CustomStringConvertible {
    package let description: String
    /// Whether a service that the start needs is away, so that the same step can succeed later.
    package let isUnreachable: Bool

    package init(_ description: String, isUnreachable: Bool = false) {
        self.description = description
        self.isUnreachable = isUnreachable
    }
}

/// Runs a step of the start and converts its error to a `StartFailure`.
package func starting<Success, Failure: Error>(_ body: () throws(Failure) -> Success) throws(StartFailure) -> Success {
    do throws(Failure) {
        return try body()
    } catch {
        throw StartFailure("\(error)")
    }
}
