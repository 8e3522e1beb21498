import Foundation
import GatewayKit
import ObjectGrants
import SettingsKit
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import TencentVOD

@Suite("Signers of VOD signatures and calls", .timeLimit(.minutes(10)))
struct VODSignerTests {
    private static let sub: Int64 = 1_500_000_001
    private let pair = TencentCredentials(secretID: "AKIDkey", secretKey: "secret")

    /// Verifies a signature of an API key's pair.
    private func signer(
        _ limits: KeyLimits = KeyLimits(),
        application: Int64? = nil,
        subject: String? = nil,
        applications: [String] = [],
        until end: Date? = nil,
        stating stated: Date? = nil
    ) async throws -> VODSigner {
        let clock = ManualClock()
        var settings = Settings()
        settings.tencentVOD.subApplications = applications
        var key = APIKey(id: "key_1", name: "k", scopes: [.mint], createdAt: clock.now, digest: [], limits: limits)
        key.expiresAt = end
        let state = InMemoryState(clock: clock)
        try await state.insert(key)
        let check = VODSignatureCheck(
            own: [],
            place: VODPlace(settings),
            pairs: { [pair, key] id in id == pair.secretID ? (key: key, secrets: [pair.secretKey], noteUse: {}) : nil },
            revoked: RevocationList(state: state, clock: clock)
        )
        var request = SignatureRequest()
        request.vodSubAppID = application
        request.subject = subject
        let issuer = TencentSignatureIssuer(pair, mode: .relay)
        return try await check.verify(issuer.issue(request, at: clock.now, until: stated).signature, at: clock.now)
    }

    private func owner(
        _ limits: KeyLimits,
        application: Int64?,
        subject: String?,
        applications: [String] = []
    ) async throws -> VODOwner {
        try await signer(limits, application: application, subject: subject, applications: applications).owner
    }

    @Test("a signature counts for its key and its user")
    func counted() async throws {
        var rates = ClientRates()
        rates.uploads = 1
        for (key, isFirst) in [("key_1", false), ("another", true)] {
            let (keys, subjects) = (ClientLimits<String>(.key, rates), ClientLimits<SubjectName>(.subject, rates))
            func isAdmitted(_ subject: String) async -> Bool {
                let meter = RequestMeter(keys: keys, subjects: subjects, pacer: nil, bringsContent: true)
                return await RequestMeter.$current.withValue(meter) {
                    (try? await signer(KeyLimits(), subject: subject)) != nil
                }
            }
            try keys.begin(key, bringsContent: true)
            #expect(await isAdmitted("dora") == isFirst)
            // Another request of the same user is under way.
            #expect(await !isAdmitted("dora"))
        }
        let (keys, subjects) = (ClientLimits<String>(.key, ClientRates()), ClientLimits<SubjectName>(.subject, rates))
        for (subject, isAdmitted) in [("dora", true), ("dora", false), ("eve", true)] {
            let meter = RequestMeter(keys: keys, subjects: subjects, pacer: nil, bringsContent: true)
            let found = await RequestMeter.$current.withValue(meter) {
                try? await signer(KeyLimits(), subject: subject)
            }
            #expect((found != nil) == isAdmitted, "\(subject)")
        }
    }

    @Test(
        "certificates end with the key, whether its pair made the signature or Sluice did, and never later than stated"
    )
    func expiry() async throws {
        let now = ManualClock().now
        #expect(try await signer().lastExpiry == nil)
        #expect(try await signer(until: now + 60).lastExpiry == now + 60)
        #expect(try await signer(stating: now + 60).lastExpiry == now + 60)
        #expect(try await signer(until: now + 60, stating: now + 90).lastExpiry == now + 60)
        #expect(try await signer(until: now + 90, stating: now + 60).lastExpiry == now + 60)
        let bench = try VODBench()
        for (end, seconds) in [(nil, 7200), (60, 60), (9999, 7200)] as [(TimeInterval?, TimeInterval)] {
            var signer = try await bench.signer()
            signer.lastExpiry = end.map { bench.clock.now + $0 }
            let applied = try await bench.uploads.begin(VODBench.video, region: nil, by: signer)
            #expect(applied.credentials.expiresAt == bench.clock.now + seconds)
            // Also the certificate of an upload that another signer began.
            let resumed = try await bench.uploads.resume(applied.sessionKey, by: signer)
            #expect(resumed.credentials.expiresAt == bench.clock.now + seconds)
        }
    }

    private func code(_ body: () async throws -> Void) async throws -> VODFailure.Code? {
        do {
            try await body()
            return nil
        } catch let error as VODError {
            return error.refusal?.code
        }
    }

    @Test("a key with limits on objects signs for the applications whose objects it has")
    func objects() async throws {
        let place = VODPlace(Settings())
        for (limits, isAllowed) in [
            (KeyLimits(), true),
            (KeyLimits(buckets: [place.bucketName]), true),
            (KeyLimits(buckets: [place.bucketName], prefixes: ["vod/\(Self.sub)/"]), true),
            (KeyLimits(prefixes: ["x/", "vod/"]), true),
            (KeyLimits(prefixes: ["vod/\(Self.sub)/1"]), false),
            (KeyLimits(prefixes: ["vod/\(Self.sub)0/"]), false),
            (KeyLimits(prefixes: ["vod/\(place.appID)/"]), false),
            (KeyLimits(buckets: ["other"]), false),
        ] {
            let code = try await code { _ = try await owner(limits, application: Self.sub, subject: nil) }
            #expect(code == (isAllowed ? nil : .invalidSignature), "\(limits)")
        }
        // A signature that names no application is for the first one.
        let first = KeyLimits(prefixes: ["vod/\(place.appID)/"])
        #expect(try await owner(first, application: nil, subject: nil).application == place.appID)
        let second = KeyLimits(prefixes: ["vod/\(Self.sub)/"])
        #expect(try await code { _ = try await owner(second, application: nil, subject: nil) } == .invalidSignature)
    }

