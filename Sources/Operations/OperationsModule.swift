package import GatewayKit
package import RESTKit
package import ServiceLifecycle
internal import SettingsKit
internal import Telemetry

/// Health, metrics, and the API description.
package struct OperationsModule: GatewayModule {
    package let name = "operations"
    package let routes: [Route]
    package let services: [any Service]

    package init(_ context: GatewayContext) {
        routes =
            OperationsAPI(
                state: context.state,
                storage: context.storage,
                mismatch: context.mismatch,
                binding: context.binding,
                drain: context.drain,
                metrics: context.metrics,
                hasTraces: context.tracer != nil,
                access: context.access,
                publicURL: context.publicURL,
                hasOpenMetrics: context.settings.metrics.access == .open
            ).routes
        services = [UsageReport(context.state, context.metrics, context.logger)]
    }
}
