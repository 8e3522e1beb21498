extension LoadedSettings {
    /// The configured admin key as a shell writes it, without showing it.
    package var adminKeyShellExpression: String {
        switch source(of: "adminKey") {
        case .secretFile(let path, _): "$(cat '\(path.replacing("'", with: "'\\''"))')"
        default: "$SLUICE_ADMIN_KEY"
        }
    }
}
