import CloudCalls
import Digests
import Foundation
import GatewayKit
import HTTPWire
import MetricsKit
import ObjectGateway
import ObjectGrants
import Signing
import SluiceTesting
import Synchronization
import Testing
import UploadCore
import UploadModel

@testable import AliyunVOD
@testable import VODKit

@Suite("Callers of ApsaraVideo VOD", .timeLimit(.minutes(10)))
struct ApsaraCallerTests {
    private static let application = ApsaraBench.application

    private static func session(
        of subject: String? = "dora",
        _ policy: String? = nil,
        keys: ObjectGrant.Keys = .all,
        bucket: String? = nil,
        scopes: Set<Scope> = [.admin],
        until end: Date = .distantFuture,
        issuer: String? = nil
    ) throws -> ObjectGrant {
        let grant = ObjectGrant(
            upload: Grant(id: "s", issuer: issuer, subject: subject, expiresAt: end, issuedAt: .distantPast),
            bucket: bucket,
            keys: keys,
            actions: ObjectAction.allowed(to: ApsaraBench.key(KeyLimits(), scopes))
        )
        guard let policy else { return grant }
        return grant.narrowed(by: try SessionPolicy(policy, vendor: .aliyun))
    }

    private static func policy(
        _ actions: String...,
        on resource: String = "*",
        denying denied: [String] = []
    ) -> String {
        func list(_ names: [String]) -> String { names.map { #""\#($0)""# }.joined(separator: ",") }
        let denial =
            denied.isEmpty ? "" : #",{"Effect":"Deny","Action":[\#(list(denied))],"Resource":"*"}"#
        return
            #"{"Version":"1","Statement":[{"Effect":"Allow","Action":[\#(list(actions))],"Resource":"\#(resource)"}\#(denial)]}"#
    }

    /// The actions that a session may perform, besides those that need no signature.
    private static func allowed(_ grant: ObjectGrant, in application: String = application) -> Set<String> {
        let caller = ApsaraCaller(identity: .session(grant))
        let place = ApsaraPlace(.init())
        let all = ApsaraAction.allCases.filter { !$0.isAlsoUnsigned && caller.may($0, in: application, at: place) }
        return Set(all.map(\.rawValue))
    }

    private static let all = Set(ApsaraAction.allCases.filter { !$0.isAlsoUnsigned }.map(\.rawValue))
    /// Without those that concern all users.
    private static let ofUsers = all.subtracting(["SetMessageCallback", "GetMessageCallback"])

    // MARK: Keys

    @Test(
        "each scope of a key allows its actions, as documented",
        arguments: [
            (
                Scope.mint,
                ["CreateUploadVideo", "CreateUploadImage", "CreateUploadAttachedMedia", "RefreshUploadVideo"]
            ),
            (.upload, ["UploadMediaByURL", "UpdateVideoInfo", "SetMessageCallback"]),
            (.delete, ["DeleteVideo", "DeleteImage", "DeleteMultipartUpload"]),
            (
                .read,
                [
                    "GetURLUploadInfos", "GetUploadDetails", "GetVideoInfo", "GetVideoInfos", "GetImageInfo",
                    "SearchMedia",
                    "GetMezzanineInfo", "GetPlayInfo", "GetMessageCallback",
                ]
            ),
        ]
    )
    func scopes(_ scope: Scope, _ names: [String]) throws {
        let caller = ApsaraCaller(identity: .key(ApsaraBench.key(KeyLimits(), [scope])))
        let place = ApsaraPlace(.init())
        for action in ApsaraAction.allCases where !action.isAlsoUnsigned {
            let isAllowed = names.contains(action.rawValue)
            #expect(caller.may(action, in: Self.application, at: place) == isAllowed, "\(action)")
        }
        // The same for its sessions.
        #expect(Self.allowed(try Self.session(of: nil, scopes: [scope])) == Set(names))
        #expect(Self.allowed(try Self.session(scopes: [scope])) == Set(names).intersection(Self.ofUsers))
    }

    @Test(
        "limits of a key decide about users and applications",
        arguments: [
            (KeyLimits(), true, true, true), (KeyLimits(subjects: ["dora"]), true, true, false),
            (KeyLimits(subjects: ["d*"]), true, true, false), (KeyLimits(subjects: ["eve"]), true, false, false),
            (KeyLimits(buckets: ["outin-sluice"]), true, true, true),
            (KeyLimits(buckets: ["other"]), false, true, true),
            (KeyLimits(buckets: ["outin-sluice"], prefixes: ["app-1000000/"]), true, true, true),
            (KeyLimits(buckets: ["outin-sluice"], prefixes: ["app-7/"]), false, true, true),
            (KeyLimits(buckets: ["outin-sluice"], prefixes: ["app-1000000/sv/"]), false, true, true),
            (KeyLimits(buckets: ["outin-sluice"], prefixes: ["app-"]), true, true, true),
        ]
    )
    func limits(_ limits: KeyLimits, _ may: Bool, _ ownsDora: Bool, _ ownsNobody: Bool) {
        let caller = ApsaraCaller(identity: .key(ApsaraBench.key(limits)))
        #expect(caller.may(.getVideoInfo, in: Self.application, at: ApsaraPlace(.init())) == may)
        #expect(caller.owns("dora") == ownsDora && caller.owns(nil) == ownsNobody)
        let place = ApsaraPlace(.init())
        func mayBegin(_ subject: String?) -> Bool { caller.mayBegin(for: subject, in: Self.application, at: place) }
        #expect(mayBegin("dora") == (ownsDora && may) && mayBegin(nil) == (ownsNobody && may))
        for action in [ApsaraAction.setMessageCallback, .getMessageCallback] {
            #expect(caller.may(action, in: Self.application, at: place) == limits.isEmpty, "\(action)")
            #expect(caller.mayAnywhere(action) == limits.isEmpty, "\(action)")
        }
        #expect(caller.issuer == "key_a")
        #expect(caller.limit(nil) == nil && caller.limit(5) == 5)
    }

    @Test("media that a key may not see is not there; of an application that is not its own it is forbidden")
    func foreignMedia() async throws {
        let bench = try await ApsaraBench.telling()
        let media = try await bench.begin { new in
            new.subject = "eve"
            new.labels.referenceID = "film-1"
        }
        let dora = ApsaraCaller(identity: .key(ApsaraBench.key(KeyLimits(subjects: ["dora"]))))
        let other = ApsaraCaller(
            identity: .key(ApsaraBench.key(KeyLimits(buckets: ["outin-sluice"], prefixes: ["app-7/"])))
        )
        let calls: [(ApsaraAction, [String: String])] = [
            (.getVideoInfo, ["VideoId": media.id]), (.getVideoInfo, ["ReferenceId": "film-1"]),
            (.refreshUploadVideo, ["VideoId": media.id]), (.updateVideoInfo, ["VideoId": media.id, "Title": "x"]),
            (.deleteVideo, ["VideoIds": media.id]), (.getPlayInfo, ["VideoId": media.id]),
            (.getMezzanineInfo, ["VideoId": media.id]),
            (.deleteMultipartUpload, ["MediaId": media.id, "MediaType": "video"]),
        ]
        for (action, parameters) in calls {
            for caller in [dora, other] where action != .deleteVideo || caller.subject != nil {
                let refused = try await code { try await bench.call(action, parameters, by: caller) }
                #expect(refused == "InvalidVideo.NotFound", "\(action)")
            }
        }
        let several = try await bench.call(.deleteVideo, ["VideoIds": media.id], by: other)
        #expect(several.texts("ForbiddenVideoIds") == [media.id])
        let details = try await bench.call(.getUploadDetails, ["MediaIds": media.id], by: other)
        #expect(details.texts("ForbiddenMediaIds") == [media.id] && details.list("UploadDetails").isEmpty)
        #expect(try await bench.recorded(media.id) == media)
        for action in [ApsaraAction.createUploadVideo, .setMessageCallback, .getMessageCallback] {
            let parameters = ["Title": "t", "FileName": "t.mp4", "CallbackType": "HTTP"]
            #expect(try await code { try await bench.call(action, parameters, by: other) } == "Forbidden")
        }
        #expect(try await code { _ = try await bench.begin(by: dora) { $0.subject = "eve" } } == "Forbidden")
        #expect(try await bench.begin(by: dora).subject == "dora")
    }

    // MARK: Sessions

    @Test(
        "a session may do what its policy allows",
        arguments: [
            (policy("vod:CreateUploadVideo"), ["CreateUploadVideo"]),
            (policy("VOD:createuploadvideo", "vod:RefreshUploadVideo"), ["CreateUploadVideo", "RefreshUploadVideo"]),
            (policy("vod:CreateUpload*"), ["CreateUploadVideo", "CreateUploadImage", "CreateUploadAttachedMedia"]),
            (policy("vod:GetVideoInfo?"), ["GetVideoInfos"]),
            (policy("vod:SearchMedia", on: "acs:vod:*:*:*"), ["SearchMedia"]),
            (policy("vod:SearchMedia", on: "acs:vod:cn-shanghai:1234567890123456:*"), ["SearchMedia"]),
            (policy("vod:Delete*", denying: ["vod:DeleteVideo"]), ["DeleteImage", "DeleteMultipartUpload"]),
            (policy("vod:SearchMedia", denying: ["vod:*"]), []), (policy("vod:SearchMedia", denying: ["*"]), []),
            (policy("oss:*"), []), (policy("oss:PutObject", "oss:GetObject"), []),
            (policy("oss:*", on: "acs:oss:*:*:outin-sluice/*"), []),
            (policy("vod:SearchMedia", on: "acs:oss:*:*:other/*"), []),
        ]
    )
    func policies(_ policy: String, _ names: [String]) throws {
        #expect(Self.allowed(try Self.session("dora", policy)) == Set(names))
    }

    private static func session(_ subject: String?, _ policy: String) throws -> ObjectGrant {
        try session(of: subject, policy)
    }

    @Test("vod:* and * allow all actions, and only those of the key", arguments: ["vod:*", "*"])
    func everything(_ name: String) throws {
        #expect(Self.allowed(try Self.session(nil, Self.policy(name))) == Self.all)
        #expect(Self.allowed(try Self.session("dora", Self.policy(name))) == Self.ofUsers)
        let reader = try Self.session(of: "dora", Self.policy(name), scopes: [.read])
        #expect(Self.allowed(reader).contains("GetVideoInfo") && !Self.allowed(reader).contains("CreateUploadVideo"))
        #expect(Self.allowed(try Self.session(of: "dora", Self.policy(name), scopes: [])).isEmpty)
    }

    @Test("a policy for ApsaraVideo VOD allows no access to objects, and one for OSS no call")
    func separate() throws {
        let key = "app-1000000/sv/x.mp4"
        for policy in [Self.policy("vod:*"), Self.policy("vod:*", on: "acs:vod:*:*:*")] {
            let grant = try Self.session("dora", policy)
            for action in ObjectAction.allCases where !action.isVideoCall {
                #expect(!grant.allows(action, bucket: "outin-sluice", key: key), "\(action)")
            }
        }
        // A resource of one service is none of the other.
        let grant = try Self.session("dora", Self.policy("*", on: "acs:vod:*:*:*"))
        for action in ObjectAction.allCases {
            #expect(grant.allows(action, bucket: "outin-sluice", key: key) == action.isVideoCall, "\(action)")
        }
    }

    @Test("a session sees media of its user only, and begins it for nobody else")
    func users() async throws {
        let bench = try await ApsaraBench.telling()
        let caller = ApsaraCaller(identity: .session(try Self.session()))
        let own = try await bench.begin(by: caller)
        #expect(own.subject == "dora" && own.issuer == nil)
        let foreign = try await bench.begin { $0.subject = "eve" }
        let nobody = try await bench.begin()
        #expect(try await bench.call(.getVideoInfo, ["VideoId": own.id], by: caller).text("Video", "VideoId") == own.id)
        for media in [foreign, nobody] {
            for action in [ApsaraAction.getVideoInfo, .refreshUploadVideo, .updateVideoInfo, .getPlayInfo] {
                let refused = try await code { try await bench.call(action, ["VideoId": media.id], by: caller) }
                #expect(refused == "InvalidVideo.NotFound")
            }
        }
        let found = try await bench.call(.searchMedia, [:], by: caller)
        #expect(found.list("MediaList").map { $0.text("MediaId") } == [own.id])
        let all = ApsaraCaller(identity: .session(try Self.session(of: nil)))
        #expect(all.owns("eve") && all.owns(nil) && !caller.owns(nil) && !caller.owns("Dora"))
    }

    @Test("a session is told what it may not do, also of media that is not there")
    func forbidden() async throws {
        let bench = try await ApsaraBench.telling()
        let caller = ApsaraCaller(identity: .session(try Self.session("dora", Self.policy("vod:CreateUploadVideo"))))
        let id = String(repeating: "0", count: 32)
        let calls: [(ApsaraAction, [String: String])] = [
            (.getVideoInfo, ["VideoId": id]), (.refreshUploadVideo, ["VideoId": id]), (.searchMedia, [:]),
            (.createUploadImage, ["ImageType": "default"]), (.getMessageCallback, [:]),
            (.uploadMediaByURL, ["UploadURLs": "https://a.example/v.mp4"]),
        ]
        for (action, parameters) in calls {
            let refused = try await code { try await bench.call(action, parameters, by: caller) }
            #expect(refused == "Forbidden", "\(action)")
        }
        try await bench.call(.createUploadVideo, ["Title": "t", "FileName": "t.mp4"], by: caller)
    }

    @Test("what a session or a key is handed ends with it")
    func expiry() async throws {
        let bench = try await ApsaraBench.telling()
        let now = bench.clock.now
        var key = ApsaraBench.key()
        key.expiresAt = now + 60
        var user = key
        user.user = AppUser(issuedAt: now, mintedLifetime: 90)
        let callers: [(ApsaraCaller, TimeInterval)] = [
            (ApsaraBench.server, 3000), (ApsaraCaller(identity: .key(key)), 60),
            (ApsaraCaller(identity: .key(user)), 90),
            (ApsaraCaller(identity: .session(try Self.session(until: now + 70))), 70),
            (ApsaraCaller(identity: .session(try Self.session(until: now + 7000))), 3000),
        ]
        for (caller, seconds) in callers {
            let issued = try await bench.uploads.begin(ApsaraBench.video, by: caller)
            #expect(issued.credentials.expiresAt == now + seconds && issued.seconds == Int64(seconds))
            #expect(caller.lastExpiry(now + 10, at: now) == now + 10)
        }
    }

    @Test("a session for one object or another bucket calls nothing")
    func narrow() throws {
        #expect(Self.allowed(try Self.session(keys: .only("app-1000000/sv/x.mp4"))).isEmpty)
        #expect(Self.allowed(try Self.session(bucket: "other")).isEmpty)
        #expect(Self.allowed(try Self.session(bucket: "outin-sluice")) == Self.ofUsers)
        let prefix = try #require(KeyPrefix("app-7/"))
        #expect(Self.allowed(try Self.session(keys: .within(prefix))).isEmpty)
        #expect(Self.allowed(try Self.session(keys: .within(prefix)), in: "app-7") == Self.ofUsers)
    }

    // MARK: Authentication

    /// The API over a bench, with keys in its state.
    private struct Endpoint {
        let bench: ApsaraBench
        let handler: ApsaraAPIHandler
        private let nonce = Counter()

        init() async throws {
            bench = try await ApsaraBench.telling()
            handler = ApsaraAPIHandler(
                service: bench.actions,
                authentication: ApsaraAuthentication(
                    issuer: bench.issuer,
                    revoked: RevocationList(state: bench.state, clock: bench.clock),
                    pairs: KeyPairCache(
                        state: bench.state,
                        master: bench.master,
                        clock: bench.clock,
                        uses: KeyUses()
                    ),
                    nonces: UsedNonces()
                ),
                cors: .disabled,
                calls: MetricsRegistry().counters("x_total", "Xs.", by: "call", "code"),
                report: { _, _ in }
            )
        }

        /// The pair of a new key.
        func pair(_ id: String, _ scopes: Set<Scope>, _ limits: KeyLimits = KeyLimits()) async throws
            -> SigningCredentials
        {
            let key = APIKey(
                id: id,
                name: id,
                scopes: scopes,
                createdAt: bench.clock.now,
                digest: Digest.hash(id.utf8, .sha256),
                limits: limits
            )
            try await bench.state.insert(key)
            return StaticKeyPair(key, master: bench.master).credentials
        }

        func credentials(_ grant: ObjectGrant) throws -> SigningCredentials {
            let made = try bench.issuer.mint(grant, for: .aliyun)
            return SigningCredentials(
                accessKeyID: made.accessKeyID,
                secretAccessKey: made.secretAccessKey.text,
                sessionToken: made.sessionToken
            )
        }

        private static func escaped(_ text: String) -> String {
            text.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        }

        /// Signs and sends a call; without a `shift` it states no time.
        ///
        /// - Returns: The status and the code; the status alone without an error.
        func send(
            _ action: String,
            _ parameters: [String: String] = [:],
            by credentials: SigningCredentials?,
            nonce: String? = nil,
            shift: Int64? = 0,
            _ change: (inout [SigningField]) -> Void = { _ in }
        ) async throws -> String {
            var all = ["Action": action, "Version": "2017-03-21", "Format": "JSON"].merging(parameters) { $1 }
                .map { SigningField($0.key, $0.value) }
            if let credentials {
                all = AliyunRPCSignature.sign(
                    SigningRequest(method: "GET", path: "/", query: all),
                    credentials: credentials,
                    nonce: nonce ?? "n\(self.nonce.next())",
                    at: shift.map { bench.clock.now.unixSeconds + $0 }
                )
            }
            change(&all)
            let query = all.map { "\(Self.escaped($0.name))=\(Self.escaped($0.value))" }.joined(separator: "&")
            let head = RequestHead(
                method: .get,
                target: try RequestTarget(parsing: "/?\(query)", method: .get),
                fields: ["Host": "vod.example"]
            )
            let request = Request(head: head, body: NoBody(), id: "r", peerAddress: "::1", isEncrypted: false) { _ in }
            let call = await CloudCall(request, at: bench.clock.now)
            #expect(handler.isMeant(by: call))
            let response = await handler.respond(to: call, request)
            #expect(response.fields["Cache-Control"] == "no-store")
            return response.trace.errorCode.map { "\(response.status.code) \($0)" } ?? "\(response.status.code)"
        }
    }

    private final class Counter: Sendable {
        private let count = Mutex(0)

        func next() -> Int {
            count.withLock { count in
                count += 1
                return count
            }
        }
    }

    @Test("the pair of a key calls what its scopes allow")
    func pairs() async throws {
        let endpoint = try await Endpoint()
        let video = ["Title": "t", "FileName": "t.mp4"]
        let minter = try await endpoint.pair("key_m", [.mint])
        #expect(try await endpoint.send("CreateUploadVideo", video, by: minter) == "200")
        #expect(try await endpoint.send("SearchMedia", by: minter) == "404 InvalidAccessKeyId.NotFound")
        let reader = try await endpoint.pair("key_r", [.read])
        #expect(try await endpoint.send("SearchMedia", by: reader) == "200")
        #expect(try await endpoint.send("CreateUploadVideo", video, by: reader) == "404 InvalidAccessKeyId.NotFound")
        let unknown = SigningCredentials(accessKeyID: "SLAKKNOWN", secretAccessKey: "x")
        #expect(try await endpoint.send("SearchMedia", by: unknown) == "404 InvalidAccessKeyId.NotFound")
        let wrong = SigningCredentials(accessKeyID: reader.accessKeyID, secretAccessKey: "x")
        #expect(try await endpoint.send("SearchMedia", by: wrong) == "400 SignatureDoesNotMatch")
        let limits = KeyLimits(buckets: ["outin-sluice"], prefixes: ["app-7/"])
        let limited = try await endpoint.pair("key_l", [.mint], limits)
        #expect(try await endpoint.send("CreateUploadVideo", video, by: limited) == "403 Forbidden")
        let own = video.merging(["AppId": "app-7"]) { $1 }
        #expect(try await endpoint.send("CreateUploadVideo", own, by: limited) == "200")
        #expect(try await endpoint.bench.state.revokeKey("key_m", at: endpoint.bench.clock.now))
        endpoint.bench.clock.advance(by: 2)
        #expect(try await endpoint.send("CreateUploadVideo", video, by: minter) == "404 InvalidAccessKeyId.NotFound")
    }

    @Test("a session calls until it ends or is revoked")
    func sessions() async throws {
        let endpoint = try await Endpoint()
        _ = try await endpoint.pair("key_m", [.mint])
        let clock = endpoint.bench.clock
        let video = ["Title": "t", "FileName": "t.mp4"]
        var grant = try Self.session(scopes: [.mint], until: clock.now + 60, issuer: "key_m")
        grant.upload.issuedAt = clock.now
        let credentials = try endpoint.credentials(grant)
        #expect(try await endpoint.send("CreateUploadVideo", video, by: credentials) == "200")
        #expect(try await endpoint.send("SearchMedia", by: credentials) == "403 Forbidden")
        for change in [credentials.accessKeyID + "x", "STS.other"] {
            let other = SigningCredentials(
                accessKeyID: change,
                secretAccessKey: credentials.secretAccessKey,
                sessionToken: credentials.sessionToken
            )
            #expect(
                try await endpoint.send("SearchMedia", by: other)
                    == "400 InvalidSecurityToken.MismatchWithAccessKey"
            )
        }
        let malformed = SigningCredentials(
            accessKeyID: credentials.accessKeyID,
            secretAccessKey: credentials.secretAccessKey,
            sessionToken: "x"
        )
        #expect(try await endpoint.send("SearchMedia", by: malformed) == "400 InvalidSecurityToken.Malformed")
        let wrong = SigningCredentials(
            accessKeyID: credentials.accessKeyID,
            secretAccessKey: "x",
            sessionToken: credentials.sessionToken
        )
        #expect(try await endpoint.send("SearchMedia", by: wrong) == "400 SignatureDoesNotMatch")
        clock.advance(by: 59)
        #expect(try await endpoint.send("CreateUploadVideo", video, by: credentials) == "200")
        clock.advance(by: 1)
        #expect(
            try await endpoint.send("CreateUploadVideo", video, by: credentials) == "400 InvalidSecurityToken.Expired"
        )
        grant.upload.expiresAt = clock.now + 3600
        let other = try endpoint.credentials(grant)
        #expect(try await endpoint.send("CreateUploadVideo", video, by: other) == "200")
        let revocation = Revocation(subject: "dora", issuedBefore: clock.now, createdAt: clock.now)
        try await endpoint.bench.state.insert(revocation)
        clock.advance(by: 1)
        #expect(try await endpoint.send("CreateUploadVideo", video, by: other) == "400 InvalidSecurityToken.Expired")
        // Without a token its id is none of a key.
        let bare = SigningCredentials(accessKeyID: other.accessKeyID, secretAccessKey: other.secretAccessKey)
        #expect(try await endpoint.send("SearchMedia", by: bare) == "404 InvalidAccessKeyId.NotFound")
    }

