/// Names one span of a trace, as it travels between services (W3C Trace Context, https://www.w3.org/TR/trace-context/).
package struct TraceContext: Sendable, Equatable {
    /// 16 bytes, not all zero.
    package let traceHigh: UInt64
    package let traceLow: UInt64
    /// 8 bytes, not zero.
    package let spanID: UInt64
    /// Whether the spans of this trace are recorded.
    package let isSampled: Bool
    /// Field `tracestate`: of other vendors, passed on unchanged; empty if there is none.
    package let state: String

    package init(traceHigh: UInt64, traceLow: UInt64, spanID: UInt64, isSampled: Bool, state: String = "") {
        self.traceHigh = traceHigh
        self.traceLow = traceLow
        self.spanID = spanID
        self.isSampled = isSampled
        self.state = state
    }

    /// A new trace.
    package static func root(isSampled: (_ traceLow: UInt64) -> Bool) -> TraceContext {
        let low = UInt64.random(in: 1 ... .max)
        return TraceContext(
            traceHigh: .random(in: 0 ... .max),
            traceLow: low,
            spanID: .random(in: 1 ... .max),
            isSampled: isSampled(low)
        )
    }

    /// Another span of this trace.
    package func child() -> TraceContext {
        TraceContext(
            traceHigh: traceHigh,
            traceLow: traceLow,
            spanID: .random(in: 1 ... .max),
            isSampled: isSampled,
            state: state
        )
    }

    /// Reads a field `traceparent` (§3.2); `nil` if it is malformed, and a new trace begins.
    ///
    /// - Parameters:
    ///   - parent: The value of the field. Of versions after 00, what follows the flags is ignored (§3.2.4).
    ///   - state: Field `tracestate`; left out if it is longer than 512 bytes or cannot be sent.
    package init?(parent: String, state: String? = nil) {
        let bytes = Array(parent.utf8)
        guard bytes.count >= 55, bytes[2] == Self.dash, bytes[35] == Self.dash, bytes[52] == Self.dash,
            let version = Self.number(bytes[0..<2]), version != 0xFF,
            version == 0 ? bytes.count == 55 : bytes.count == 55 || bytes[55] == Self.dash,
            let high = Self.number(bytes[3..<19]), let low = Self.number(bytes[19..<35]), high != 0 || low != 0,
            let span = Self.number(bytes[36..<52]), span != 0, let flags = Self.number(bytes[53..<55])
        else { return nil }
        let state = state ?? ""
        let isSendable = state.utf8.count <= 512 && state.utf8.allSatisfy { (0x20...0x7E).contains($0) }
        self.init(
            traceHigh: high,
            traceLow: low,
            spanID: span,
            isSampled: flags & 1 == 1,
            state: isSendable ? state : ""
        )
    }

    /// The value of a field `traceparent` for what this span calls.
    package var parent: String { "00-\(traceID)-\(spanText)-\(isSampled ? "01" : "00")" }

    /// The fields of a request that this span makes.
    package var fields: [(name: String, value: String)] {
        var fields = [(name: "traceparent", value: parent)]
        if !state.isEmpty { fields.append((name: "tracestate", value: state)) }
        return fields
    }

    /// 32 hexadecimal digits.
    package var traceID: String { Self.text(traceHigh) + Self.text(traceLow) }

    /// 16 hexadecimal digits.
    package var spanText: String { Self.text(spanID) }

    package static func text(_ number: UInt64) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    private static let dash = UInt8(ascii: "-")

    /// Only digits and letters in lower case are allowed.
    private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
        var number: UInt64 = 0
        for byte in digits {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): number = number << 4 | UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): number = number << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return number
    }
}
