import Bytes
import Digests
import Testing

@testable import Signing

/// Vectors of Alibaba Cloud's SDKs for Python and of its documentation.
///
/// Tests/Fixtures/requests/make.py writes them with aliyun-python-sdk-core 2.16.1 and alibabacloud-tea-openapi 0.4.6.
@Suite("Each byte of a request to the OpenAPI of Alibaba Cloud is signed", .timeLimit(.minutes(10)))
struct AliyunByteChangeTests {
    static let rpc = RequestVector.aliyunHard.filter { $0.scheme == "rpc" }
    static let acs3 = RequestVector.aliyunHard.filter { $0.scheme == "acs3" }

    @Test("there are enough vectors")
    func count() {
        #expect(Self.rpc.count == 30)
        #expect(Self.acs3.count == 26)
    }

    // MARK: - RPC

    @Test("RPC: a request with any byte changed is refused", arguments: rpc)
    func changedRPC(_ vector: RequestVector) throws {
        let request = vector.request
        try vector.verify(request)
        var changes = ByteChanges(vector)
        for (index, field) in request.query.enumerated() {
            changes.check(field.name, "name of \(field.name)", in: request) { request, name in
                request.query[index] = SigningField(name, field.value)
            } failure: { name in
                Self.failure(renaming: field.name, to: name, in: request)
            }
            changes.check(field.value, field.name, in: request) { request, value in
                request.query[index] = SigningField(field.name, value)
            } failure: { value in
                switch field.name {
                case "SignatureMethod", "SignatureVersion": .unsupportedAlgorithm
                case "Signature" where Base64.decode(value) == nil: .malformed(field.name)
                case "Timestamp": Self.failure(ofTime: value, field.name, at: vector.time)
                default: .wrongSignature
                }
            }
        }
        changes.check(request.method, "method", in: request) {
            $0.method = $1
        } failure: { _ in
            .wrongSignature
        }
        #expect(changes.count == request.method.utf8.count + Self.bytes(of: request.query))
    }

