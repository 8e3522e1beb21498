package import CoreMetrics
package import MetricsKit

extension MetricsRegistry {
    /// The counter for credentials of one kind; modules that mint the same kind share it.
    package func mintCounter(_ kind: String) -> Counter {
        counter("sluice_minted_total", "Credentials that were minted.", ["kind": kind])
    }
}
