internal import CVersion

/// A target of its own, so that a new version compiles only this file; see docs/decisions/0070-version-of-a-build.md.
package enum BuildText {
    /// Such as `0.1.0`, `0.1.0+3.g1a2b3c4` or `0.1.0-dev+g1a2b3c4`.
    package static let version = String(cString: cversion_text())
}
