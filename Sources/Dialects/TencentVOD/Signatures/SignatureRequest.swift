internal import Bytes
internal import Foundation

/// The body of a request for a signature: all parameters of a client upload signature, all optional.
///
/// Vendor: "Signature for Upload from Client" (documents 266/33922 and 266/9221); the limits of the two contexts are those
/// of `ApplyUpload` in VOD API 3.0. Characters are counted as Unicode scalars.
package struct SignatureRequest: Sendable, Equatable {
    /// The signing secret id, as a check only.
    package var secretID: String?
    /// Unix seconds; now if not given.
    package var currentTimeStamp: Int64?
    /// Unix seconds, at most 7776000 after `currentTimeStamp`; in place of `expiresIn`.
    package var expireTime: Int64?
    /// 0 to 4294967295; by default different for each signature.
    package var random: Int64?
    package var classID: Int64?
    /// 1 to 1024 characters.
    package var procedure: String?
    /// -10 to 10; only with `procedure`.
    package var taskPriority: Int64?
    /// `Finish`, `Change` or `None`; only with `procedure`.
    package var taskNotifyMode: String?
    /// At most 250 characters; signed as it is.
    package var sourceContext: String?
    package var oneTimeValid: Bool?
    /// Not negative.
    package var vodSubAppID: Int64?
    /// At most 1000 characters.
    package var sessionContext: String?
    /// Lower-case letters, digits and hyphens.
    package var storageRegion: String?
    /// Seconds from `currentTimeStamp` to `expireTime`, 1 to 7776000; `defaultLifetime` if neither is given.
    package var expiresIn: Int64?
    /// The app user who will upload, 1 to 250 characters; see `TencentSignatureIssuer` for its effect.
    package var subject: String?
    /// Largest size of a file in bytes; only in `relay` mode.
    package var maximumBytes: Int64?
    /// Allowed media types, `type/subtype` or `type/*`; only in `relay` mode.
    package var contentTypes: [String]?

    /// Default lifetime of a signature in seconds: one day, as in the vendor's samples.
    ///
    /// Mobile SDKs send the first signature again after the last byte, and resume an upload within one day, so with a
    /// shorter lifetime long uploads would fail at their end.
    package static let defaultLifetime: Int64 = 86_400

    /// A request with all defaults.
    package init() {}

    /// Parses the body of an HTTP request: a JSON object in UTF-8 (RFC 8259), or nothing, which counts as an empty
    /// object.
    ///
    /// - Throws: An error that lists every field that is unknown, repeated, or of the wrong JSON type.
    ///   `TencentSignatureIssuer` checks the values.
    package init(json: [UInt8]) throws(InvalidSignatureRequest) {
        // Fast path: most apps use the defaults.
        guard !json.isEmpty, json != Array("{}".utf8) else { return }
        // JSONDecoder would accept UTF-16 and UTF-32 too, which contain zero bytes.
        guard !json.contains(0), String(clientText: json) != nil else { throw Self.notText }
        var problems: [FieldProblem] = []
        do {
            self = try JSONDecoder().decode(SignatureRequest.self, from: Data(json))
        } catch let error as InvalidSignatureRequest {
            problems = error.problems
        } catch {
            throw Self.notAnObject
        }
        guard let repeated = JSONNames.repeated(in: json) else { throw Self.notAnObject }
        problems += repeated.map { FieldProblem(field: $0, message: "must occur only once") }
        guard problems.isEmpty else { throw InvalidSignatureRequest(problems: problems) }
        // Escapes, too, stand for characters.
        guard JSONValue(json: json) != nil else { throw Self.notText }
    }

    private static let notText = InvalidSignatureRequest(
        message: "The body must be a JSON object, in \(ClientText.requirement)."
    )
    private static let notAnObject = InvalidSignatureRequest(message: "The body must be a JSON object, or empty.")
}

extension SignatureRequest: Decodable {
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// Decodes an object; `null` counts as a missing field.
    ///
    /// - Throws: `InvalidSignatureRequest` with every field that is unknown or has the wrong type; the decoder's error
    ///   if it is not an object.
    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Name.self)
        var wrong: Set<SignatureField> = []
        var unknown: [String] = []
        for name in container.allKeys {
            guard let field = SignatureField(rawValue: name.stringValue) else {
                unknown.append(name.stringValue)
                continue
            }
            do {
                try read(field, from: container, at: name)
            } catch {
                wrong.insert(field)
            }
        }
        guard wrong.isEmpty, unknown.isEmpty else {
            throw InvalidSignatureRequest(
                problems: SignatureField.allCases.filter(wrong.contains).map { $0.problem() }
                    + unknown.sorted().map { FieldProblem(field: $0, message: "is not a field of this request") }
            )
        }
    }

    private mutating func read(
        _ field: SignatureField,
        from container: KeyedDecodingContainer<Name>,
        at name: Name
    ) throws {
        func integer() throws -> Int64? { try container.decodeIfPresent(Int64.self, forKey: name) }
        func text() throws -> String? { try container.decodeIfPresent(String.self, forKey: name) }
        switch field {
        case .secretId: secretID = try text()
        case .currentTimeStamp: currentTimeStamp = try integer()
        case .expireTime: expireTime = try integer()
        case .random: random = try integer()
        case .classId: classID = try integer()
        case .procedure: procedure = try text()
        case .taskPriority: taskPriority = try integer()
        case .taskNotifyMode: taskNotifyMode = try text()
        case .sourceContext: sourceContext = try text()
        case .oneTimeValid:
            do {
                oneTimeValid = try container.decodeIfPresent(Bool.self, forKey: name)
            } catch {
                switch try integer() {
                case 0: oneTimeValid = false
                case 1: oneTimeValid = true
                default: throw error
                }
            }
        case .vodSubAppId: vodSubAppID = try integer()
        case .sessionContext: sessionContext = try text()
        case .storageRegion: storageRegion = try text()
        case .expiresIn: expiresIn = try integer()
        case .subject: subject = try text()
        case .maxBytes: maximumBytes = try integer()
        case .contentTypes: contentTypes = try container.decodeIfPresent([String].self, forKey: name)
        }
    }
}
