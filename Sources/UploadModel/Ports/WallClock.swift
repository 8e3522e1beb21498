package import Foundation

/// The time of day, as a value that tests can set.
package protocol WallClock: Sendable {
    /// With several nodes, never later than on any other one, but by what clocks drift in seconds.
    var now: Date { get }

    /// Seconds by which `now` may be behind that of other nodes.
    var lag: TimeInterval { get }
}

extension WallClock {
    package var lag: TimeInterval { 0 }
}

package struct SystemClock: WallClock {
    package init() {}

    package var now: Date { Date() }
}
