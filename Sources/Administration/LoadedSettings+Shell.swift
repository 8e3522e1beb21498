package import SettingsKit

extension LoadedSettings {
    /// The configured admin key as a shell expression that does not reveal it.
    package var adminKeyShellExpression: String {
        switch source(of: "adminKey") {
        case .secretFile(let path, _): "$(cat '\(path.replacing("'", with: "'\\''"))')"
        default: "$SLUICE_ADMIN_KEY"
        }
    }
}
