/// The settings of one module: their values with defaults, and a table of how they are written.
///
/// A new setting is a property plus an entry in `table`. The gateway lists all sections in `SettingsCatalog`.
package protocol SettingsSection: Sendable, Equatable {
    /// Creates the section with its defaults.
    init()
    /// Its settings, in documentation order.
    static var table: [Setting] { get }
    /// Checks the constraints between settings.
    ///
    /// - Parameters:
    ///   - settings: All settings. A section sees its own and those of targets it depends on.
    ///   - demands: Collects the violated constraints.
    static func check(_ settings: Settings, _ demands: inout SettingsDemands)
}

extension SettingsSection {
    package static func check(_ settings: Settings, _ demands: inout SettingsDemands) {}

    /// A setting that always has a value.
    package static func setting<Value: Sendable>(
        _ key: String,
        _ path: any WritableKeyPath<Self, Value> & Sendable,
        _ format: SettingFormat<Value>,
        _ help: String
    ) -> Setting {
        Setting(key, path, format, isSecret: false, help: help)
    }

    /// A setting that may be absent.
    package static func setting<Value: Sendable>(
        _ key: String,
        _ path: any WritableKeyPath<Self, Value?> & Sendable,
        optional format: SettingFormat<Value>,
        _ help: String
    ) -> Setting {
        Setting(key, path, format.optional, isSecret: false, help: help)
    }

    /// A secret, which may be absent.
    package static func setting<Value: Sendable>(
        _ key: String,
        _ path: any WritableKeyPath<Self, Secret<Value>?> & Sendable,
        secret format: SettingFormat<Value>,
        _ help: String
    ) -> Setting {
        Setting(key, path, format.secret.optional, isSecret: true, help: help)
    }
}

/// The values of all sections; a section that was never set has its defaults.
package struct Settings: Sendable, Equatable {
    private var sections: [ObjectIdentifier: any SettingsSection] = [:]

    package init() {}

    /// The values of a section.
    ///
    /// Read this at start, not per request: the section is looked up by type.
    package subscript<Section: SettingsSection>(_ section: Section.Type) -> Section {
        get { sections[ObjectIdentifier(section)] as? Section ?? Section() }
        set { sections[ObjectIdentifier(section)] = newValue }
    }

    package static func == (left: Settings, right: Settings) -> Bool {
        left.sections.values.allSatisfy { right.has($0) } && right.sections.values.allSatisfy { left.has($0) }
    }

    private func has<Section: SettingsSection>(_ section: Section) -> Bool { self[Section.self] == section }
}

/// Collects violated constraints between settings.
package struct SettingsDemands {
    private let sources: [String: SettingSource]
    private(set) var problems: [SettingsProblem] = []

    init(sources: [String: SettingSource]) { self.sources = sources }

    /// - Parameters:
    ///   - isRight: Whether the constraint is met.
    ///   - key: The setting at fault.
    ///   - other: The setting that causes the constraint; the problem names its source.
    ///   - message: What to do.
    package mutating func demand(_ isRight: Bool, _ key: String, because other: String, _ message: String) {
        guard !isRight else { return }
        let source = sources[other] ?? sources[key] ?? .standard
        problems.append(SettingsProblem(key: key, source: source, message: message))
    }

    /// Requires that two settings are set together or not at all.
    package mutating func pair(_ first: String, _ hasFirst: Bool, _ second: String, _ hasSecond: Bool) {
        demand(hasFirst || !hasSecond, first, because: second, "must be set too, because \(second) is")
        demand(hasSecond || !hasFirst, second, because: first, "must be set too, because \(first) is")
    }
}
