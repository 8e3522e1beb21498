internal import HTTPWire

/// Serves the calls of the upload SDKs, and takes their reports.
protocol UGCResponder: Sendable {
    func respond(to request: Request) async -> Response
    func takeReport(_ request: Request) async -> Response
}

extension UGCHandler: UGCResponder {}
extension DirectUGCHandler: UGCResponder {}