    @Test("a session ends with the key that minted it")
    func revokedKey() async throws {
        let endpoint = try await Endpoint()
        _ = try await endpoint.pair("key_m", [.mint])
        let credentials = try endpoint.credentials(try Self.session(issuer: "key_m"))
        #expect(try await endpoint.send("SearchMedia", by: credentials) == "200")
        #expect(try await endpoint.bench.state.revokeKey("key_m", at: endpoint.bench.clock.now))
        endpoint.bench.clock.advance(by: 1)
        #expect(try await endpoint.send("SearchMedia", by: credentials) == "400 InvalidSecurityToken.Expired")
    }

    @Test("a session may leave the time out, as the SDK for browsers does, and no nonce is taken twice while it lasts")
    func timeless() async throws {
        let endpoint = try await Endpoint()
        let pair = try await endpoint.pair("key_r", [.read])
        #expect(try await endpoint.send("SearchMedia", by: pair, shift: nil) == "400 MissingParameter")
        let clock = endpoint.bench.clock
        let grant = try Self.session(until: clock.now + 36_000)
        let credentials = try endpoint.credentials(grant)
        #expect(try await endpoint.send("SearchMedia", by: credentials, nonce: "n", shift: nil) == "200")
        for _ in 0..<3 {
            let again = try await endpoint.send("SearchMedia", by: credentials, nonce: "n", shift: nil)
            #expect(again == "400 SignatureNonceUsed")
            clock.advance(by: 11_000)
        }
        clock.advance(by: 3001)
        let late = try await endpoint.send("SearchMedia", by: credentials, nonce: "m", shift: nil)
        #expect(late == "400 InvalidSecurityToken.Expired")
        // A session has only so many nonces of this kind, so that others keep theirs.
        let busy = try endpoint.credentials(try Self.session(until: clock.now + 36_000))
        for number in 0..<1000 {
            #expect(try await endpoint.send("SearchMedia", by: busy, nonce: "\(number)", shift: nil) == "200")
        }
        #expect(try await endpoint.send("SearchMedia", by: busy, nonce: "more", shift: nil) == "503 ServiceUnavailable")
        #expect(try await endpoint.send("SearchMedia", by: busy, nonce: "more") == "200")
        // Nor has its user, with another session.
        let again = try endpoint.credentials(try Self.session(until: clock.now + 36_000))
        #expect(try await endpoint.send("SearchMedia", by: again, nonce: "a", shift: nil) == "503 ServiceUnavailable")
        let other = try endpoint.credentials(try Self.session(of: "eve", until: clock.now + 36_000))
        #expect(try await endpoint.send("SearchMedia", by: other, nonce: "more", shift: nil) == "200")
    }

