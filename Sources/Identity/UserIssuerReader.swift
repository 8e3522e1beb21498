internal import Bytes
internal import Foundation
internal import HTTPWire
internal import RESTKit
internal import SettingsKit
internal import Signing
internal import UploadModel

/// Reads the list of issuers from JSON, and finds everything that is wrong with it.
enum UserIssuerReader {
    private static let maximumCount = 20

    /// - Returns: `nil` if the text is not a list in JSON.
    static func list(in text: String) -> UserIssuerList? {
        let bytes = Array(text.utf8)
        guard JSONSyntax.isValid(bytes),
            case .array(let entries)? = JSONValue(json: bytes),
            entries.count <= maximumCount
        else { return nil }
        var (issuers, problems): ([UserIssuerSettings], [UserIssuerList.Problem]) = ([], [])
        if !JSONNames.areUnique(in: bytes) {
            problems.append(.init(place: "", message: "has a name twice"))
        }
        for (index, entry) in entries.enumerated() {
            guard case .object(let members) = entry else {
                problems.append(.init(place: "[\(index)]", message: "must be an object with issuer and audience"))
                continue
            }
            var reader = UserIssuerEntry(members, place: "[\(index)]")
            if let issuer = reader.issuer() { issuers.append(issuer) }
            problems += reader.problems
        }
        return UserIssuerList(text: text, issuers: issuers, problems: problems + conflicts(among: issuers))
    }

    /// Issuers must not be confused with each other, nor their users.
    private static func conflicts(among issuers: [UserIssuerSettings]) -> [UserIssuerList.Problem] {
        var problems: [UserIssuerList.Problem] = []
        for (index, one) in issuers.enumerated() {
            func add(_ name: String, _ message: String) {
                problems.append(.init(place: "[\(index)].\(name)", message: message))
            }
            if issuers.count > 1, one.subjectPrefix == nil {
                add(
                    "subjectPrefix",
                    "must be set, because there are several issuers: the same for shared users, or another"
                )
            }
            for other in issuers[..<index] {
                if other.issuer == one.issuer { add("issuer", "is there twice; name all its audiences in one entry") }
                guard let mine = one.subjectPrefix, let theirs = other.subjectPrefix else { continue }
                if mine != theirs, mine.hasPrefix(theirs) || theirs.hasPrefix(mine) {
                    add("subjectPrefix", "must not begin with that of another issuer, or users could be confused")
                }
            }
        }
        return problems
    }
}

/// One entry while it is read.
private struct UserIssuerEntry {
    private(set) var problems: [UserIssuerList.Problem] = []
    private var members: JSONMembers
    private let place: String

    init(_ members: JSONMembers, place: String) {
        self.members = members
        self.place = place
    }

