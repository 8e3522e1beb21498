package import HTTPServer
package import HTTPWire
package import RESTKit
package import ServiceLifecycle

/// A self-contained part of the gateway: what it serves, what it runs in the background, and how it shuts down.
///
/// `GatewayServer` creates the modules in the order of `GatewayModules`. Adding one takes a folder and a line there.
package protocol GatewayModule: Sendable {
    /// For messages to the operator.
    var name: String { get }
    /// Routes by method and path.
    var routes: [Route] { get }
    /// Requests claimed by their head, whatever their method.
    var claims: [Claim] { get }
    /// Beginnings of its paths, whose clients may state lengths in their own way; see `HeadLimits.lenientPaths`.
    var lenientPaths: [String] { get }
    /// Listeners besides the gateway's own.
    var listeners: [HTTPServer] { get }
    /// Background services; they run as long as the gateway does and shut down gracefully.
    var services: [any Service] { get }

    /// Adds what the module supports to the response to OPTIONS.
    ///
    /// - Parameters:
    ///   - template: The path template; `*` for the whole server.
    ///   - head: The request head.
    ///   - response: Without content.
    func describe(_ template: String, to head: RequestHead, in response: inout Response)
    /// Ends what keeps requests waiting: the time that they had to finish at shutdown is over.
    ///
    /// Returns at once.
    func cutOff()
    /// Aborts work still in progress, after all services have ended.
    func close()
}

extension GatewayModule {
    package var routes: [Route] { [] }
    package var claims: [Claim] { [] }
    package var lenientPaths: [String] { [] }
    package var listeners: [HTTPServer] { [] }
    package var services: [any Service] { [] }

    package func describe(_ template: String, to head: RequestHead, in response: inout Response) {}
    package func cutOff() {}
    package func close() {}
}