    @Test("a call counts for the key that signed it, or for the user of its session and the key that minted it")
    func counted() async throws {
        let endpoint = try await Endpoint()
        var rates = ClientRates()
        rates.uploads = 1
        let (keys, subjects) = (ClientLimits<String>(.key, rates), ClientLimits<SubjectName>(.subject, rates))
        /// Sends a call whose request does not end, and whose content counts.
        func send(_ credentials: SigningCredentials) async throws -> Bool {
            let meter = RequestMeter(keys: keys, subjects: subjects, pacer: nil, bringsContent: true)
            return try await RequestMeter.$current.withValue(meter) {
                try await endpoint.send("SearchMedia", by: credentials) == "200"
            }
        }
        let pair = try await endpoint.pair("key_r", [.read])
        #expect(try await send(pair))
        #expect(try await !send(pair))
        #expect(try await send(try await endpoint.pair("key_s", [.read])))
        _ = try await endpoint.pair("key_m", [.mint, .read])
        #expect(try await send(try endpoint.credentials(try Self.session(of: "dora"))))
        #expect(try await !send(try endpoint.credentials(try Self.session(of: "dora"))))
        #expect(try await send(try endpoint.credentials(try Self.session(of: "eve", issuer: "key_m"))))
        #expect(try await !send(try endpoint.credentials(try Self.session(of: "bob", issuer: "key_m"))))
    }