    @Test("RPC: each character of the signature counts, with all its bits", arguments: rpc.suffix(1))
    func signatureText(_ vector: RequestVector) throws {
        let changes = ByteChanges(vector)
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_ \n".utf8)
        let signature = Array(try #require(vector.request["Signature"]).utf8)
        try #require(signature.count == 28)
        for index in signature.indices {
            for (value, byte) in alphabet.enumerated() where byte != signature[index] {
                var changed = signature
                changed[index] = byte
                // The last of 27 digits has four bits of the signature, and two that must be zero.
                let isBase64 = index < 26 && value < 64 || index == 26 && value < 64 && value % 4 == 0
                let text = String(decoding: changed, as: UTF8.self)
                let request = try vector.request.changing("Signature", to: text)
                changes.expect(isBase64 ? .wrongSignature : .malformed("Signature"), request) { text }
            }
        }
        let text = String(decoding: signature, as: UTF8.self)
        // U+212A is canonically equivalent to K.
        for other in [
            text + "=", text + "\n", " " + text, String(text.dropLast()), text + "A", text + text, "\u{212A}\(text)",
            "",
            "\u{212A}\(text.dropFirst())", text + "\0",
        ] {
            changes.expect(.malformed("Signature"), try vector.request.changing("Signature", to: other)) { other }
        }
    }

    // MARK: - ACS3

    @Test("ACS3: a request with any byte changed is refused", arguments: acs3)
    func changedACS3(_ vector: RequestVector) throws {
        let request = vector.request
        try vector.verify(request)
        var changes = ByteChanges(vector)
        for (index, field) in request.query.enumerated() {
            changes.check(field.name, "name of \(field.name)", in: request) { request, name in
                request.query[index] = SigningField(name, field.value)
            } failure: { name in
                Self.failure(renaming: field.name, to: name, in: request)
            }
            changes.check(field.value, field.name, in: request) { request, value in
                request.query[index] = SigningField(field.name, value)
            } failure: { _ in
                .wrongSignature
            }
        }
        for (index, header) in request.headers.enumerated() {
            changes.check(header.name, "name of \(header.name)", in: request, keepsCase: true) { request, name in
                request.headers[index] = SigningField(name, header.value)
            } failure: { name in
                Self.failure(renamingHeader: header.name.lowercased(), to: name.lowercased())
            }
            changes.check(header.value, header.name, in: request) { request, value in
                request.headers[index] = SigningField(header.name, value)
            } failure: { value in
                switch header.name.lowercased() {
                case "authorization": Self.failure(ofAuthorization: value, in: request)
                case "x-acs-date": Self.failure(ofTime: value, "x-acs-date", at: vector.time)
                case "x-acs-content-sha256" where !Self.isHash(value): .malformed("x-acs-content-sha256")
                default: .wrongSignature
                }
            }
        }
        changes.check(request.method, "method", in: request) {
            $0.method = $1
        } failure: { _ in
            .wrongSignature
        }
        changes.check(request.path, "path", in: request) {
            $0.path = $1
        } failure: { _ in
            .wrongSignature
        }
        let bytes = request.method.utf8.count + request.path.utf8.count
        #expect(changes.count == bytes + Self.bytes(of: request.query) + Self.bytes(of: request.headers))
    }

    @Test("ACS3: the signed hash is that of the content, and of no other", arguments: acs3)
    func content(_ vector: RequestVector) throws {
        let body = try #require(vector.body)
        let hash = try ACS3Signature.claim(vector.request, at: vector.time).contentHash
        #expect(Digest.hash(body.utf8, .sha256) == hash)
        for changed in body.changedTexts() { #expect(Digest.hash(changed.utf8, .sha256) != hash) }
        #expect(Digest.hash((body + "\n").utf8, .sha256) != hash)
    }

    @Test("ACS3: each digit of the signature counts", arguments: acs3.suffix(1))
    func signatureDigits(_ vector: RequestVector) throws {
        let changes = ByteChanges(vector)
        let authorization = try #require(vector.request["authorization"])
        let start = authorization.dropLast(64)
        let signature = Array(authorization.utf8.suffix(64))
        for index in signature.indices {
            for (value, byte) in "0123456789abcdefABCDEFg".utf8.enumerated() where byte != signature[index] {
                var changed = signature
                changed[index] = byte
                let text = start + String(decoding: changed, as: UTF8.self)
                let request = try vector.request.changing("authorization", to: String(text))
                changes.expect(value < 16 ? .wrongSignature : .malformed("Signature"), request) { String(text) }
            }
        }
        let text = String(decoding: signature, as: UTF8.self)
        for other in ["", "0", text + "0", String(text.dropFirst()), text + text, text.uppercased(), "0x" + text] {
            let request = try vector.request.changing("authorization", to: start + other)
            changes.expect(.malformed("Signature"), request) { other }
        }
    }

    // MARK: - Both

    @Test("text cannot move between parameters, and order has no meaning", arguments: rpc + acs3)
    func moved(_ vector: RequestVector) throws {
        let changes = ByteChanges(vector)
        let request = vector.request
        for (index, field) in request.query.enumerated() where field.name == "Title" {
            var changed = request
            changed.query[index] = SigningField("\(field.name)=\(field.value)", "")
            changes.expect(.wrongSignature, changed) { "the value in the name" }
            changed.query[index] = SigningField("Titl", "e\(field.value)")
            changes.expect(.wrongSignature, changed) { "the end of the name in the value" }
            if let mark = field.value.firstIndex(of: "&") {
                changed.query[index] = SigningField(field.name, String(field.value[..<mark]))
                let rest = field.value[mark...].dropFirst().split(separator: "=", maxSplits: 1)
                let name = rest.first.map(String.init) ?? ""
                changed.query.append(SigningField(name, rest.dropFirst().first.map(String.init) ?? ""))
                changes.expect(.wrongSignature, changed) { "a value divided into two parameters" }
            }
            changed = request
            let escaped = SigningText.escaped(field.value)
            if escaped != field.value {
                changed.query[index] = SigningField(field.name, escaped)
                changes.expect(.wrongSignature, changed) { "a value that is escaped twice" }
            }
        }
        for pair in zip(request.query.indices, request.query.indices.dropFirst()) {
            let (first, second) = (request.query[pair.0], request.query[pair.1])
            // Such as Action=a and Title=b instead of Title=a and Action=b.
            guard vector.scheme == "acs3", first.value != second.value else { continue }
            var changed = request
            changed.query[pair.0] = SigningField(first.name, second.value)
            changed.query[pair.1] = SigningField(second.name, first.value)
            changes.expect(.wrongSignature, changed) { "values of \(first.name) and \(second.name) exchanged" }
        }
        var changed = request
        changed.query.reverse()
        changed.headers = request.headers.reversed().map { SigningField($0.name.uppercased(), $0.value) }
        changes.expect(nil, changed) { "another order, and another case of the names of headers" }
    }

    @Test("a token is compared as a whole", arguments: (rpc + acs3).filter { $0.token != nil })
    func tokens(_ vector: RequestVector) throws {
        let token = try #require(vector.token)
        let others = token.changedTexts() + ["", token + "=", String(token.dropLast()), " " + token]
        for other in others {
            let credentials = SigningCredentials(
                accessKeyID: vector.id,
                secretAccessKey: vector.secret,
                sessionToken: other
            )
            #expect(throws: RequestSignatureFailure.wrongToken) {
                try vector.verify(vector.request, credentials: credentials)
            }
        }
    }
}

// MARK: - What a change must cause

extension AliyunByteChangeTests {
    fileprivate static func bytes(of fields: [SigningField]) -> Int {
        fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
    }

