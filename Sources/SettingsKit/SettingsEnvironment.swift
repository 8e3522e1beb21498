/// Reads settings from environment variables that begin with `SLUICE_`.
struct SettingsEnvironment {
    /// Names the configuration file if no flag does.
    static let fileVariable = "SLUICE_CONFIG"

    /// Variables of clients, tests and benchmarks that share the environment with the gateway.
    private static let othersVariables: Set = ["SLUICE_API_KEY", "SLUICE_URL", "SLUICE_BINARY", "SLUICE_PEER_TUSD"]

    private let settings: [String: Setting]
    private let fileNames: [String: Setting]
    private var names: [String] { settings.keys.sorted() + fileNames.keys.sorted() + [Self.fileVariable] }

    init(_ catalog: SettingsCatalog) {
        settings = Dictionary(uniqueKeysWithValues: catalog.settings.map { ($0.environmentName, $0) })
        fileNames = Dictionary(
            uniqueKeysWithValues: catalog.settings.filter(\.isSecret).map { ($0.environmentFileName, $0) }
        )
    }

    /// Adds the values from the environment to `input`.
    func read(_ environment: [String: String], into input: inout SettingsInput) {
        for (name, value) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix("SLUICE_") {
            let source = SettingSource.environment(name: name)
            if let setting = settings[name] {
                guard environment[setting.environmentFileName] == nil || !setting.isSecret else {
                    let names = "\(name) and \(setting.environmentFileName)"
                    input.addConflict(setting, source: source, names: names)
                    continue
                }
                input.add(setting, value, from: source)
            } else if let setting = fileNames[name] {
                // The conflict is reported with the other variable.
                guard environment[setting.environmentName] == nil else { continue }
                input.add(setting, fromFile: value, namedBy: source)
            } else if name != Self.fileVariable, !Self.othersVariables.contains(name), !Self.isServiceLink(name, value)
            {
                let hint = NearestName.hint(name, among: names)
                input.add(SettingsProblem(key: name, source: source, message: "there is no such variable" + hint))
            }
        }
    }

    /// Whether Kubernetes set the variable for a service whose name begins with `sluice`.
    ///
    /// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    private static func isServiceLink(_ name: String, _ value: String) -> Bool {
        if name.hasSuffix("_SERVICE_HOST") || name.hasSuffix("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
            return true
        }
        if name.hasSuffix("_PORT"), value.contains("://") { return true }
        // SLUICE_PORT_8080_TCP_ADDR
        let parts = name.split(separator: "_")
        return parts.indices.dropFirst().dropLast().contains { index in
            parts[index - 1] == "PORT" && UInt16(parts[index]) != nil
                && ["TCP", "UDP", "SCTP"].contains(parts[index + 1])
        }
    }
}
