internal import CloudCredentials
internal import Clouds
internal import HTTPWire
internal import ObjectAPI
internal import Signing
internal import UploadCore

/// A real cloud that apps upload to themselves, with what is minted for them here.
struct DirectCloud: Sendable {
    /// As it is called in messages, logs and metrics.
    let name: String
    let dialect: ObjectDialect
    let region: String
    /// Of its store.
    let address: ObjectAddress
    /// The account's keys reach everything, so only these are handed out.
    let buckets: [String]
    /// The setting that lists them.
    let bucketsSetting: String
    /// What URLs are signed with.
    let credentials: any AWSCredentialsProvider
    let tokens: Tokens
    let caller: CloudCaller
    /// Told of each call of the cloud, and why it failed.
    let observe: @Sendable (_ cloud: String, _ failure: CloudFailure?) -> Void

    /// What makes credentials for sessions.
    enum Tokens: Sendable {
        case service(any CloudTokens)
        /// Settings that have to be made.
        case missing([String])
    }

    /// What the cloud's token service is to be asked for.
    struct TokenOrder: Sendable {
        let service: any CloudTokens
        let request: CloudTokenRequest
    }

    /// Asks the cloud for something.
    ///
    /// - Parameter body: The call.
    /// - Returns: What it gave.
    /// - Throws: `Problem` 502 or 503.
    func asking<Success: Sendable>(
        _ body: () async throws(CloudFailure) -> Success
    ) async throws(Problem) -> Success {
        do throws(CloudFailure) {
            let answer = try await body()
            observe(name, nil)
            return answer
        } catch {
            observe(name, error)
            throw Problem(error)
        }
    }

    /// What the cloud's token service is asked for, to give a session what the grant allows.
    ///
    /// - Parameters:
    ///   - grant: For one bucket.
    ///   - subject: The app user.
    ///   - lifetime: Seconds.
    ///   - fields: Take what of it the cloud can not say.
    /// - Returns: `nil` if something was rejected.
    func tokenOrder(
        for grant: ObjectGrant,
        subject: String,
        lifetime: Int64,
        in fields: inout JSONFields
    ) -> TokenOrder? {
        let service: any CloudTokens
        switch tokens {
        case .service(let found): service = found
        case .missing(let names):
            fields.rejectDirect(because: "sessions of \(name)", need: names)
            return nil
        }
        let lifetimes = service.lifetimes
        if !lifetimes.contains(lifetime) {
            fields.reject(
                "expiresIn",
                "must be from \(lifetimes.lowerBound) to \(lifetimes.upperBound) in direct mode: \(name) makes no others"
            )
        }
        do throws(InexpressibleGrant) {
            let policy = try grant.sessionPolicy(for: dialect, region: region)
            return TokenOrder(
                service: service,
                request: CloudTokenRequest(subject: subject, policy: policy, lifetime: lifetime)
            )
        } catch {
            for problem in error.problems { fields.reject(problem.field, problem.message) }
            return nil
        }
    }

    /// Signs URLs and forms for the real store.
    ///
    /// - Throws: `Problem` 503 if there are no credentials.
    func presigner() async throws(Problem) -> (presigner: ObjectPresigner, credentials: SigningCredentials) {
        let held: SigningCredentials
        do throws(CloudFailure) {
            held = try await credentials.held(for: name)
        } catch {
            observe(name, error)
            throw Problem(error)
        }
        return (ObjectPresigner(credentials: held, dialect: dialect, address: address, region: region), held)
    }
}

/// The clouds of the settings.
struct DirectClouds: Sendable {
    enum Entry: Sendable {
        case ready(DirectCloud)
        /// Settings that have to be made.
        case missing([String])
    }

    let aws: Entry
    let aliyun: Entry
    let tencent: Entry

    private func entry(_ format: ObjectFormat) -> Entry {
        switch format {
        case .aws: aws
        case .aliyun: aliyun
        case .tencent: tencent
        }
    }

    /// The cloud that a request is for, if it asks for `direct` mode.
    ///
    /// - Parameters:
    ///   - format: In whose words it is answered.
    ///   - bucket: Of the request.
    ///   - fields: The request; takes what is wrong.
    /// - Returns: `nil` in `relay` mode, and if something was rejected.
    func wanted(_ format: ObjectFormat, bucket: String, in fields: inout JSONFields) -> DirectCloud? {
        guard fields.objectMode() == .direct else { return nil }
        switch entry(format) {
        case .ready(let cloud):
            if !cloud.buckets.contains(where: { $0.utf8.elementsEqual(bucket.utf8) }) {
                fields.reject("bucket", "must be one of \(cloud.bucketsSetting), the buckets that direct mode is for")
            }
            return cloud
        case .missing(let names):
            fields.rejectDirect(because: "the format \(format.rawValue)", need: names)
            return nil
        }
    }
}

extension JSONFields {
    fileprivate mutating func rejectDirect(because what: String, need settings: [String]) {
        reject("mode", "can not be direct: \(what) needs the setting \(settings.joined(separator: " and "))")
    }
}

extension Problem {
    /// What a cloud said, or that it said nothing.
    init(_ failure: CloudFailure) {
        switch failure.kind {
        case .refused, .malformed: self.init(502, "cloud_failed", failure.message)
        case .unavailable:
            self.init(503, "cloud_unavailable", failure.message)
            fields["Retry-After"] = "5"
        }
    }
}