    /// - Returns: `nil` if something is wrong.
    mutating func issuer() -> UserIssuerSettings? {
        guard let sub = ClaimName("sub") else { return nil }
        var issuer = UserIssuerSettings(subjectClaim: claim("subjectClaim") ?? sub)
        issuer.issuer =
            value("issuer", "1 to 255 visible ASCII characters, as in the tokens") { text in
                (1...255).contains(text.utf8.count) && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } ? text : nil
            } ?? ""
        if issuer.issuer.isEmpty { reject("issuer", "must be set") }
        issuer.audiences = texts("audience", "names") { (1...255).contains($0.utf8.count) } ?? []
        if issuer.audiences.isEmpty { reject("audience", "must be set: a token must be for one of these") }
        issuer.keys = keys(of: issuer.issuer)
        issuer.authorities = value("authorities", SettingFormat<String>.path)
        let algorithms = JSONWebAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")
        if let names = texts("algorithms", algorithms, { JSONWebAlgorithm(rawValue: $0) != nil }) {
            issuer.algorithms = Set(names.compactMap { JSONWebAlgorithm(rawValue: $0) })
        }
        readSubject(into: &issuer)
        readLimits(into: &issuer)
        issuer.maximumLifetime =
            seconds("maximumLifetime", .seconds(60) ... .seconds(30 * 86_400)) ?? issuer.maximumLifetime
        issuer.mintedLifetime =
            seconds("mintedLifetime", .seconds(60) ... .seconds(7 * 86_400)) ?? issuer.mintedLifetime
        issuer.leeway = seconds("leeway", .zero ... .seconds(300)) ?? issuer.leeway
        for name in members.keys.sorted() { reject(name, "there is no such setting") }
        return problems.isEmpty ? issuer : nil
    }

    private mutating func keys(of issuer: String) -> UserIssuerSettings.Keys {
        let url = value("jwksUrl", SettingFormat<String>.identityURL)
        let file = value("keyFile", SettingFormat<String>.path)
        switch (url, file) {
        case (let url?, nil): return .at(url)
        case (nil, let file?): return .file(file)
        case (_?, _?): reject("keyFile", "must not be there beside jwksUrl")
        case (nil, nil):
            if !issuer.isEmpty, problems.isEmpty, SettingFormat<String>.identityURL.parse(issuer) == nil {
                reject("issuer", "must be \(SettingFormat<String>.identityURL.allowed); or set jwksUrl or keyFile")
            }
        }
        return .discovered
    }

    private mutating func readSubject(into issuer: inout UserIssuerSettings) {
        issuer.subjectPrefix = value("subjectPrefix", "at most 100 bytes without control characters") { text in
            text.utf8.count <= 100 && (text.isEmpty || SubjectText.isValid(text)) ? text : nil
        }
        let scopes: [Scope] = [.upload, .read, .mint, .delete]
        let names = scopes.map(\.rawValue).joined(separator: ", ")
        if let given = texts("scopes", names, { Scope(rawValue: $0).map(scopes.contains) ?? false }) {
            issuer.scopes = Set(given.compactMap { Scope(rawValue: $0) })
        }
        issuer.scopeClaim = claim("scopeClaim")
        issuer.scopePrefix =
            value("scopePrefix", "at most 100 visible ASCII characters") { text in
                text.utf8.count <= 100 && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } ? text : nil
            } ?? ""
    }

    private mutating func readLimits(into issuer: inout UserIssuerSettings) {
        issuer.maximumBytes = value("maximumBytes", SettingFormat<Int64>.bytes(0...Int64.max))
        issuer.maximumBytesClaim = claim("maximumBytesClaim")
        issuer.contentTypes = texts("contentTypes", "\(MediaTypeText.hint)", MediaTypeText.isPattern) ?? []
        issuer.contentTypesClaim = claim("contentTypesClaim")
        switch members.removeValue(forKey: "metadata") {
        case nil, .null?: break
        case .object(let values)? where values.count <= 32:
            for (name, value) in values.sorted(by: { $0.key < $1.key }) {
                // The names that `Upload-Metadata` allows (tus 1.0.0).
                let isName =
                    (1...255).contains(name.utf8.count)
                    && name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x2C }
                guard isName, case .string(let text) = value, let claim = ClaimName(text) else {
                    reject("metadata.\(name)", "must be the name of a claim, and the key without spaces and commas")
                    continue
                }
                issuer.metadata[name] = claim
            }
        default: reject("metadata", "must be an object of at most 32 names, each with the name of a claim")
        }
    }

    // MARK: Members

    private mutating func reject(_ name: String, _ message: String) {
        let found = UserIssuerList.Problem(place: "\(place).\(name)", message: message)
        if !problems.contains(where: { $0.place == found.place }) { problems.append(found) }
    }

    private mutating func value<Value>(
        _ name: String,
        _ allowed: String,
        _ parse: (String) -> Value?
    ) -> Value? {
        let text: String
        switch members.removeValue(forKey: name) {
        case nil, .null?: return nil
        case .string(let given)?: text = given
        case .integer(let number)?: text = String(number)
        default:
            reject(name, "allowed: \(allowed)")
            return nil
        }
        let value = parse(text)
        if value == nil { reject(name, "allowed: \(allowed)") }
        return value
    }

    private mutating func value<Value>(_ name: String, _ format: SettingFormat<Value>) -> Value? {
        value(name, format.allowed, format.parse)
    }

    private mutating func seconds(_ name: String, _ range: ClosedRange<Duration>) -> Int64? {
        value(name, SettingFormat<Duration>.duration(range))?.components.seconds
    }

    private mutating func claim(_ name: String) -> ClaimName? {
        value(name, "the name of a claim, or a JSON Pointer such as /app_metadata/plan") { ClaimName($0) }
    }

    /// A list, or texts separated by commas.
    private mutating func texts(_ name: String, _ allowed: String, _ isValid: (String) -> Bool) -> [String]? {
        let found: [String]
        switch members.removeValue(forKey: name) {
        case nil, .null?: return nil
        case .string(let text)?:
            found = text.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
        case .array(let values)?:
            found = values.map { value in if case .string(let text) = value { text } else { "" } }
        default: found = []
        }
        guard !found.isEmpty, found.allSatisfy(isValid) else {
            reject(name, "allowed: a list, or separated by commas: \(allowed)")
            return nil
        }
        return found
    }
}
