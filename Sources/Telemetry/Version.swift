internal import BuildVersion

package enum Version {
    /// As SemVer: `0.1.0` for a release, `0.1.0+3.g1a2b3c4` three commits after one.
    package static let current = BuildText.version
}
