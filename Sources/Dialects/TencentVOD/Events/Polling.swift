/// Pauses between looks at records of which very many may be waiting.
enum Polling {
    /// A pause that leaves a look a tenth of the time at most, however many records it reads.
    static func pause(after look: Duration, atLeast shortest: Duration) -> Duration { max(shortest, look * 9) }
}
