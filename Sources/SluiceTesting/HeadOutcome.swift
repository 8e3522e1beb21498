package import HTTPWire

/// The result of parsing, in a form that can be compared.
package enum HeadOutcome: Equatable, CustomStringConvertible {
    case parsed(Summary)
    case failed(HeadFailure)
    case incomplete

    package struct Summary: Equatable {
        package var method: String
        package var target: RequestTarget
        package var version: HTTPVersion
        package var fields: HTTPFields
        package var framing: BodyFraming
        package var consumed: Int
        package var keepsAlive: Bool
        package var expectsContinue: Bool

        package init(_ parsed: ParsedHead) {
            method = parsed.head.method.rawValue
            target = parsed.head.target
            version = parsed.head.version
            fields = parsed.head.fields
            framing = parsed.framing
            consumed = parsed.consumed
            keepsAlive = parsed.keepsAlive
            expectsContinue = parsed.expectsContinue
        }
    }

    package var description: String {
        switch self {
        case .parsed(let summary): "parsed \(summary.method) \(summary.target.rawPath), \(summary.consumed) bytes"
        case .failed(let failure): "\(failure.status.code) \(failure.reason)"
        case .incomplete: "incomplete"
        }
    }

    package var status: Int? {
        if case .failed(let failure) = self { failure.status.code } else { nil }
    }

    /// Parses `bytes`, passing ever longer prefixes that end at `cuts`.
    package static func of(_ bytes: [UInt8], cuts: [Int] = [], limits: HeadLimits = HeadLimits()) -> HeadOutcome {
        var parser = RequestHeadParser(limits: limits)
        for cut in cuts + [bytes.count] {
            do {
                if let parsed = try parser.parse(bytes.span.extracting(0..<cut)) { return .parsed(Summary(parsed)) }
            } catch {
                return .failed(error)
            }
        }
        return .incomplete
    }

    package static func of(_ text: String, cuts: [Int] = [], limits: HeadLimits = HeadLimits()) -> HeadOutcome {
        of(Array(text.utf8), cuts: cuts, limits: limits)
    }
}
