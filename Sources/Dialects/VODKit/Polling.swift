/// Pauses between looks at records of which very many may be waiting.
package enum Polling {
    /// A pause that leaves a look a tenth of the time at most, however many records it reads.
    package static func pause(after look: Duration, atLeast shortest: Duration) -> Duration { max(shortest, look * 9) }
}
