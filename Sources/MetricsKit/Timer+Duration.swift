package import CoreMetrics

extension Timer {
    package func record(_ time: Duration) {
        let (seconds, attoseconds) = time.components
        recordNanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }
}
