internal import Bytes
package import Foundation
package import HTTPWire
package import Signing

/// A request to an API of a cloud with its content, not yet authenticated.
package struct CloudCall: Sendable {
    /// Maximum content, in bytes.
    package static let maximumContent = 64 << 10
    /// Maximum content of a call that sends an HLS playlist, in bytes: some 20,000 segments.
    package static let maximumManifest = 1 << 20

    package let id: String
    package let head: RequestHead
    /// When the request arrived.
    package let time: Date
    /// Seconds by which the caller's clock may differ, if that is less than the vendor's limit.
    package let skew: Int64
    package let content: [UInt8]
    /// The signed parts, with the parameters of the query only.
    package let request: SigningRequest
    /// Form parameters, if the content is a form.
    package let form: [SigningField]
    /// Why the other members may be incomplete, as a sentence.
    package let problem: String?

    private struct Problem: Error {
        let text: String
    }

    package init(_ request: Request, at time: Date, skew: Int64 = .max) async {
        id = request.id
        head = request.head
        self.time = time
        self.skew = skew
        var content: [UInt8] = []
        var signed = SigningRequest(method: request.head.method.rawValue, path: request.head.target.rawPath)
        var form: [SigningField] = []
        var problem: String?
        do throws(Problem) {
            let read = await Self.content(of: request)
            content = read.bytes
            signed = try Self.signed(request.head)
            if let problem = read.problem { throw problem }
            signed.payload = SigV4Payload(content: content)
            if Self.hasForm(request.head) { form = try Self.form(content) }
        } catch {
            problem = error.text
        }
        self.content = content
        self.request = signed
        self.form = form
        self.problem = problem
    }

    /// A call of which only the head is known: it is refused before its content is read.
    package init(head request: Request, at time: Date, skew: Int64 = .max) {
        id = request.id
        head = request.head
        self.time = time
        self.skew = skew
        content = []
        form = []
        var problem: String?
        var signed = SigningRequest(method: request.head.method.rawValue, path: request.head.target.rawPath)
        do throws(Problem) {
            signed = try Self.signed(request.head)
        } catch {
            problem = error.text
        }
        self.request = signed
        self.problem = problem
    }

    /// Query parameters followed by form parameters.
    package var parameters: [SigningField] { request.query + form }

    /// The signed parts for schemes that sign form parameters like query parameters.
    package var requestWithForm: SigningRequest {
        var request = request
        request.query += form
        return request
    }

    /// The value of the first parameter with this name.
    ///
    /// Of a call with a `problem`, what can be read of it, so that it is refused in the form that its sender understands.
    package func parameter(_ name: String) -> String? {
        if let value = parameters.first(where: { $0.name.isExactly(name) })?.value { return value }
        return problem == nil
            ? nil : Self.readable(name, head.target.rawQuery ?? "", String(decoding: content, as: UTF8.self))
    }

    /// The value of a parameter in texts that cannot be read as a whole.
    private static func readable(_ name: String, _ texts: String...) -> String? {
        for text in texts {
            for item in text.utf8.split(separator: UInt8(ascii: "&")) where item.starts(with: "\(name)=".utf8) {
                if let read = try? QueryItems(String(Substring(item))), let value = read.first(name) { return value }
            }
        }
        return nil
    }

    package static func hasForm(_ head: RequestHead) -> Bool {
        head.method == .post
            && head.fields["Content-Type"].flatMap { MediaType($0) }?.essence == "application/x-www-form-urlencoded"
    }

    private static func signed(_ head: RequestHead) throws(Problem) -> SigningRequest {
        do throws(QueryItems.Failure) {
            return try SigningRequest(head)
        } catch {
            throw Problem(text: "The URI cannot be parsed: \(error.reason).")
        }
    }

    /// The content, of which more than the maximum is not read.
    private static func content(of request: Request) async -> (bytes: [UInt8], problem: Problem?) {
        // A playlist never comes in a form. Each parameter of a form costs time before its signature is checked.
        let isManifest = request.head.fields["X-TC-Action"] == "ParseStreamingManifest" && !hasForm(request.head)
        let maximum = isManifest ? maximumManifest : maximumContent
        var bytes: [UInt8] = []
        do throws(SourceFailure) {
            while bytes.count <= maximum, let piece = try await request.body.next(maximum: 65536) {
                bytes += piece
            }
        } catch {
            return (bytes, Problem(text: "The content cannot be read."))
        }
        let isTooLarge = bytes.count > maximum
        return (bytes, isTooLarge ? Problem(text: "The content is larger than \(maximum >> 10) KiB.") : nil)
    }

    private static func form(_ content: [UInt8]) throws(Problem) -> [SigningField] {
        guard let text = String(clientText: content) else {
            throw Problem(text: "The form must be encoded like a query, and be \(ClientText.requirement).")
        }
        do throws(QueryItems.Failure) {
            return try QueryItems(text).items.map { SigningField($0.name, $0.value) }
        } catch {
            throw Problem(text: "The form must be encoded like a query: \(error.reason).")
        }
    }
}
