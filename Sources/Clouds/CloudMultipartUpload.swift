internal import HTTPClient
package import Signing
internal import XMLText

/// Multipart uploads in a real store, which begins the same in S3, OSS and COS.
package enum CloudMultipartUpload {
    /// Begins one ("CreateMultipartUpload", Amazon S3 API Reference; "InitiateMultipartUpload", OSS documentation; "Initiate
    /// Multipart Upload", COS documentation).
    ///
    /// It is asked for once only, since each call begins another one. Where the answer does not arrive, a rule of the bucket's
    /// lifecycle has to remove what began.
    ///
    /// - Parameters:
    ///   - url: Signed for it.
    ///   - headers: That are signed, too.
    ///   - credentials: What the URL was signed with, which no message may hold.
    ///   - caller: Sends the request.
    /// - Returns: The id of the upload.
    /// - Throws: What the store says.
    package static func begin(
        _ url: String,
        headers: [SigningField],
        signedWith credentials: SigningCredentials,
        by caller: CloudCaller
    ) async throws(CloudFailure) -> String {
        let call = CloudCaller.Call(
            name: "CreateMultipartUpload",
            url: url,
            headers: headers,
            credentials: credentials,
            isOnce: true
        )
        let answer = try await caller.post(call)
        let document = XMLNode.parse(answer.body)
        guard answer.status == 200, document?.name == "InitiateMultipartUploadResult" else {
            guard answer.status != 200 || document?.name == "Error" else { throw caller.malformed(call) }
            throw caller.failure(call, status: answer.status, document)
        }
        guard let id = document?["UploadId"], (1...1024).contains(id.utf8.count) else { throw caller.malformed(call) }
        return id
    }
}
