package import UploadModel

/// A requirement that every adapter of a port must meet; a test runs it against a fresh adapter.
package struct Contract<Subject>: Sendable, CustomStringConvertible {
    /// The requirement as a sentence.
    package let description: String
    /// Throws `ContractViolation`, or an error of the adapter, if the requirement is not met.
    package let check: @Sendable (Subject) async throws -> Void

    init(_ description: String, _ check: @escaping @Sendable (Subject) async throws -> Void) {
        self.description = description
        self.check = check
    }

    /// The same requirement for an adapter of which this port is only a part.
    func on<Adapter>(_ part: @escaping @Sendable (Adapter) -> Subject) -> Contract<Adapter> {
        Contract<Adapter>(description) { try await check(part($0)) }
    }
}

/// An adapter violates the contract of its port.
package struct ContractViolation: Error, CustomStringConvertible {
    package let description: String
}

/// Throws unless `actual` equals `expected`.
func demand<Value: Equatable>(_ actual: Value, is expected: Value, line: UInt = #line) throws {
    if actual != expected {
        throw ContractViolation(description: "line \(line): expected \(expected), got \(actual)")
    }
}

/// The code of the error that `body` throws; `nil` if it succeeds.
package func errorCode<Value>(_ body: () async throws(UploadError) -> Value) async -> UploadError.Code? {
    do throws(UploadError) {
        _ = try await body()
        return nil
    } catch {
        return error.code
    }
}
