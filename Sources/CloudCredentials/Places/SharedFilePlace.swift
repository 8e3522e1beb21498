internal import Foundation

/// A profile of the shared credentials file: AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE, default `~/.aws/credentials`
/// and `default`.
///
/// "Shared config and credentials files" (AWS SDKs and Tools Reference Guide).
struct SharedFilePlace: CredentialsPlace {
    /// Keys of credential sources that are not supported.
    private static let unsupported = ["role_arn", "credential_process", "sso_session", "sso_start_url"]

    let environment: CredentialsEnvironment
    let files: SmallFiles

    private var path: String { files.path(environment["AWS_SHARED_CREDENTIALS_FILE"] ?? "~/.aws/credentials") }

    var name: String { "the file \(path)" }

    func fetch() async throws(CredentialsError) -> Finding {
        let name = environment["AWS_PROFILE"] ?? "default"
        switch await files.read(path) {
        case .missing: return try nothing("there is none")
        case .unusable(let reason): return try nothing(reason)
        case .text(let text):
            guard let profile = CredentialsProfile(name, in: text) else {
                return try nothing("it has no profile \(name)")
            }
            return try Self.credentials(of: profile, name)
        }
    }

    /// A missing profile is an error only if AWS_PROFILE names it.
    private func nothing(_ reason: String) throws(CredentialsError) -> Finding {
        guard let name = environment["AWS_PROFILE"] else { return .nothing(reason) }
        throw CredentialsError("AWS_PROFILE names \(name), but \(reason)")
    }

    private static func credentials(
        of profile: CredentialsProfile,
        _ name: String
    ) throws(CredentialsError) -> Finding {
        // The keys next to it belong to an identity that may assume the role; its own permissions can differ.
        if let key = unsupported.first(where: { profile[$0] != nil }) {
            throw CredentialsError("profile \(name) has \(key), which is not supported")
        }
        guard let id = profile["aws_access_key_id"] else {
            return .nothing("profile \(name) has no aws_access_key_id")
        }
        guard let secret = profile["aws_secret_access_key"] else {
            throw CredentialsError("profile \(name) has an aws_access_key_id, but no aws_secret_access_key")
        }
        let token = profile["aws_session_token"]
        guard let found = FetchedCredentials(id: id, secret: secret, token: token, .untilReplaced) else {
            throw CredentialsError("profile \(name) contains characters other than visible ASCII")
        }
        return .found(found)
    }
}

/// The values of one profile.
struct CredentialsProfile {
    private var values: [String: String] = [:]

    /// - Returns: `nil` if no section has this name. The last of several values counts.
    init?(_ name: String, in text: String) {
        var isThere = false
        var isInside = false
        /// Indentation of the last key of the section.
        var indent: Int?
        for line in text.split(whereSeparator: \.isNewline) {
            let moved = line.prefix(while: \.isWhitespace).count
            let line = line.dropFirst(moved)
            guard let first = line.first, first != "#", first != ";" else { continue }
            // A further indented line belongs to the previous value, which is not needed here.
            if let indent, moved > indent { continue }
            if first == "[" {
                isInside = line.dropFirst().prefix { $0 != "]" }.trimmingCharacters(in: .whitespaces) == name
                isThere = isThere || isInside
                indent = nil
            } else if let sign = line.firstIndex(of: "=") {
                indent = moved
                let key = line[..<sign].trimmingCharacters(in: .whitespaces).lowercased()
                if isInside { values[key] = Self.value(line[line.index(after: sign)...]) }
            }
        }
        guard isThere else { return nil }
    }

    /// `nil` for an empty value.
    subscript(_ key: String) -> String? { values[key].flatMap { $0.isEmpty ? nil : $0 } }

    /// The value without a trailing comment.
    private static func value(_ text: Substring) -> String {
        var previous: Character = " "
        let end = text.firstIndex { character in
            defer { previous = character }
            return (character == "#" || character == ";") && previous.isWhitespace
        }
        return text[..<(end ?? text.endIndex)].trimmingCharacters(in: .whitespaces)
    }
}
