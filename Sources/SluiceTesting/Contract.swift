package import UploadCore

/// One demand that every adapter of an interface has to meet; a test runs it against a fresh adapter.
package struct Contract<Subject>: Sendable, CustomStringConvertible {
    /// The demand, as a sentence.
    package let description: String
    /// Throws `ContractViolation`, or what the adapter throws, when the demand is not met.
    package let check: @Sendable (Subject) async throws -> Void

    init(_ description: String, _ check: @escaping @Sendable (Subject) async throws -> Void) {
        self.description = description
        self.check = check
    }
}

/// An adapter did not do what its interface demands.
package struct ContractViolation: Error, CustomStringConvertible {
    package let description: String
}

/// Throws unless `actual` is `expected`.
func demand<Value: Equatable>(_ actual: Value, is expected: Value, line: UInt = #line) throws {
    if actual != expected {
        throw ContractViolation(description: "line \(line): expected \(expected), got \(actual)")
    }
}

/// The code of what `body` throws; `nil` if it throws nothing.
package func errorCode<Value>(_ body: () async throws(UploadError) -> Value) async -> UploadError.Code? {
    do throws(UploadError) {
        _ = try await body()
        return nil
    } catch {
        return error.code
    }
}
