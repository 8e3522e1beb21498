/// The sections of a program, in the order of the documentation.
package struct SettingsCatalog: Sendable {
    let sections: [any SettingsSection.Type]
    /// All settings.
    package let settings: [Setting]

    package init(_ sections: [any SettingsSection.Type]) {
        self.sections = sections
        settings = sections.flatMap { $0.table }
    }
}
