internal import HTTPWire
package import SettingsKit

package struct CORSSettings: SettingsSection {
    package var isEnabled = true
    package var origins = Origins.any

    package enum Origins: Sendable, Equatable {
        case any
        /// Origins as browsers write them: lower case, no default port, no path.
        case only([String])
    }

    package init() {}

    package static let table: [Setting] = [
        setting("cors.enabled", \.isEnabled, .flag, "Whether web pages of other origins may use the gateway."),
        setting("cors.origins", \.origins, .origins, "Origins of the pages that may use the gateway."),
    ]
}

extension Settings {
    package var cors: CORSSettings {
        get { self[CORSSettings.self] }
        set { self[CORSSettings.self] = newValue }
    }
}

extension SettingFormat where Value == CORSSettings.Origins {
    package static let origins = SettingFormat(
        allowed: "* for every page, or origins separated by commas, such as https://app.example.com",
        isList: true,
        parse: { text in
            if ListText.trim(text[...]) == "*" { return .any }
            return ListText.parse(text, empty: nil, origin(in:)).map { .only($0) }
        },
        render: { origins in
            switch origins {
            case .any: "*"
            case .only(let list): list.joined(separator: ", ")
            }
        }
    )

    /// Scheme, host and port as a browser writes them (RFC 6454 §6.2).
    private static func origin(in text: String) -> String? {
        guard let target = try? RequestTarget(parsing: text), let authority = target.authority?.lowercased(),
            text.lowercased().hasSuffix("://" + authority),
            // Patterns are rejected: they would be compared literally and match nothing.
            !authority.contains("*")
        else { return nil }
        let scheme = text.prefix { $0 != ":" }.lowercased()
        let defaultPort = scheme == "https" ? ":443" : ":80"
        return "\(scheme)://"
            + (authority.hasSuffix(defaultPort) ? authority.dropLast(defaultPort.count) : authority[...])
    }
}