    @Test("a key with limits on users signs for these")
    func users() async throws {
        let limits = KeyLimits(subjects: ["dora", "u:*"])
        for (subject, isAllowed) in [("dora", true), ("u:1", true), ("eve", false), (nil, false)] as [(String?, Bool)] {
            let code = try await code { _ = try await owner(limits, application: nil, subject: subject) }
            #expect(code == (isAllowed ? nil : .invalidSignature), "\(subject ?? "")")
        }
    }

    @Test("a signature names an application of this server")
    func applications() async throws {
        #expect(try await owner(KeyLimits(), application: 7, subject: nil).application == 7)
        let named = ["\(Self.sub)"]
        let found = try await owner(KeyLimits(), application: Self.sub, subject: nil, applications: named)
        #expect(found.application == Self.sub)
        let code = try await code {
            _ = try await owner(KeyLimits(), application: 7, subject: nil, applications: named)
        }
        #expect(code == .invalidSignature)
    }

    @Test("what a backend signs by itself is checked like what it sends")
    func parameters() async throws {
        let bench = try VODBench()
        func code(_ change: (inout VODSigner) -> Void) async throws -> String? {
            var signer = try await bench.signer()
            change(&signer)
            do throws(VODError) {
                try signer.checkParameters()
                return nil
            } catch {
                #expect(error.refusal?.code == .invalidSignature)
                return String(error.message.dropFirst("invalid signature: ".count).prefix { $0 != " " })
            }
        }
        func wrong(_ change: (inout TencentUploadSignature.Parameters) -> Void) async throws -> String? {
            try await code { signer in
                var parameters = signer.parameters
                change(&parameters)
                signer = VODSigner(
                    parameters: parameters,
                    id: signer.id,
                    secretKey: signer.secretKey,
                    owner: signer.owner,
                    issuer: signer.issuer,
                    maximumBytes: nil,
                    contentTypes: []
                )
            }
        }
        #expect(try await wrong { _ in } == nil)
        #expect(
            try await wrong {
                $0.classID = 0
                $0.procedure = String(repeating: "ü", count: 1024)
                $0.taskPriority = -10
                $0.taskNotifyMode = "None"
                $0.sourceContext = String(repeating: "ü", count: 250)
                $0.sessionContext = String(repeating: "ü", count: 1000)
                $0.vodSubAppID = .max
                $0.storageRegion = String(repeating: "a", count: 64)
            } == nil
        )
        #expect(try await wrong { $0.classID = -1 } == "classId")
        #expect(try await wrong { $0.procedure = String(repeating: "ü", count: 1025) } == "procedure")
        #expect(try await wrong { $0.taskPriority = 11 } == "taskPriority")
        #expect(try await wrong { $0.taskPriority = -11 } == "taskPriority")
        #expect(try await wrong { $0.taskNotifyMode = "finish" } == "taskNotifyMode")
        #expect(try await wrong { $0.sourceContext = String(repeating: "ü", count: 251) } == "sourceContext")
        #expect(try await wrong { $0.sessionContext = String(repeating: "x", count: 1001) } == "sessionContext")
        #expect(try await wrong { $0.vodSubAppID = -1 } == "vodSubAppId")
        for region in ["../x", "AP", "a.b", "", String(repeating: "a", count: 65)] {
            #expect(try await wrong { $0.storageRegion = region } == "storageRegion", "\(region)")
        }
    }

    @Test("the sub-application 0 is none")
    func noApplication() async throws {
        let place = VODPlace(Settings())
        let named = ["\(Self.sub)"]
        let found = try await owner(KeyLimits(), application: 0, subject: nil, applications: named)
        #expect(found.application == place.appID)
        // Also for what a key may mint, which would not be asked about again.
        #expect(place.reach(0) == place.reach(nil) && place.reach(0) == place.reach(place.appID))
        let limits = KeyLimits(prefixes: ["vod/0/"])
        #expect(!place.allows(limits, 0) && !place.allows(limits, nil))
    }

    @Test("a user owns what is of the same application and user; a server what its key allows")
    func owners() async throws {
        let bench = try VODBench()
        var signer = try await bench.signer()
        let application = signer.owner.application
        let others = [
            VODOwner(application: application, subject: "eve"), VODOwner(application: application, subject: nil),
            VODOwner(application: application + 1, subject: "dora"),
        ]
        #expect(signer.owns(signer.owner))
        #expect(others.map { signer.owns($0) } == [false, false, false])
        signer.serverLimits = KeyLimits()
        #expect(signer.owns(signer.owner))
        #expect(others.map { signer.owns($0) } == [true, true, false])
        let named = [("jos\u{E9}", "jos\u{E9}", true), ("jos\u{E9}", "jose\u{301}", false)]
        for (own, other, isOwn) in named {
            let owner = VODOwner(application: application, subject: own)
            #expect((owner == VODOwner(application: application, subject: other)) == isOwn)
        }
        signer.serverLimits = KeyLimits(subjects: ["dora"])
        #expect(signer.owns(signer.owner))
        #expect(others.map { signer.owns($0) } == [false, false, false])
    }
}