    @Test("a call for which the caller has no right uses up no nonce", arguments: [0, nil] as [Int64?])
    func withoutRight(_ shift: Int64?) async throws {
        let endpoint = try await Endpoint()
        let clock = endpoint.bench.clock
        let grant = try Self.session(scopes: [.mint], until: clock.now + 3600)
        let credentials = try endpoint.credentials(grant)
        for _ in 0..<2 {
            let refused = try await endpoint.send("SearchMedia", by: credentials, nonce: "n", shift: shift)
            #expect(refused == "403 Forbidden")
        }
        let video = ["Title": "t", "FileName": "t.mp4"]
        for expected in ["200", "400 SignatureNonceUsed"] {
            let answer = try await endpoint.send("CreateUploadVideo", video, by: credentials, nonce: "n", shift: shift)
            #expect(answer == expected)
        }
    }

    @Test("a call that is repeated, late or of another version is refused")
    func replay() async throws {
        let endpoint = try await Endpoint()
        let pair = try await endpoint.pair("key_r", [.read])
        #expect(try await endpoint.send("SearchMedia", by: pair, nonce: "n") == "200")
        #expect(try await endpoint.send("SearchMedia", by: pair, nonce: "n") == "400 SignatureNonceUsed")
        for (shift, expected) in [
            (900, "200"), (-900, "200"), (901, "400 InvalidTimeStamp.Expired"), (-901, "400 InvalidTimeStamp.Expired"),
        ] {
            #expect(try await endpoint.send("SearchMedia", by: pair, shift: Int64(shift)) == expected)
        }
        // What is refused for its signature uses no nonce up.
        let tampered = try await endpoint.send("SearchMedia", by: pair, nonce: "m") { fields in
            fields.append(SigningField("PageNo", "2"))
        }
        #expect(tampered == "400 SignatureDoesNotMatch")
        #expect(try await endpoint.send("SearchMedia", by: pair, nonce: "m") == "200")
        for (parameters, expected) in [
            (["Version": "2017-03-22"], "400 InvalidVersion"), (["Version": ""], "400 InvalidVersion"),
            (["Action": "Nothing"], "404 InvalidAction.NotFound"),
            (["Action": "searchmedia"], "404 InvalidAction.NotFound"),
            (["Action": ""], "400 MissingParameter"), (["Format": "YAML"], "400 InvalidParameter"),
        ] {
            #expect(try await endpoint.send("SearchMedia", parameters, by: pair) == expected)
        }
        let repeated = try await endpoint.send("SearchMedia", by: pair) { $0.append(SigningField("Action", "x")) }
        #expect(repeated == "400 InvalidParameter")
        #expect(try await endpoint.send("SearchMedia", by: nil) == "400 MissingParameter")
    }

