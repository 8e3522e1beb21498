internal import Bytes

/// One check of `sluice doctor`.
package struct Diagnosis: Sendable, Equatable {
    package enum Status: String, Sendable, CaseIterable {
        case ok, warning, failed
    }

    package let status: Status
    /// What was checked: the key of a setting, or the name of a part of the gateway.
    package let check: String
    /// What was found, and what to change; without secrets.
    package let text: String

    static func ok(_ check: String, _ text: String) -> Diagnosis { Diagnosis(status: .ok, check: check, text: text) }

    static func warning(_ check: String, _ text: String) -> Diagnosis {
        Diagnosis(status: .warning, check: check, text: text)
    }

    static func failed(_ check: String, _ text: String) -> Diagnosis {
        Diagnosis(status: .failed, check: check, text: text)
    }

    /// One line for people.
    package var line: String {
        let single = text.split(whereSeparator: \.isNewline).joined(separator: "; ")
        let padding = String(repeating: " ", count: 8 - status.rawValue.count)
        return "\(status.rawValue)\(padding)\(check): \(single)"
    }

    /// One JSON object.
    package var json: [UInt8] {
        var writer = JSONObjectWriter(capacity: 200)
        writer.member("check", check)
        writer.member("status", status.rawValue)
        writer.member("text", text)
        return writer.finish()
    }
}
