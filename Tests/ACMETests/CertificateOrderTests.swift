import Bytes
import Logging
import Synchronization
import Testing

@testable import ACME
@testable import Digests

@Suite("Orders of certificates", .timeLimit(.minutes(10)))
struct CertificateOrderTests {
    private final class Responder: ChallengeResponder {
        let type: String
        let pending = Mutex<[String: String]>([:])
        let begun = Mutex<[String]>([])

        init(_ type: String = "fake-01") { self.type = type }

        func begin(_ name: String, token: String, authorization: String) {
            pending.withLock { $0[name] = authorization }
            begun.withLock { $0.append(authorization) }
        }

        func end(_ name: String, token: String) { pending.withLock { $0[name] = nil } }
    }

    private func order(
        _ authority: FakeAuthority,
        _ responder: Responder,
        key: P256Key = P256Key(),
        binding: (String, [UInt8])? = nil,
        elapsed: @escaping @Sendable () -> Duration = { .zero }
    ) -> CertificateOrder {
        CertificateOrder(
            client: authority.client(key, elapsed: elapsed),
            names: ["a.example.com", "b.example.com"],
            email: "ops@example.com",
            binding: binding,
            responder: responder,
            logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }),
            pause: { _ in }
        )
    }

    @Test("Each name is validated once, and only while the authority asks")
    func success() async throws {
        let responder = Responder()
        let authority = FakeAuthority(validates: { name in responder.pending.withLock { $0[name] != nil } })
        let key = P256Key()
        let (_, chain) = try await order(authority, responder, key: key).certificate()
        #expect(chain == PEM.text("CERTIFICATE", [1, 2, 3]))
        let thumbprint = try #require(responder.begun.withLock { $0 }.first?.split(separator: ".").last)
        #expect(responder.begun.withLock { $0 } == ["t-a.\(thumbprint)", "t-b.\(thumbprint)"])
        #expect(responder.pending.withLock { $0 }.isEmpty)
        #expect(authority.calls.first == "GET /dir")
        // For the first request; each response has another.
        #expect(authority.calls.count { $0 == "HEAD /newNonce" } == 1)
        #expect(authority.calls.last == "POST /certificate")
    }

    @Test("Of the chain only certificates are kept")
    func chain() async throws {
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
        let both = FakeAuthority(chain: "text\n" + PEM.text("CERTIFICATE", [1]) + key + PEM.text("CERTIFICATE", [2]))
        let (_, chain) = try await order(both, Responder()).certificate()
        #expect(chain == PEM.text("CERTIFICATE", [1]) + PEM.text("CERTIFICATE", [2]))
        await #expect(throws: ACMEFailure.unexpected("there is no certificate in the chain")) {
            try await order(FakeAuthority(chain: key), Responder()).certificate()
        }
    }

    @Test("Names that are validated already are not validated again")
    func reuse() async throws {
        let (authority, responder) = (FakeAuthority(), Responder())
        authority.state.withLock { $0.statuses["a.example.com"] = "valid" }
        _ = try await order(authority, responder).certificate()
        #expect(responder.begun.withLock { $0 }.count == 1)
    }

    @Test("A name that the authority cannot validate, with its reason")
    func invalid() async throws {
        let (authority, responder) = (FakeAuthority(validates: { $0 != "b.example.com" }), Responder())
        var failure: ACMEFailure?
        do throws(ACMEFailure) {
            _ = try await order(authority, responder).certificate()
        } catch {
            failure = error
        }
        let wrong: [String: JSONValue] = [
            "type": .string("urn:ietf:params:acme:error:unauthorized"), "detail": .string("wrong"),
        ]
        #expect(failure == .invalid(name: "b.example.com", ACMEProblem(JSONMembers(wrong))))
        #expect(responder.pending.withLock { $0 }.isEmpty)
        #expect(!authority.calls.contains("POST /finalize"))
    }

    @Test("A challenge that the authority does not offer")
    func otherChallenge() async throws {
        await #expect(throws: ACMEFailure.self) {
            try await order(FakeAuthority(), Responder("other-01")).certificate()
        }
    }

    @Test("An account is bound by name and secret")
    func binding() async throws {
        let authority = FakeAuthority()
        _ = try await order(authority, Responder(), binding: ("kid", Array("0123456789abcdef".utf8))).certificate()
        let bound = try #require(authority.state.withLock { $0.bindings }.first)
        #expect(Set(bound.keys) == ["protected", "payload", "signature"])
    }

    @Test("Whatever goes wrong at whatever step: an error, and no challenge is answered afterwards")
    func faults() async throws {
        let authority = FakeAuthority()
        _ = try await order(authority, Responder()).certificate()
        let steps = authority.calls
        for fault in FakeAuthority.Fault.allCases {
            for (number, step) in steps.enumerated() {
                let (authority, responder) = (FakeAuthority(), Responder())
                authority.fail(number, by: fault)
                var failure: ACMEFailure?
                do throws(ACMEFailure) {
                    _ = try await order(authority, responder).certificate()
                } catch {
                    failure = error
                }
                #expect(responder.pending.withLock { $0 }.isEmpty, "\(fault) at \(step)")
                // A nonce that is refused costs a request, not the order; what nobody reads may be anything.
                let isPost = step.hasPrefix("POST")
                let isUnread =
                    ["POST /newAccount", "POST /finalize"].contains(step) || step.hasPrefix("POST /challenge")
                switch fault {
                case .refusesNonce where isPost: #expect(failure == nil, "\(step)")
                case .answersNoJSON where !isPost || isUnread || step == "POST /certificate": continue
                case .answersAnotherObject where !isPost || isUnread || step == "POST /certificate": continue
                case .limitsRate: #expect(failure?.retryAfter == 7000, "\(step)")
                case .disconnects, .isBroken: #expect(failure?.isTransient == true, "\(step)")
                default: #expect(failure != nil, "\(fault) at \(step)")
                }
            }
        }
    }

    @Test("An authority that accepts no nonce is not asked for ever")
    func nonces() async throws {
        let authority = FakeAuthority()
        for number in 2..<40 { authority.fail(number, by: .refusesNonce) }
        await #expect(throws: ACMEFailure.self) { try await order(authority, Responder()).certificate() }
        #expect(authority.calls.count < 40)
    }

    @Test("An order ends at its deadline, whatever the authority does meanwhile")
    func deadline() async throws {
        let (authority, responder) = (FakeAuthority(), Responder())
        _ = try await order(authority, responder).certificate()
        let requests = authority.calls.count
        for done in [0, 3, requests - 1] {
            let late = FakeAuthority()
            await #expect(throws: ACMEFailure.late("the order")) {
                try await order(
                    late,
                    responder,
                    elapsed: { late.calls.count < done ? ACMEClient.longest - .seconds(1) : ACMEClient.longest }
                ).certificate()
            }
            #expect(late.calls.count == done)
        }
        #expect(responder.pending.withLock { $0 }.isEmpty)
    }

    @Test("What the authority says is bounded, and one line")
    func problems() {
        let long = String(repeating: "x", count: 10_000)
        let problem = ACMEProblem(
            JSONMembers(["type": .string("a\nb" + long), "detail": .string("c\u{1B}[31md" + long)])
        )
        #expect(problem.type.hasPrefix("abx") && problem.type.count <= 500)
        #expect(problem.detail.hasPrefix("c[31mdx") && problem.detail.count <= 500)
    }
}