    @Test("a state that fails is an error of the server")
    func unavailable() async throws {
        let endpoint = try await Endpoint()
        let pair = try await endpoint.pair("key_r", [.read])
        endpoint.bench.state.plan.fail(.key)
        #expect(try await endpoint.send("SearchMedia", by: pair) == "500 InternalError")
        endpoint.bench.state.plan.fail(.dialectRecords, with: UploadError(.unavailable, "away"))
        #expect(try await endpoint.send("SearchMedia", by: pair) == "503 ServiceUnAvailable")
    }

    // MARK: Progress

    @Test("progress is reported without a signature, or with one of any key, and kept while media is open")
    func progress() async throws {
        let endpoint = try await Endpoint()
        let bench = endpoint.bench
        let media = try await bench.begin()
        let report = [
            "VideoId": media.id, "UploadRatio": "0.5", "FileSize": "100", "DeviceModel": "d", "Source": "s",
        ]
        #expect(try await endpoint.send("ReportUploadProgress", report, by: nil) == "200")
        let expected = ApsaraMedia.Progress(
            uploadedBytes: 50,
            ratio: 0.5,
            deviceModel: "d",
            source: "s",
            address: "::1"
        )
        #expect(try await bench.recorded(media.id)?.progress == expected)
        for scope in Scope.allCases {
            let pair = try await endpoint.pair("key_\(scope)", [scope])
            for action in ["ReportUploadProgress", "GetUploadProgress"] {
                #expect(try await endpoint.send(action, report, by: pair) == "200", "\(scope)")
            }
        }
        let session = try endpoint.credentials(try Self.session("dora", Self.policy("vod:SearchMedia")))
        #expect(try await endpoint.send("ReportUploadProgress", report, by: session) == "200")
        // Nonsense changes nothing.
        for change in [
            ["UploadRatio": "2"], ["UploadRatio": "nan"], ["UploadRatio": "-1"], ["UploadRatio": "x"],
            ["UploadRatio": "", "FileSize": "99999999999999999999"], ["VideoId": "x"], ["VideoId": ""],
            ["DeviceModel": "a\u{1}", "Source": "\u{7F}"],
        ] {
            let parameters = report.merging(change) { $1 }
            #expect(try await endpoint.send("ReportUploadProgress", parameters, by: nil) == "200")
            #expect(try await bench.recorded(media.id)?.progress == expected, "\(change)")
        }
        let long = report.merging(["DeviceModel": String(repeating: "d", count: 1000)]) { $1 }
        #expect(try await endpoint.send("ReportUploadProgress", long, by: nil) == "200")
        #expect(try await bench.recorded(media.id)?.progress?.deviceModel?.count == 64)
        // One `Character`.
        let cluster = report.merging(["DeviceModel": "d" + String(repeating: "\u{20DD}", count: 1000)]) { $1 }
        #expect(try await endpoint.send("ReportUploadProgress", cluster, by: nil) == "200")
        #expect(try await bench.recorded(media.id)?.progress?.deviceModel?.unicodeScalars.count == 64)
        let before = try await bench.library.record(media.id)?.record.version
        bench.clock.advance(by: 6601)
        #expect(try await endpoint.send("ReportUploadProgress", report, by: nil) == "200")
        #expect(try await bench.library.record(media.id)?.record.version == before)
        let complete = try await bench.made()
        let last = report.merging(["VideoId": complete.id]) { $1 }
        #expect(try await endpoint.send("ReportUploadProgress", last, by: nil) == "200")
        #expect(try await bench.recorded(complete.id)?.progress == expected)
        #expect(try await endpoint.send("ReportUploadProgress", report, by: try await endpoint.pair("k", [])) != "200")
    }

