/// A failure during start, with a message for the operator.
package struct StartFailure: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// Runs a step of the start and converts its error to a `StartFailure`.
package func starting<Success, Failure: Error>(_ body: () throws(Failure) -> Success) throws(StartFailure) -> Success {
    do throws(Failure) {
        return try body()
    } catch {
        throw StartFailure("\(error)")
    }
}
