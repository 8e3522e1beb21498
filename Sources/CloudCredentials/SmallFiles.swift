internal import Foundation
internal import Transport

/// Reads files of credentials and tokens, on a thread that may block.
struct SmallFiles: Sendable {
    private static let limit = 1 << 20

    /// What `~` stands for.
    let home: String
    let pool: BlockingPool

    enum Content: Sendable {
        case text(String)
        case missing
        /// For the operator: `it can not be read`.
        case unusable(String)
    }

    /// The path without `~`, with which it may begin.
    func path(_ path: String) -> String { path.hasPrefix("~/") ? home + path.dropFirst() : path }

    func read(_ path: String) async -> Content {
        await pool.run {
            guard let file = FileHandle(forReadingAtPath: path) else {
                return FileManager.default.fileExists(atPath: path) ? .unusable("it can not be read") : .missing
            }
            defer { try? file.close() }
            guard let data = try? file.read(upToCount: Self.limit + 1) ?? Data() else {
                return .unusable("it can not be read")
            }
            guard data.count <= Self.limit else { return .unusable("it is larger than \(Self.limit) bytes") }
            guard let text = String(validating: data, as: UTF8.self) else { return .unusable("it is not UTF-8") }
            return .text(text)
        }
    }

    /// The token in a file, without white space around it.
    ///
    /// - Throws: What is wrong with the file.
    func token(at path: String) async throws(CredentialsError) -> String {
        let path = self.path(path)
        switch await read(path) {
        case .missing: throw CredentialsError("there is no file \(path)")
        case .unusable(let reason): throw CredentialsError("the file \(path) is of no use: \(reason)")
        case .text(let text):
            let token = text.trimmingCharacters(in: .whitespacesAndNewlines)
            guard !token.isEmpty else { throw CredentialsError("the file \(path) is empty") }
            return token
        }
    }
}
