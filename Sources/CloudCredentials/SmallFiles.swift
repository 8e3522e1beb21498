internal import Foundation
internal import SystemIO

/// Reads files with credentials and tokens, on a thread that may block.
struct SmallFiles: Sendable {
    private static let limit = 1 << 20

    /// The directory that replaces `~`.
    let home: String
    let pool: BlockingPool

    enum Content: Sendable {
        case text(String)
        case missing
        /// A reason for the operator, such as `it cannot be read`.
        case unusable(String)
    }

    /// The path with a leading `~` replaced.
    func path(_ path: String) -> String { path.hasPrefix("~/") ? home + path.dropFirst() : path }

    func read(_ path: String) async -> Content {
        await pool.run {
            guard let file = FileHandle(forReadingAtPath: path) else {
                return FileManager.default.fileExists(atPath: path) ? .unusable("it cannot be read") : .missing
            }
            defer { try? file.close() }
            guard let data = try? file.read(upToCount: Self.limit + 1) ?? Data() else {
                return .unusable("it cannot be read")
            }
            guard data.count <= Self.limit else { return .unusable("it is larger than \(Self.limit) bytes") }
            guard let text = String(validating: data, as: UTF8.self) else { return .unusable("it is not UTF-8") }
            return .text(text)
        }
    }

    /// The token in a file, without surrounding white space.
    ///
    /// - Throws: The problem of the file.
    func token(at path: String) async throws(CredentialsError) -> String {
        let path = self.path(path)
        switch await read(path) {
        case .missing: throw CredentialsError("there is no file \(path)")
        case .unusable(let reason): throw CredentialsError("the file \(path) cannot be used: \(reason)")
        case .text(let text):
            let token = text.trimmingCharacters(in: .whitespacesAndNewlines)
            guard !token.isEmpty else { throw CredentialsError("the file \(path) is empty") }
            return token
        }
    }
}
