/// How long a server asks to wait (RFC 9110 §10.2.3).
package enum RetryAfter {
    /// Reads a field that another server has sent.
    ///
    /// - Parameters:
    ///   - field: `Retry-After`: seconds in digits, or an HTTP date.
    ///   - now: Unix seconds.
    /// - Returns: Seconds from now, finite and not negative; `nil` if there is no field, or it is neither.
    package static func seconds(_ field: String?, at now: Double) -> Double? {
        guard let field else { return nil }
        if !field.isEmpty, field.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            return Double(UInt32(field) ?? .max)
        }
        return HTTPDate.parse(field).map { max(0, Double($0) - now) }
    }
}
