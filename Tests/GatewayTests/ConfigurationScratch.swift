import Foundation

/// A directory of its own for the configuration files of one test; removed with the last reference.
final class ConfigurationScratch {
    private let directory: URL

    init() throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "sluice-configuration-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: directory)
    }

    /// Writes a file and returns its path.
    func file(_ name: String, _ text: String) throws -> String {
        try file(name, bytes: Array(text.utf8))
    }

    func file(_ name: String, bytes: [UInt8]) throws -> String {
        let url = directory.appending(path: name)
        try Data(bytes).write(to: url)
        return url.path
    }

    var path: String { directory.path }
}
