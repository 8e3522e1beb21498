package import Foundation

/// The time of day, as a value that tests can set.
package protocol WallClock: Sendable {
    var now: Date { get }
}

package struct SystemClock: WallClock {
    package init() {}

    package var now: Date { Date() }
}