    fileprivate static func failure(
        renaming old: String,
        to new: String,
        in request: SigningRequest
    ) -> RequestSignatureFailure {
        if old == "Signature" { return .noSignature }
        if request.query.contains(where: { $0.name == new }) { return .duplicate(new) }
        var needed = ["SignatureMethod", "SignatureVersion", "SignatureNonce", "AccessKeyId"]
        // With a session token a call needs no time.
        if request.query.allSatisfy({ $0.name != "SecurityToken" || $0.value.isEmpty }) { needed.append("Timestamp") }
        return needed.contains(old) ? .missingParameter(old) : .wrongSignature
    }

    /// Both names are in lower case.
    fileprivate static func failure(renamingHeader old: String, to new: String) -> RequestSignatureFailure {
        if old == "authorization" { return .noSignature }
        return new.hasPrefix("x-acs-") ? .unsignedHeader(new) : .missingHeader(old)
    }

    fileprivate static func failure(ofTime text: String, _ name: String, at now: Int64) -> RequestSignatureFailure {
        guard let time = SigningTime.parseExtended(text) else { return .malformed(name) }
        return abs(time - now) > 900 ? .skewed : .wrongSignature
    }

    /// The parts of the original are in the order `Credential`, `SignedHeaders`, `Signature`.
    fileprivate static func failure(
        ofAuthorization text: String,
        in request: SigningRequest
    ) -> RequestSignatureFailure {
        guard text.hasPrefix("ACS3-HMAC-SHA256 ") else { return .unsupportedAlgorithm }
        let parts = text.dropFirst(17).split(separator: ",").map { $0.split(separator: "=", maxSplits: 1) }
        let names = ["Credential", "SignedHeaders", "Signature"]
        guard parts.allSatisfy({ $0.count == 2 && names.contains(String($0[0])) }) else {
            return .malformed("Authorization")
        }
        for name in names.prefix(2) where !parts.contains(where: { $0[0] == name }) { return .missingParameter(name) }
        let signed = parts[1][1].split(separator: ";", omittingEmptySubsequences: false).map(String.init)
        guard signed == Set(signed).sorted(), signed.allSatisfy({ !$0.isEmpty && $0 == $0.lowercased() }) else {
            return .malformed("SignedHeaders")
        }
        guard parts.count == 3, isHash(String(parts[2][1])) else { return .malformed("Signature") }
        let sent = request.headers.map { $0.name.lowercased() }.sorted()
        let unsigned = sent.first { ($0 == "host" || $0.hasPrefix("x-acs-")) && !signed.contains($0) }
        if let unsigned { return .unsignedHeader(unsigned) }
        if let missing = signed.first(where: { !sent.contains($0) }) { return .missingHeader(missing) }
        return .wrongSignature
    }

    private static let digits = Set("0123456789abcdef".utf8)

    fileprivate static func isHash(_ text: String) -> Bool {
        text.utf8.count == 64 && text.utf8.allSatisfy(digits.contains)
    }
}
