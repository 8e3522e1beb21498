internal import Bytes
internal import Digests
internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// tus 1.0.0, creation, creation-with-upload and concatenation.
extension TusHandler {
    /// Creates an upload, and stores the body as its first bytes if it has the content type of a PATCH.
    ///
    /// A body with another content type is ignored: clients send arbitrary types with an empty body.
    func create(_ request: Request) async throws(TusFailure) -> Response {
        let fields = request.head.fields
        let grant = try await TusFailure.wrapping { () async throws(UploadError) in try await grants(request.head) }
        let concatenation = try TusConcatenation.parse(fields, locator: locator)
        for part in concatenation?.parts ?? [] {
            try await TusFailure.wrapping { () async throws(UploadError) in try await admits(part) }
        }
        let isFinal = concatenation?.parts != nil
        if isFinal { try requireNoContent(fields) }
        let length = isFinal ? nil : try TusFields.newLength(fields)
        let metadata = try TusMetadata.parse(fields["Upload-Metadata"], maximumBytes: settings.maximumMetadataBytes)
        let takesBody = TusFields.hasOffsetType(fields)
        let digest = takesBody ? try TusChecksum.expectation(of: request) : nil
        // Requests that are certain to fail are refused before the upload is created.
        if takesBody {
            if let length, let announced = request.body.remaining, announced > length {
                throw .upload(.overlong(length))
            }
            if length == 0 { try await requireNothing(in: request.body, expecting: digest) }
        }

        let new = NewUpload(
            dialect: "tus",
            length: length,
            metadata: metadata,
            concatenation: concatenation,
            expectedDigests: try TusChecksum.whole(fields)
        )
        let (upload, closes) = try await create(new, under: grant, takesBody ? request.body : nil, expecting: digest)
        var response = Response(201, ["Location": location(of: upload, for: request)])
        if takesBody { response.fields.append("Upload-Offset", String(upload.offset)) }
        addExpiry(of: upload, to: &response)
        response.closesConnection = closes
        response.trace.note(upload: upload.id.text, isMedia: upload.isMedia)
        return response
    }

    /// Creates an upload and stores its first bytes.
    ///
    /// - Parameters:
    ///   - new: The client's request.
    ///   - grant: What the client may upload.
    ///   - body: The first bytes; `nil` if there are none.
    ///   - digest: Expected digest of the body.
    /// - Returns: The current upload, and whether the connection must be closed.
    /// - Throws: The errors of both steps.
    private func create(
        _ new: NewUpload,
        under grant: Grant,
        _ body: (any RequestBody)?,
        expecting digest: DigestExpectation?
    ) async throws(TusFailure) -> (Upload, closes: Bool) {
        guard let body, new.length != 0 else {
            let upload = try await TusFailure.wrapping { () async throws(UploadError) in
                try await service.create(new, under: grant)
            }
            return (upload, false)
        }
        var source: any ByteSource = body
        do throws(UploadError) {
            if let upload = try await service.createWhole(new, under: grant, from: &source, expecting: digest) {
                return (upload, false)
            }
        } catch {
            throw TusFailure(ofAppend: error)
        }
        let upload = try await TusFailure.wrapping { () async throws(UploadError) in
            try await service.create(new, under: grant)
        }
        return try await takeFirstBytes(of: upload, from: source, expecting: digest)
    }

    /// A final upload gets the bytes and the length of its parts.
    private func requireNoContent(_ fields: HTTPFields) throws(TusFailure) {
        if fields.contains("Upload-Length") || fields.contains("Upload-Defer-Length") {
            throw .refused(.invalidLength("A final upload gets its length from its parts: leave out Upload-Length."))
        }
        if TusFields.hasOffsetType(fields) {
            throw .upload(.finalUpload)
        }
    }

    private func location(of upload: Upload, for request: Request) -> String {
        var base = baseURL(request)
        while base.hasSuffix("/") { base.removeLast() }
        return base + "/" + locator.token(for: upload)
    }

    /// Appends the body of a creation request.
    ///
    /// If the append is interrupted but the upload is still usable, the response is still 201: the client learns the
    /// URL and the offset and continues with PATCH. Otherwise it would start again and leave an upload behind that it
    /// cannot name. If the body itself is invalid, the upload is removed and the creation fails as a whole.
    ///
    /// - Returns: The current upload, and whether the connection must be closed.
    private func takeFirstBytes(
        of upload: Upload,
        from body: any ByteSource,
        expecting digest: DigestExpectation?
    ) async throws(TusFailure) -> (Upload, closes: Bool) {
        do throws(UploadError) {
            let appended = try await service.append(
                to: upload.id,
                at: 0,
                contentLength: body.remaining,
                expecting: digest,
                from: body
            )
            return (appended, false)
        } catch {
            let failure = TusFailure(ofAppend: error)
            guard error.code.leavesUploadUsable else {
                // If this fails, the upload expires later.
                await service.discard(upload.id, after: error)
                throw failure
            }
            do throws(UploadError) {
                let current = try await service.status(of: upload.id)
                return (current, TusErrors.response(to: failure, for: .post).closesConnection)
            } catch {
                throw failure
            }
        }
    }

    /// Requires an empty body, with the digest of no bytes, for an upload of length 0.
    private func requireNothing(
        in body: any RequestBody,
        expecting expectation: DigestExpectation?
    ) async throws(TusFailure) {
        let first: [UInt8]?
        do throws(SourceFailure) {
            first = try await body.next(maximum: 1)
        } catch {
            throw .upload(UploadError(.disconnected, "The body is incomplete.", cause: error))
        }
        if first != nil { throw .upload(.overlong(0)) }
        guard let expectation else { return }
        let digest: ExpectedDigest
        do throws(UploadError) {
            digest = try expectation.value()
        } catch {
            throw .upload(error)
        }
        guard Digest.hash([UInt8](), digest.algorithm) != digest.value else { return }
        throw .upload(UploadError(.checksumMismatch, "The body does not have the announced digest."))
    }
}

extension UploadError {
    fileprivate static func overlong(_ length: Int64) -> UploadError {
        UploadError(.lengthExceeded(length: length), "The body is longer than Upload-Length (\(length) bytes).")
    }
}
