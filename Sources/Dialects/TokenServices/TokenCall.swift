internal import Bytes
internal import Foundation
internal import HTTPWire
internal import Signing

/// A request to a security token service with its content, not yet authenticated.
struct TokenCall: Sendable {
    /// Maximum content, in bytes.
    static let maximumContent = 64 << 10

    let id: String
    let head: RequestHead
    /// When the request arrived.
    let time: Date
    let content: [UInt8]
    /// The signed parts, with the parameters of the query only.
    let request: SigningRequest
    /// Form parameters, if the content is a form.
    let form: [SigningField]
    /// Why the other members may be incomplete.
    let failure: TokenFailure?

    init(_ request: Request, at time: Date) async {
        id = request.id
        head = request.head
        self.time = time
        var content: [UInt8] = []
        var signed = SigningRequest(method: request.head.method.rawValue, path: request.head.target.rawPath)
        var form: [SigningField] = []
        var failure: TokenFailure?
        do throws(TokenFailure) {
            signed = try Self.signed(request.head)
            content = try await Self.content(of: request)
            signed.payload = SigV4Payload(content: content)
            if Self.hasForm(request.head) { form = try Self.form(content) }
        } catch {
            failure = error
        }
        self.content = content
        self.request = signed
        self.form = form
        self.failure = failure
    }

    /// Query parameters followed by form parameters.
    var parameters: [SigningField] { request.query + form }

    /// The signed parts for schemes that sign form parameters like query parameters.
    var requestWithForm: SigningRequest {
        var request = request
        request.query += form
        return request
    }

    /// The value of the first parameter with this name.
    func parameter(_ name: String) -> String? { parameters.first { $0.name == name }?.value }

    static func hasForm(_ head: RequestHead) -> Bool {
        head.method == .post
            && head.fields["Content-Type"].flatMap { MediaType($0) }?.essence == "application/x-www-form-urlencoded"
    }

    private static func signed(_ head: RequestHead) throws(TokenFailure) -> SigningRequest {
        do throws(QueryItems.Failure) {
            return try SigningRequest(head)
        } catch {
            throw .unreadable("The URI cannot be parsed: \(error.reason).")
        }
    }

    private static func content(of request: Request) async throws(TokenFailure) -> [UInt8] {
        do throws(SourceFailure) {
            return try await request.body.collect(limit: maximumContent)
        } catch {
            throw .unreadable("The content cannot be read, or is larger than \(maximumContent >> 10) KiB.")
        }
    }

    private static func form(_ content: [UInt8]) throws(TokenFailure) -> [SigningField] {
        guard let text = String(validating: content, as: UTF8.self), let items = try? QueryItems(text) else {
            throw .unreadable("The form must be encoded like a query.")
        }
        return items.items.map { SigningField($0.name, $0.value) }
    }
}
