import Signing
import Testing

@Suite("Standard Webhooks", .timeLimit(.minutes(10)))
struct WebhookSignerTests {
    /// Computed with the reference library for Python, standardwebhooks 1.1.0.
    @Test("a message is signed as the reference library signs it")
    func vector() throws {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        let signer = WebhookSigner(key: try #require(WebhookSigner.key(in: secret)))
        let content = Array(#"{"test": 2432232314}"#.utf8)
        let fields = signer.fields(id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, content: content)
        #expect(fields.map(\.name) == ["webhook-id", "webhook-timestamp", "webhook-signature"])
        #expect(fields.map(\.value).prefix(2) == ["msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330"])
        #expect(fields.last?.value == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
        #expect(signer.secret == secret)
    }

    @Test("during a rotation a message is signed with each key, and the new secret is shown")
    func rotation() {
        let (old, new) = ([UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32))
        func signature(_ signer: WebhookSigner) -> String? {
            signer.fields(id: "m", timestamp: 1, content: [1]).last?.value
        }
        let rotated = WebhookSigner(key: new, others: [old])
        let parts = [WebhookSigner(key: new), WebhookSigner(key: old)].compactMap(signature)
        #expect(parts.count == 2)
        #expect(signature(rotated) == parts.joined(separator: " "))
        #expect(rotated.secret == WebhookSigner(key: new).secret)
    }

    @Test(
        "text that is not a secret is refused",
        arguments: [
            "", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS*",
            "whsec_" + String(repeating: "A", count: 88),
        ]
    )
    func badSecrets(secret: String) {
        #expect(WebhookSigner.key(in: secret) == nil)
    }
}
