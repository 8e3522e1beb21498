import SluiceTesting
import Testing

@testable import Signing

@Suite("Requests signed by the vendors' SDKs", .timeLimit(.minutes(10)))
struct RequestVectorTests {
    @Test("there are vectors for each scheme")
    func count() {
        let counts = Dictionary(grouping: RequestVector.all, by: \.scheme).mapValues(\.count)
        #expect(counts == ["oss1": 84, "oss4": 96, "cos": 48, "tc1": 34, "tc3": 12, "rpc": 42, "acs3": 38])
    }

    @Test("requests of the SDKs are accepted", arguments: RequestVector.all)
    func accepted(_ vector: RequestVector) {
        #expect(throws: Never.self) { try vector.verify(vector.request) }
    }

    @Test("a request is refused with another secret, key, token or method", arguments: RequestVector.all)
    func refused(_ vector: RequestVector) throws {
        let credentials = [
            SigningCredentials(accessKeyID: vector.id, secretAccessKey: "other", sessionToken: vector.token),
            SigningCredentials(accessKeyID: "other", secretAccessKey: vector.secret, sessionToken: vector.token),
        ]
        for credentials in credentials {
            #expect(throws: RequestSignatureFailure.wrongSignature) {
                try vector.verify(vector.request, credentials: credentials)
            }
        }
        for token in [nil, "other", "tok+/", "CAIStoken+/"] where token != vector.token {
            let credentials = SigningCredentials(
                accessKeyID: vector.id,
                secretAccessKey: vector.secret,
                sessionToken: token
            )
            #expect(throws: RequestSignatureFailure.wrongToken) {
                try vector.verify(vector.request, credentials: credentials)
            }
        }
        var request = vector.request
        request.method = "PATCH"
        #expect(throws: RequestSignatureFailure.wrongSignature) { try vector.verify(request) }
    }

    @Test("a request is refused if one digit of the signature differs", arguments: RequestVector.all)
    func digits(_ vector: RequestVector) throws {
        for name in ["authorization", "Signature", "x-oss-signature", "q-signature"] {
            guard let text = vector.request[name] else { continue }
            // Not the last character, where base64 has unused bits.
            let index = text.index(text.endIndex, offsetBy: -6)
            let changed = text.replacingCharacters(in: index, with: text[index] == "0" ? "1" : "0")
            let request = try vector.request.changing(name, to: changed)
            // The last item of Authorization can be the list of headers.
            #expect(throws: RequestSignatureFailure.self) { try vector.verify(request) }
        }
    }

    @Test(
        "a signature without an expiry is valid for some minutes before and after its time",
        arguments: RequestVector.all
    )
    func skew(_ vector: RequestVector) throws {
        guard vector.lifetime == nil else { return }
        let skew: Int64 = vector.scheme.hasPrefix("tc") ? 300 : 900
        try vector.verify(vector.request, at: vector.time - skew)
        try vector.verify(vector.request, at: vector.time + skew)
        for now in [vector.time - skew - 1, vector.time + skew + 1, 0, Int64.max / 2] {
            #expect(throws: RequestSignatureFailure.skewed) { try vector.verify(vector.request, at: now) }
        }
    }

    @Test("the server can accept less than the vendor, but not more", arguments: RequestVector.all)
    func ownSkew(_ vector: RequestVector) throws {
        guard vector.scheme != "oss1" || vector.lifetime == nil else { return }
        let start = vector.scheme == "cos" ? vector.time - 60 : vector.time
        for (skew, ahead) in [(Int64(30), Int64(30)), (.max, vector.scheme.hasPrefix("tc") ? 300 : 900)] {
            try vector.verify(vector.request, at: start - ahead, skew: skew)
            #expect(throws: RequestSignatureFailure.skewed) {
                try vector.verify(vector.request, at: start - ahead - 1, skew: skew)
            }
        }
        guard vector.lifetime == nil else { return }
        #expect(throws: RequestSignatureFailure.skewed) {
            try vector.verify(vector.request, at: vector.time + 31, skew: 30)
        }
    }

    @Test("a signature with an expiry is valid until its last second", arguments: RequestVector.all)
    func expiry(_ vector: RequestVector) throws {
        guard let lifetime = vector.lifetime else { return }
        try vector.verify(vector.request, at: vector.time + lifetime)
        for now in [vector.time + lifetime + 1, Int64.max / 2] {
            #expect(throws: RequestSignatureFailure.expired) { try vector.verify(vector.request, at: now) }
        }
        guard vector.scheme != "oss1" else { return }
        let start = vector.scheme == "cos" ? vector.time - 60 : vector.time
        try vector.verify(vector.request, at: start - 900)
        for now in [start - 901, 0] {
            #expect(throws: RequestSignatureFailure.skewed) { try vector.verify(vector.request, at: now) }
        }
    }

    @Test(
        "any text in place of the signature is handled",
        arguments: RequestVector.all.enumerated().filter { $0.0 % 9 == 0 }.map(\.1)
    )
    func garbage(_ vector: RequestVector) throws {
        var random = SeededGenerator(seed: 1)
        let names = [
            "authorization", "x-oss-credential", "x-oss-date", "x-oss-expires", "x-oss-signature", "Expires",
            "Signature",
            "OSSAccessKeyId", "q-sign-time", "q-key-time", "q-header-list", "q-url-param-list", "q-signature", "q-ak",
            "Timestamp", "SecretId", "AccessKeyId", "SignatureMethod", "x-acs-date", "x-acs-content-sha256",
            "x-tc-timestamp", "date",
        ]
        for name in names {
            // Version 4 of OSS does not sign Date, and lists can be empty.
            guard let text = vector.request[name], !text.isEmpty, name != "date" || vector.scheme == "oss1" else {
                continue
            }
            #expect(throws: RequestSignatureFailure.self) {
                try vector.verify(try vector.request.changing(name, to: ""))
            }
            for _ in 0..<40 {
                var changed = Array(text.unicodeScalars)
                for _ in 0...Int.random(in: 0...3, using: &random) where !changed.isEmpty {
                    let index = Int.random(in: 0..<changed.count, using: &random)
                    switch Int.random(in: 0...3, using: &random) {
                    case 0: changed.remove(at: index)
                    case 1: changed.removeSubrange(index...)
                    default: changed.insert(contentsOf: Array(random.text(2).unicodeScalars), at: index)
                    }
                }
                let text = String(String.UnicodeScalarView(changed))
                let request = try vector.request.changing(name, to: text)
                // Some changes have no effect, such as a comma; what matters is that every call returns.
                do {
                    try vector.verify(request)
                } catch {
                    #expect(error != .noSignature || name == "authorization" || text.isEmpty)
                }
            }
        }
    }
}

extension String {
    fileprivate func replacingCharacters(in index: Index, with character: Character) -> String {
        String(self[..<index]) + String(character) + String(self[self.index(after: index)...])
    }
}
