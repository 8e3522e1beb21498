internal import Foundation
package import Signing

/// What is asked of an origin.
package struct PullRequest: Sendable, Equatable, Codable {
    package struct Header: Sendable, Equatable, Codable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Absolute, with everything in it.
    package var url: String
    /// The same without user, password and query; for people.
    package var shown: String?
    package var headers: [Header]
    /// What the app told of the upload; the rest is taken from the answer.
    package var metadata: [String: String]

    package init(url: String, shown: String? = nil, headers: [Header] = [], metadata: [String: String] = [:]) {
        self.url = url
        self.shown = shown
        self.headers = headers
        self.metadata = metadata
    }
}

/// Keeps the request of a pull secret where it is stored: URLs and headers often are credentials of the origin.
package struct PullSealer: Sendable {
    private let keys: SealingKeyRing

    package init(master: MasterSecret) {
        keys = SealingKeyRing(master: master, purpose: "pull request v1")
    }

    package func seal(_ request: PullRequest) -> String {
        // Strings and dictionaries of them, which always can be encoded.
        keys.seal(Array((try? JSONEncoder().encode(request)) ?? Data())).text
    }

    /// What was sealed; `nil` if another master secret sealed it, or nothing is left of it.
    package func open(_ sealed: String) -> PullRequest? {
        guard let token = SealedToken(sealed), let json = keys.open(token) else { return nil }
        return try? JSONDecoder().decode(PullRequest.self, from: Data(json))
    }
}
