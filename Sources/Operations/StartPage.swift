package import HTTPWire
package import RESTKit

/// What a browser shows at the root: what this is, and where to go.
package enum StartPage {
    /// Whether the client prefers HTML to JSON, as a browser does.
    static func isWanted(by request: Request) -> Bool {
        AcceptHeader(request.head.fields["Accept"]).prefers("text/html", over: "application/json")
    }

    /// The page, for a request for which nothing else is served.
    ///
    /// It is no route: other methods and other clients get what they get at any path without one.
    ///
    /// - Parameters:
    ///   - request: Below the base path.
    ///   - publicURL: How clients reach this server.
    /// - Returns: `nil` if the request is for something else, or not of a browser.
    package static func response(to request: Request, _ publicURL: PublicURL) -> Response? {
        guard request.head.method == .get, request.head.target.segments == [""], isWanted(by: request) else {
            return nil
        }
        return response(publicURL.base(for: request))
    }

    /// 200 with the page; the URL of the gateway has no slash at its end, and part of it can come from the client.
    private static func response(_ url: String) -> Response {
        Response(
            200,
            [
                "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "Vary": "Accept",
                "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
                "X-Content-Type-Options": "nosniff",
            ],
            .bytes(Array(text(escaped(url)).utf8))
        )
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;").replacing("'", with: "&#39;")
    }

    private static func text(_ url: String) -> String {
        """
        <!doctype html>
        <html lang="en">
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width">
        <title>Sluice</title>
        <style>body {font: 1em/1.5 sans-serif; max-width: 44em; margin: 2em auto; padding: 0 1em} pre {overflow: auto}</style>
        <h1>Sluice</h1>
        <p>This is an upload gateway. Apps upload to it; there is nothing to fill in here.</p>
        <ul>
        <li><a href="\(url)/openapi.yaml">Description of the API</a> (OpenAPI 3.1)
        <li><a href="\(url)/readyz">Whether it is ready</a>
        <li>Endpoint for tus and resumable uploads: <code>\(url)/files</code>
        </ul>
        <p>Upload a file with an API key:</p>
        <pre>curl -T hello.txt \(url)/v1/media/ -H "Authorization: Bearer $SLUICE_API_KEY"</pre>
        <p>The first start of the gateway prints a key, unless one is set; <code>sluice keys create</code> makes others.</p>
        </html>

        """
    }
}
