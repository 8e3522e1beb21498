internal import Bytes
internal import Foundation

/// A client's request to notify its app once an object is stored ("Callback", OSS documentation).
///
/// JSON in Base64: `{"callbackUrl":"https://app.example.com/done","callbackBody":"key=${object}&u=${x:user}"}`.
struct UploadCallback: Sendable, Equatable {
    /// In the order of attempts, each with its scheme.
    let urls: [String]
    /// Value of the `Host` field, if it differs from the URL's.
    let host: String?
    let template: CallbackTemplate
    /// The client's own variables, by names such as `x:user` in lower case.
    let variables: ExactNames<String>

    /// Maximum size in Base64; it also applies to the client's own variables.
    static let maximumBytes = 5 << 10
    static let maximumURLs = 5

    /// - Parameters:
    ///   - text: In Base64.
    ///   - variables: The client's own variables.
    /// - Throws: `InvalidArgument`.
    init(_ text: String, variables: ExactNames<String>) throws(ObjectError) {
        func problem(_ message: String) -> ObjectError { .argument("callback", text, message) }
        guard text.utf8.count <= Self.maximumBytes else {
            throw problem("The length of callback exceed max value: use at most 5 KB.")
        }
        guard let bytes = Base64.decode(text) else {
            throw problem("The callback configuration is not base64 encoded.")
        }
        guard let members = Self.members(of: bytes) else {
            throw problem("The callback configuration is not json format.")
        }
        func member(_ name: String) throws(ObjectError) -> String? {
            switch members[name] {
            case nil, .null?, .string("")?: return nil
            case .string(let text)?: return text
            default: throw problem("The \(name) of the callback must be a string.")
            }
        }
        guard let body = try member("callbackBody") else {
            throw problem("The callback body is empty: callbackBody is required.")
        }
        guard let urls = try member("callbackUrl") else { throw problem("The callback must have a callbackUrl.") }
        let type = try member("callbackBodyType") ?? CallbackTemplate.Format.form.rawValue
        guard let format = CallbackTemplate.Format(rawValue: type) else {
            let names = CallbackTemplate.Format.allCases.map(\.rawValue).joined(separator: " or ")
            throw .argument("callbackBodyType", type, "The callbackBodyType must be \(names).")
        }
        self.urls = urls.split(separator: ";").map { $0.trimmingCharacters(in: .whitespaces) }
            .filter { !$0.isEmpty }.map(Self.withScheme)
        guard (1...Self.maximumURLs).contains(self.urls.count) else {
            throw .argument("callbackUrl", urls, "The callbackUrl must be one to five URLs, separated by semicolons.")
        }
        host = try member("callbackHost")
        template = try CallbackTemplate(body, format)
        self.variables = variables
    }

    /// Parses the client's own variables.
    ///
    /// - Parameter text: In Base64: `{"x:user":"44"}`.
    /// - Returns: Values by names with their `x:`, in lower case.
    /// - Throws: `InvalidArgument`.
    static func variables(_ text: String) throws(ObjectError) -> ExactNames<String> {
        func problem(_ message: String) -> ObjectError { .argument("callback-var", text, message) }
        guard text.utf8.count <= maximumBytes else {
            throw problem("The length of callback var exceed max value: use at most 5 KB.")
        }
        guard let bytes = Base64.decode(text) else { throw problem("The callback var is not base64 encoded.") }
        guard let members = members(of: bytes) else { throw problem("The callback var is not expected json.") }
        var variables = ExactNames<String>()
        for (name, value) in members {
            guard let name = CallbackVariable.customName(name), case .string(let text) = value else {
                throw problem("The callback var must be an object of strings whose names begin with x:.")
            }
            guard variables.updateValue(text, forKey: name) == nil else {
                throw problem("The callback var must have \(name) once: upper and lower case make no difference.")
            }
        }
        return variables
    }

    /// The content that describes an object.
    func content(of subject: CallbackSubject, _ facts: CallbackFacts) -> [UInt8] {
        template.content { subject.value(of: $0, facts, variables) }
    }

    /// Whether the content will fit, whatever is stored.
    func fits(_ subject: CallbackSubject) -> Bool {
        template.fits { subject.value(of: $0, .longest, variables) }
    }

    private static func members(of bytes: [UInt8]) -> JSONMembers? {
        guard JSONSyntax.isValid(bytes), JSONNames.areUnique(in: bytes) else { return nil }
        return JSONValue(json: bytes)?.members
    }

    /// The default scheme is http, as with OSS.
    private static func withScheme(_ url: String) -> String {
        let scheme = url.prefix { $0.isASCII && $0.isLetter }
        return url.dropFirst(scheme.count).hasPrefix("://") ? url : "http://" + url
    }
}
