internal import Bytes

/// What a certificate authority says of a request that it refuses (RFC 7807, RFC 8555 §6.7).
package struct ACMEProblem: Sendable, Equatable {
    /// Without the common beginning of ACME's own types: `badNonce`, `rateLimited`.
    package let type: String
    package let detail: String

    private static let prefix = "urn:ietf:params:acme:error:"
    private static let maximumLength = 500

    init(_ members: JSONMembers) {
        let type = members.text("type") ?? "unknown"
        self.type = Self.cut(type.hasPrefix(Self.prefix) ? String(type.dropFirst(Self.prefix.count)) : type)
        detail = Self.cut(members.text("detail") ?? "")
    }

    /// For a log: bounded, and without control characters.
    private static func cut(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.prefix(maximumLength).filter { $0.value >= 0x20 }))
    }
}

/// Why there is no certificate; for the operator.
package enum ACMEFailure: Error, Sendable, Equatable {
    /// There was no response.
    case unreachable(String)
    /// Another status than is due, with the seconds after which one may ask again.
    case refused(ACMEProblem, status: Int, retryAfter: Double?)
    /// The response is not what RFC 8555 says.
    case unexpected(String)
    /// The authority did not accept that the name is this gateway's, or ended the order.
    case invalid(name: String?, ACMEProblem?)
    /// The authority did not decide in time.
    case late(String)
    /// What it issued cannot be used.
    case unusable(String)
    /// Account or certificate could not be read or written here.
    case storage(String)
    /// The gateway stops.
    case cancelled
}

extension ACMEFailure: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unreachable(let reason): "the certificate authority cannot be reached: \(reason)"
        case .refused(let problem, let status, _):
            "the certificate authority refused a request with status \(status): \(problem.type): \(problem.detail)"
        case .unexpected(let what): "the certificate authority's response is not that of ACME: \(what)"
        case .invalid(let name, let problem):
            (name.map { "the certificate authority could not validate \($0)" }
                ?? "the certificate authority ended the order")
                + (problem.map { ": \($0.type): \($0.detail)" } ?? "")
        case .late(let what): "the certificate authority did not decide in time: \(what)"
        case .unusable(let reason): "the certificate that was issued cannot be used: \(reason)"
        case .storage(let reason): "the files of the certificate: \(reason)"
        case .cancelled: "the gateway stops"
        }
    }

    /// Whether the authority itself was not at fault or did not work: another attempt costs it nothing.
    var isTransient: Bool {
        switch self {
        case .unreachable, .storage, .cancelled: true
        case .refused(_, let status, _): status >= 500
        case .unexpected, .invalid, .late, .unusable: false
        }
    }

    /// Seconds to wait at least.
    var retryAfter: Double? { if case .refused(_, _, let seconds) = self { seconds } else { nil } }
}

extension JSONMembers {
    /// A member that is a text.
    func text(_ name: String) -> String? {
        if case .string(let text)? = self[name] { text } else { nil }
    }

    func texts(_ name: String) -> [String] {
        guard case .array(let values)? = self[name] else { return [] }
        return values.compactMap { if case .string(let text) = $0 { text } else { nil } }
    }
}
