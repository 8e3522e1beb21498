/// A value that cannot be written by accident: not by `print`, interpolation, `dump`, a debugger or a reflecting
/// logger.
package struct Secret<Value: Sendable>: Sendable {
    /// The value itself, for the one place that uses it.
    package let exposed: Value

    package init(_ value: Value) {
        exposed = value
    }
}

extension Secret: Equatable where Value: Equatable {}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package var description: String { "<redacted>" }

    package var debugDescription: String { description }

    package var customMirror: Mirror { Mirror(self, children: [] as [Mirror.Child]) }
}
