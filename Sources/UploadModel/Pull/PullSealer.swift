internal import Foundation
package import Signing

/// Where a pull may connect to.
package enum PullReach: String, Sendable, Codable {
    /// Public addresses, and the ranges that the operator allows (`pull.allow`).
    case allowedRanges = "allowed"
    /// Public addresses only.
    case publicOnly = "public"
}

/// A request to an origin.
package struct PullRequest: Sendable, Equatable, Codable {
    package struct Header: Sendable, Equatable, Codable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The absolute URL, including any credentials.
    package var url: String
    /// The URL without user, password and query; for people.
    package var shown: String?
    package var headers: [Header]
    /// Metadata from the app; the rest is taken from the response.
    package var metadata: [String: String]
    /// `nil` in pulls of earlier versions, which were admitted for all allowed ranges.
    package var reach: PullReach?
    /// See `Grant.storedBytes`.
    package var storedBytes: Int64?
    /// Whether the upload keeps its metadata, because a hook has decided it: the origin names nothing.
    package var keepsMetadata: Bool?

    package init(
        url: String,
        shown: String? = nil,
        headers: [Header] = [],
        metadata: [String: String] = [:],
        reach: PullReach? = nil,
        storedBytes: Int64? = nil
    ) {
        self.url = url
        self.shown = shown
        self.headers = headers
        self.metadata = metadata
        self.reach = reach
        self.storedBytes = storedBytes
    }
}

/// Encrypts the request of a pull where it is stored: URLs and headers often contain credentials of the origin.
package struct PullSealer: Sendable {
    private let keys: SealingKeyRing

    package init(master: MasterSecret) {
        keys = SealingKeyRing(master: master, purpose: "pull request v1")
    }

    package func seal(_ request: PullRequest) -> String {
        // Strings and dictionaries of strings can always be encoded.
        keys.seal(Array((try? JSONEncoder().encode(request)) ?? Data())).text
    }

    /// Decrypts a request; `nil` if it was sealed with another master secret, or is empty.
    package func open(_ sealed: String) -> PullRequest? {
        guard let token = SealedToken(sealed), let json = keys.open(token) else { return nil }
        return try? JSONDecoder().decode(PullRequest.self, from: Data(json))
    }
}
