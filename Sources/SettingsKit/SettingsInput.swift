internal import Foundation

/// The texts that were given for settings, in the order in which later ones win, and what is wrong with them so far.
struct SettingsInput {
    struct Given {
        let setting: Setting
        let text: String
        let source: SettingSource
    }

    private(set) var given: [Given] = []
    private(set) var problems: [SettingsProblem] = []

    mutating func add(_ setting: Setting, _ text: String, from source: SettingSource) {
        given.append(Given(setting: setting, text: text, source: source))
    }

    mutating func add(_ problem: SettingsProblem) {
        problems.append(problem)
    }

    /// Takes a secret from the file at `path`; newlines at its end do not belong to it.
    mutating func add(_ setting: Setting, fromFile path: String, namedBy source: SettingSource) {
        switch TextFile.read(path, limit: 65536) {
        case .success(var text):
            while let last = text.last, last.isNewline { text.removeLast() }
            add(setting, text, from: .secretFile(path: path, namedBy: source))
        case .failure(let failure):
            // Perhaps it is the secret, which was given in place of its file.
            let isPath = path.hasPrefix("/") || path.hasPrefix(".")
            let value = isPath ? path : SettingsProblem.redacted
            add(SettingsProblem(key: setting.key, source: source, value: value, message: failure.reason))
        }
    }

    /// A secret is given by value and by file in the same place.
    mutating func addConflict(_ setting: Setting, source: SettingSource, names: String) {
        add(
            SettingsProblem(
                key: setting.key,
                source: source,
                message: "set only one of \(names)"
            )
        )
    }
}

/// A small file with text.
enum TextFile {
    struct Failure: Error {
        let reason: String
    }

    /// The text of the file at `path`.
    ///
    /// - Parameters:
    ///   - path: Relative to the working directory.
    ///   - limit: Most bytes.
    /// - Returns: The text, or why there is none.
    static func read(_ path: String, limit: Int) -> Result<String, Failure> {
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory) else {
            return .failure(Failure(reason: "there is no such file"))
        }
        guard !isDirectory.boolValue else { return .failure(Failure(reason: "this is a directory, not a file")) }
        // Devices and pipes (`/dev/stdin`) are allowed, so the size is not known before.
        guard let file = FileHandle(forReadingAtPath: path), let data = try? file.read(upToCount: limit + 1) ?? Data()
        else { return .failure(Failure(reason: "the file cannot be read")) }
        guard data.count <= limit else { return .failure(Failure(reason: "the file is larger than \(limit) bytes")) }
        guard let text = String(validating: data, as: UTF8.self) else {
            return .failure(Failure(reason: "the file is not UTF-8"))
        }
        return .success(text)
    }
}
