internal import Bytes
internal import HTTPClient
package import Signing
internal import XMLText

/// Multipart uploads in a real store; creating one is the same in S3, OSS and COS.
package enum CloudMultipartUpload {
    /// Creates a multipart upload ("CreateMultipartUpload", Amazon S3 API Reference; "InitiateMultipartUpload", OSS
    /// documentation; "Initiate Multipart Upload", COS documentation).
    ///
    /// The request is sent once, because each one creates another upload. If the response is lost, a lifecycle rule of
    /// the bucket has to remove the upload.
    ///
    /// - Parameters:
    ///   - url: A URL signed for this request.
    ///   - headers: Header fields that are signed as well.
    ///   - credentials: The signing credentials, which must not appear in messages.
    ///   - caller: Sends the request.
    /// - Returns: The id of the upload.
    /// - Throws: The store's error.
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
        let response = try await caller.send(call)
        let document = XMLNode.parse(response.body)
        guard response.status == 200, document?.name == "InitiateMultipartUploadResult" else {
            guard response.status != 200 || document?.name == "Error" else { throw caller.malformed(call) }
            throw caller.failure(call, status: response.status, document)
        }
        guard let id = document?["UploadId"], (1...1024).contains(id.utf8.count) else { throw caller.malformed(call) }
        return id
    }
}
