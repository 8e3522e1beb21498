internal import HTTPServer
package import HTTPWire
package import Logging
internal import Tracing
internal import UploadModel

/// Lets a request note who sent it, for its line in the log, at the level `debug`.
///
/// Not at `info`: what each request allocates for it leaves gaps in the heap beside connections that stay open.
package struct RequestNoteHandler: RequestHandler {
    private let handler: any RequestHandler
    private let logger: Logger

    package init(_ handler: any RequestHandler, _ logger: Logger) {
        self.handler = handler
        self.logger = logger
    }

    package func respond(to request: Request) async -> Response {
        guard logger.logLevel <= .debug else { return await handler.respond(to: request) }
        let note = RequestNote()
        var response = await RequestNote.$current.with(note) { await handler.respond(to: request) }
        response.trace.note = note
        return response
    }
}
