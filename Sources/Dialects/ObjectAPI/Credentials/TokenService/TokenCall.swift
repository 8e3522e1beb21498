internal import Bytes
internal import Foundation
internal import HTTPWire
internal import Signing

/// A request to a security token service with its content; nobody has looked at its signature.
struct TokenCall: Sendable {
    /// Most bytes of content.
    static let maximumContent = 64 << 10

    let id: String
    let head: RequestHead
    /// When it came.
    let time: Date
    let content: [UInt8]
    /// What is signed of it, with the parameters of the query only.
    let request: SigningRequest
    /// The parameters of the content, if that is a form.
    let form: [SigningField]
    /// Why not all of the rest is there.
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

    /// Of the query, and behind them of the form.
    var parameters: [SigningField] { request.query + form }

    /// What is signed by schemes that sign the parameters of the form as those of the query.
    var requestWithForm: SigningRequest {
        var request = request
        request.query += form
        return request
    }

    /// The value of the first parameter of that name.
    func parameter(_ name: String) -> String? { parameters.first { $0.name == name }?.value }

    static func hasForm(_ head: RequestHead) -> Bool {
        head.method == .post
            && head.fields["Content-Type"].flatMap { MediaType($0) }?.essence == "application/x-www-form-urlencoded"
    }

    private static func signed(_ head: RequestHead) throws(TokenFailure) -> SigningRequest {
        do throws(S3Error) {
            return try SigningRequest(head)
        } catch {
            throw .unreadable(error.message)
        }
    }

    private static func content(of request: Request) async throws(TokenFailure) -> [UInt8] {
        do throws(SourceFailure) {
            return try await request.body.collect(limit: maximumContent)
        } catch {
            throw .unreadable("The content can not be read, or is larger than \(maximumContent >> 10) KiB.")
        }
    }

    private static func form(_ content: [UInt8]) throws(TokenFailure) -> [SigningField] {
        guard let text = String(validating: content, as: UTF8.self), let items = try? QueryItems(text) else {
            throw .unreadable("The form must be written as a query is.")
        }
        return items.items.map { SigningField($0.name, $0.value) }
    }
}
