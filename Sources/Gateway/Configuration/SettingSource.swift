/// Where a value comes from.
package indirect enum SettingSource: Sendable, Equatable, CustomStringConvertible {
    /// Nobody has set it.
    case standard
    /// The configuration file, with the line if it is known.
    case file(path: String, line: Int?)
    case environment(name: String)
    case flag(name: String)
    /// A file that holds a secret, and where that file was named.
    case secretFile(path: String, namedBy: SettingSource)

    package var description: String {
        switch self {
        case .standard: "default"
        case .file(let path, let line): line.map { "\(path):\($0)" } ?? path
        case .environment(let name): "environment variable \(name)"
        case .flag(let name): "flag \(name)"
        case .secretFile(let path, let namedBy): "file \(path), named by \(namedBy)"
        }
    }
}
