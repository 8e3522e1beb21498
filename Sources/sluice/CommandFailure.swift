/// A command could not do its work.
///
/// Printed without the usage of the command, unlike `ValidationError`, which is for wrong arguments.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
