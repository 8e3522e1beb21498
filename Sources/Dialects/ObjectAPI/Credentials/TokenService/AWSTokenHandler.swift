internal import Bytes
internal import Foundation
package import HTTPWire
package import Signing
package import UploadCore

/// The security token service for clients of AWS: whoever may mint gets credentials that expire.
///
/// Requests are forms that are posted to the root of the endpoint, as the SDKs send them, signed for the service `sts`.
package struct AWSTokenHandler: Sendable {
    /// Looks up somebody who may mint; `nil` if the access key id is not known, or may not.
    package typealias MinterLookup = @Sendable (_ accessKeyID: String) async throws(S3Error) -> TokenMinter?

    private let issuer: CredentialIssuer
    private let clock: any WallClock
    private let minter: MinterLookup
    private let onMint: @Sendable () -> Void
    private let verifier = SigV4Verifier(region: nil, service: "sts", rules: .general, keys: SigV4Keys())

    /// - Parameters:
    ///   - issuer: Makes the credentials.
    ///   - clock: Tells the time.
    ///   - minter: Who may have them made.
    ///   - onMint: Told of each.
    package init(
        issuer: CredentialIssuer,
        clock: any WallClock,
        minter: @escaping MinterLookup,
        onMint: @escaping @Sendable () -> Void
    ) {
        self.issuer = issuer
        self.clock = clock
        self.minter = minter
        self.onMint = onMint
    }

    /// Whether a request is for it, and not for the object store of the same address.
    package static func isMeant(by head: RequestHead) -> Bool {
        head.method == .post && head.target.rawPath == "/"
            && head.fields["Content-Type"].flatMap { MediaType($0) }?.essence == "application/x-www-form-urlencoded"
    }

    package func respond(to request: Request) async -> Response {
        do throws(TokenRefusal) {
            let text = try await answer(request)
            return Self.response(200, text, request)
        } catch {
            var response = Self.response(
                Status(error.status),
                AWSTokenService.response(error, requestID: request.id),
                request
            )
            response.trace.errorCode = error.code
            return response
        }
    }

    private static func response(_ status: Status, _ text: String, _ request: Request) -> Response {
        var response = Response(
            status,
            ["Content-Type": "text/xml", "Cache-Control": "no-store", "x-amzn-RequestId": request.id],
            .bytes(Array(text.utf8))
        )
        response.trace.route = "STS"
        return response
    }

    /// Most bytes of a form.
    private static let maximumForm = 64 << 10
    /// Said to be the account of federated users.
    private static let account = "000000000000"

    private func answer(_ request: Request) async throws(TokenRefusal) -> String {
        let form: [UInt8]
        do throws(SourceFailure) {
            form = try await request.body.collect(limit: Self.maximumForm)
        } catch {
            throw TokenRefusal(400, "ValidationError", "The form can not be read, or is larger than 64 KiB.")
        }
        guard let text = String(validating: form, as: UTF8.self), let items = try? QueryItems(text) else {
            throw TokenRefusal(400, "MalformedQueryString", "The form must be written as a query is.")
        }
        let minter = try await authenticate(request.head, form)
        let wanted = try AWSTokenService.request(items.items.map { (name: $0.name, value: $0.value) })
        if case .assumeRoleWithWebIdentity = wanted.operation {
            throw TokenRefusal(
                400,
                "InvalidIdentityToken",
                "This server trusts no identity provider; have a backend ask with a key that may mint."
            )
        }
        let now = clock.now
        let grant = Grant(
            id: "grant_" + UploadID.generate(at: now).text,
            issuer: minter.key,
            subject: wanted.name.isEmpty ? nil : wanted.name,
            dialect: ObjectDialect.s3.rawValue,
            expiresAt: now.addingTimeInterval(Double(wanted.seconds))
        )
        var session = ObjectGrant(
            upload: grant,
            bucket: nil,
            keys: .prefix(""),
            actions: minter.actions
        )
        if let policy = wanted.policy { session = session.narrowed(by: policy) }
        let credentials: SessionCredentials
        do throws(GrantTooLong) {
            credentials = try issuer.mint(session, for: .s3)
        } catch {
            throw AWSTokenService.refusal(error)
        }
        onMint()
        return AWSTokenService.response(to: wanted, credentials, account: Self.account, requestID: request.id)
    }

    private func authenticate(_ head: RequestHead, _ form: [UInt8]) async throws(TokenRefusal) -> TokenMinter {
        var request: SigningRequest
        do throws(S3Error) {
            request = try SigningRequest(head)
        } catch {
            throw TokenRefusal(400, "MalformedQueryString", error.message)
        }
        request.payload = SigV4Payload(content: form)
        let claim: SigV4Claim
        do throws(RequestSignatureFailure) {
            claim = try verifier.claim(request, at: clock.now.unixSeconds)
            // Of another form.
            guard claim.payload == request.payload else { throw .wrongSignature }
        } catch {
            throw TokenRefusal(error)
        }
        let found: TokenMinter?
        do throws(S3Error) {
            found = try await minter(claim.accessKeyID)
        } catch {
            throw TokenRefusal(error.code.status.code, "ServiceUnavailable", error.message)
        }
        // Credentials that were minted mint no others.
        guard let found, claim.token == nil else {
            throw TokenRefusal(403, "InvalidClientTokenId", "The access key is not known here, or may not mint.")
        }
        do throws(RequestSignatureFailure) {
            _ = try verifier.verify(claim, credentials: found.credentials)
        } catch {
            throw TokenRefusal(error)
        }
        return found
    }
}

/// Who may have credentials made.
package struct TokenMinter: Sendable {
    let credentials: SigningCredentials
    let key: String
    let actions: Set<ObjectAction>

    /// - Parameters:
    ///   - credentials: A pair of keys that stands for `key`.
    ///   - key: Its id is that of the issuer; what it may do itself, sessions may at most.
    package init(_ credentials: SigningCredentials, _ key: APIKey) {
        self.credentials = credentials
        self.key = key.id
        actions = ObjectAction.allowed(to: key)
    }
}

extension TokenRefusal {
    /// In the words of AWS ("Common Errors", AWS Security Token Service API Reference).
    fileprivate init(_ failure: RequestSignatureFailure) {
        switch failure {
        case .noSignature: self.init(403, "MissingAuthenticationToken", "The request must be signed.")
        case .skewed, .expired: self.init(403, "RequestExpired", "The request was signed too long ago, or too early.")
        case .wrongSignature, .missingHeader, .unsignedHeader:
            self.init(403, "SignatureDoesNotMatch", "The signature is not that of this request; check the secret key.")
        case .wrongToken: self.init(403, "InvalidClientTokenId", "The session token is not that of the access key.")
        case .wrongRegion, .wrongService, .wrongScope, .wrongDay:
            self.init(
                403,
                "SignatureDoesNotMatch",
                "The scope of the credential must be <day>/<region>/sts/aws4_request."
            )
        case .twoSignatures, .unsupportedAlgorithm, .duplicate, .missingParameter, .malformed, .lifetimeOutOfRange:
            self.init(400, "IncompleteSignature", "The signature is not as that of AWS Signature Version 4 must be.")
        }
    }
}
