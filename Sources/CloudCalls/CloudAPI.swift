package import HTTPWire
package import UploadModel

/// An API of a cloud at the root of the gateway's listener, where several clouds have theirs.
package protocol CloudAPI: Sendable {
    /// Whether a call has what only callers of this API send.
    func isMeant(by call: CloudCall) -> Bool

    /// Whether it also answers calls that no API recognises, so that a wrong call gets an error that says what is wrong.
    var answersOthers: Bool { get }

    /// - Parameters:
    ///   - call: The call, with its content.
    ///   - request: The request, without its content.
    /// - Returns: The response, in the form of this API.
    func respond(to call: CloudCall, _ request: Request) async -> Response

    /// The response, in the form of this API, to a call that a limit refuses.
    func refuse(_ error: UploadError, _ call: CloudCall) -> Response
}

extension CloudAPI {
    package var answersOthers: Bool { false }
}

extension CloudCall {
    /// Whether a request at the root may be a call of a cloud's API.
    ///
    /// Only its content can show that of a form.
    package static func canBe(_ head: RequestHead) -> Bool {
        guard head.method == .get || head.method == .post else { return false }
        if TencentCalls.isSignedInHeader(head) || AliyunCalls.isMeant(by: head) || hasForm(head) { return true }
        let names = (head.target.rawQuery ?? "").utf8.split(separator: UInt8(ascii: "&")).map {
            $0.prefix { $0 != 0x3D }
        }
        // Also of a query that cannot be read, whose sender is to be told.
        return names.contains { name in ["SecretId", "AccessKeyId", "Action"].contains { name.elementsEqual($0.utf8) } }
    }
}