    @Test("the browser that reported a checkpoint gets it back, while the upload is open; nobody else does")
    func checkpoint() async throws {
        let endpoint = try await Endpoint()
        let bench = endpoint.bench
        let media = try await bench.begin()
        let upload = try await bench.beginParts(of: media)
        let file = ["FileName": "a.mp4", "FileSize": "100", "FileCreateTime": "17", "FileHash": "h"]
        let report = file.merging([
            "VideoId": media.id, "UserId": "1", "ClientId": "c", "UploadRatio": "0.5", "UploadId": upload.id.text,
            "UploadPoint": #"{"loaded":0.5,"checkpoint":{}}"#, "PartSize": "10", "DonePartsCount": "5",
        ]) { $1 }
        func asked(_ change: [String: String] = [:], client: String? = "c", user: String = "1") async throws
            -> [ApsaraCheckpoint]
        {
            let named = file.merging(change) { $1 }
            let list =
                "[{\"FileName\":\"\(named["FileName"] ?? "")\",\"FileSize\":\(named["FileSize"] ?? "0"),"
                + "\"FileCreateTime\":\(named["FileCreateTime"] ?? "0"),\"FileHash\":\"\(named["FileHash"] ?? "")\"}]"
            var parameters = [(name: "UserId", value: user), (name: "UploadInfoList", value: list)]
            if let client { parameters.append((name: "ClientId", value: client)) }
            let call = try ApsaraParameters(parameters)
            #expect(
                try await endpoint.send("GetUploadProgress", Dictionary(uniqueKeysWithValues: parameters), by: nil)
                    == "200"
            )
            var found: [ApsaraCheckpoint] = []
            for file in try ApsaraCheckpoint.File.list(call) {
                if let one = try await bench.library.checkpoint(of: file) { found.append(one) }
            }
            return found
        }
        #expect(try await asked().isEmpty)
        #expect(try await endpoint.send("ReportUploadProgress", report, by: nil) == "200")
        let found = try #require(try await asked().first)
        #expect(found.media == media.id && found.point == report["UploadPoint"] && found.ratio == 0.5)
        #expect(found.document.members.contains { $0.name == "ClientId" })
        for (client, user) in [(nil, "1"), ("d", "1"), ("c", "2")] as [(String?, String)] {
            #expect(try await asked(client: client, user: user).isEmpty)
        }
        for name in file.keys { #expect(try await asked([name: "18"]).isEmpty, "\(name)") }
        // Each media has one: reports cannot fill the state.
        let later = report.merging(["UploadRatio": "0.6", "FileHash": "i"]) { $1 }
        #expect(try await endpoint.send("ReportUploadProgress", later, by: nil) == "200")
        #expect(try await asked().isEmpty)
        #expect(try await asked(["FileHash": "i"]).first?.ratio == 0.6)
        let kept = try await bench.state.records(ApsaraCheckpoint.recordKind, prefix: "", after: nil, limit: 9)
        #expect(kept.count == 1 && kept[0].expiresAt != nil)
        // Too much, or too little to continue with, is not kept.
        for change in [
            ["UploadPoint": String(repeating: "x", count: 70_000)], ["ClientId": ""], ["UploadId": ""],
            ["FileCreateTime": "x"], ["VideoId": "x"],
        ] {
            let other = report.merging(["FileHash": "j"]) { $1 }.merging(change) { $1 }
            _ = try await endpoint.send("ReportUploadProgress", other, by: nil)
            #expect(try await asked(["FileHash": "j"]).isEmpty, "\(change.keys)")
        }
        // An upload that has ended is not continued.
        try await bench.library.endUploads(of: media)
        #expect(try await asked(["FileHash": "i"]).isEmpty)
        let broken = ["UserId": "1", "ClientId": "c", "UploadInfoList": "[{]"]
        #expect(try await endpoint.send("GetUploadProgress", broken, by: nil) == "400 InvalidParameter")
    }
}
