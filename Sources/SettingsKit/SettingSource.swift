/// Where a value comes from.
package indirect enum SettingSource: Sendable, Equatable, CustomStringConvertible {
    /// The default.
    case standard
    /// The configuration file, with the line if known.
    case file(path: String, line: Int?)
    case environment(name: String)
    case flag(name: String)
    /// A file that holds a secret, and where its path was set.
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
