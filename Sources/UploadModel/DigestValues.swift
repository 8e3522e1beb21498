package import Digests

/// Digests of the same bytes, by algorithm.
package typealias DigestValues = [DigestAlgorithm: [UInt8]]
