package import Digests

/// Digests of the same bytes, by their algorithms.
package typealias DigestValues = [DigestAlgorithm: [UInt8]]
