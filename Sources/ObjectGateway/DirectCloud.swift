internal import CloudCredentials
internal import Clouds
internal import HTTPWire
internal import ObjectGrants
internal import Presigning
internal import RESTKit
internal import SettingsKit
internal import Signing
internal import UploadModel

/// A real cloud that apps upload to directly, with credentials and URLs issued here.
struct DirectCloud: Sendable {
    let vendor: Vendor
    let region: String
    /// Address of its store.
    let address: ObjectAddress
    /// Only these buckets are granted, because the account's keys reach everything.
    let buckets: [String]
    /// The setting that lists them.
    let bucketsSetting: String
    /// The credentials that sign URLs.
    let credentials: any AWSCredentialsProvider
    let tokens: Tokens
    let caller: CloudCaller
    /// Called after each request to the cloud, with the failure if there was one.
    let observe: @Sendable (_ cloud: String, _ failure: CloudFailure?) -> Void

    /// Its name in messages, logs and metrics.
    var name: String { vendor.cloudName }

    /// The source of session credentials.
    enum Tokens: Sendable {
        case service(any CloudTokens)
        /// Required settings that are missing.
        case missing([String])
    }

    /// A request to the cloud's token service.
    struct TokenOrder: Sendable {
        let service: any CloudTokens
        let request: CloudTokenRequest
    }

    /// Sends a request to the cloud.
    ///
    /// - Parameter body: The request.
    /// - Returns: The result of `body`.
    /// - Throws: `Problem` 502 or 503.
    func asking<Success: Sendable>(
        _ body: () async throws(CloudFailure) -> Success
    ) async throws(Problem) -> Success {
        do throws(CloudFailure) {
            let response = try await body()
            observe(name, nil)
            return response
        } catch {
            observe(name, error)
            throw Problem(error)
        }
    }

    /// The request to the token service for credentials that match a grant.
    ///
    /// - Parameters:
    ///   - grant: A grant for one bucket.
    ///   - subject: The app user.
    ///   - lifetime: As asked for, in seconds.
    ///   - most: Seconds until what the caller mints must end.
    ///   - fields: Collects what the cloud cannot express.
    /// - Returns: `nil` if something was rejected.
    func tokenOrder(
        for grant: ObjectGrant,
        subject: String,
        lifetime: Int64,
        endingWithin most: Int64,
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
                "must be from \(lifetimes.lowerBound) to \(lifetimes.upperBound) in direct mode: \(name) supports no others"
            )
        } else if most < lifetimes.lowerBound {
            fields.reject(
                "expiresIn",
                "cannot be so short: what this API key mints ends in \(max(0, most)) seconds, and \(name) supports no session of "
                    + "less than \(lifetimes.lowerBound)"
            )
        }
        do throws(InexpressibleGrant) {
            let policy = try grant.sessionPolicy(for: vendor, region: region)
            return TokenOrder(
                service: service,
                request: CloudTokenRequest(subject: subject, policy: policy, lifetime: min(lifetime, most))
            )
        } catch {
            for problem in error.problems { fields.reject(problem.field, problem.message) }
            return nil
        }
    }

    /// The presigner for URLs and forms of the real store.
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
        return (ObjectPresigner(credentials: held, vendor: vendor, address: address, region: region), held)
    }
}

/// The configured clouds.
struct DirectClouds: Sendable {
    enum Entry: Sendable {
        case ready(DirectCloud)
        /// Required settings that are missing.
        case missing([String])
    }

    let entries: PerVendor<Entry>

    /// The cloud that a request is for, if it asks for `direct` mode.
    ///
    /// - Parameters:
    ///   - vendor: The vendor of the response format.
    ///   - bucket: The bucket of the request.
    ///   - fields: The request; collects what is wrong.
    /// - Returns: `nil` in `relay` mode, and if something was rejected.
    func wanted(_ vendor: Vendor, bucket: String, in fields: inout JSONFields) -> DirectCloud? {
        guard fields.objectMode() == .direct else { return nil }
        switch entries[vendor] {
        case .ready(let cloud):
            if !cloud.buckets.contains(where: { $0.utf8.elementsEqual(bucket.utf8) }) {
                fields.reject("bucket", "must be one of \(cloud.bucketsSetting), the buckets for direct mode")
            }
            return cloud
        case .missing(let names):
            fields.rejectDirect(because: "the format \(vendor.rawValue)", need: names)
            return nil
        }
    }
}

extension JSONFields {
    fileprivate mutating func rejectDirect(because what: String, need settings: [String]) {
        reject("mode", "cannot be direct: \(what) needs the setting \(settings.joined(separator: " and "))")
    }
}

extension Problem {
    /// The cloud's error, or that it did not respond.
    init(_ failure: CloudFailure) {
        switch failure.kind {
        case .refused, .malformed: self.init(502, "cloud_failed", failure.message)
        case .unavailable:
            self.init(503, "cloud_unavailable", failure.message)
            fields["Retry-After"] = "5"
        }
    }
}
