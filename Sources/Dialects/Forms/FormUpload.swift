internal import Bytes
internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// A form while it arrives.
struct FormUpload {
    private let handler: FormHandler
    private let reader: FormReader
    private var outcome = FormOutcome()
    private var grant: Grant?
    /// The upload token in the field `token`; used only for authorisation.
    private var token: String?
    private var fieldBytes = 0
    private var skipped: Int64 = 0
    private var files = 0
    private var hasFile: Bool { files > 0 }

    init(_ handler: FormHandler, _ reader: FormReader) {
        self.handler = handler
        self.reader = reader
    }

    /// Reads the form to its end, or as far as possible.
    mutating func run(authorization: String?) async -> FormOutcome {
        do throws(UploadError) {
            // Before any content is read.
            if let authorization { grant = try await handler.grants(authorization) }
            while let head = try await nextPart() {
                if try await !receive(head) { return outcome }
            }
            _ = try await authorized()
            if !hasFile {
                throw UploadError(.invalidRequest, "The form has no file; choose one, in a control of its own.")
            }
        } catch {
            outcome.failures.append(FormFailure(field: nil, filename: nil, error: error))
        }
        return outcome
    }

    private func nextPart() async throws(UploadError) -> HTTPFields? {
        do throws(SourceFailure) {
            return try await reader.nextPart()
        } catch {
            throw UploadError(error)
        }
    }

    /// - Returns: Whether to read the following parts.
    private mutating func receive(_ head: HTTPFields) async throws(UploadError) -> Bool {
        guard head.count(of: "Content-Disposition") == 1, let disposition = FormDisposition(of: head) else {
            throw UploadError(
                .invalidRequest,
                "Each part needs one Content-Disposition: form-data with a name, and its names in UTF-8 (RFC 7578 §4.2)."
            )
        }
        let encoding = head["Content-Transfer-Encoding"]?.lowercasedASCII()
        guard encoding.map(["7bit", "8bit", "binary"].contains) ?? true else {
            throw UploadError(.invalidRequest, "Content-Transfer-Encoding is not allowed in a form (RFC 7578 §4.7).")
        }
        guard let filename = disposition.filename else {
            guard Self.type(head)?.type != "multipart" else {
                throw UploadError(
                    .invalidRequest,
                    "A part must not be multipart itself: send each file in a part of its own (RFC 7578 §4.3)."
                )
            }
            try await receiveText(disposition.name)
            return true
        }
        return try await receiveFile(disposition.name, filename, Self.type(head))
    }

    private static func type(_ head: HTTPFields) -> MediaType? { head["Content-Type"].flatMap { MediaType($0) } }

    // MARK: Text

    private mutating func receiveText(_ name: String) async throws(UploadError) {
        let isToken = name == Self.tokenField
        let room = isToken ? Self.maximumToken : max(0, handler.limits.maximumFieldBytes - fieldBytes - name.utf8.count)
        let bytes: [UInt8]
        do throws(SourceFailure) {
            bytes = try await FormFile(reader).collect(limit: room)
        } catch {
            throw error == .tooLarge(limit: Int64(room)) ? tooMuchText : UploadError(error)
        }
        guard let text = String(clientText: bytes) else {
            throw UploadError(.invalidRequest, "Text fields must be in UTF-8; give the form accept-charset=\"utf-8\".")
        }
        if isToken {
            if !hasFile { token = text }
            return
        }
        fieldBytes += name.utf8.count + bytes.count
        if let index = outcome.fields.firstIndex(where: { $0.name == name }) {
            // Metadata cannot have both: a dictionary finds them equal.
            guard outcome.fields[index].name.isExactly(name) else {
                throw UploadError(
                    .invalidRequest,
                    "The names of two text fields differ only in their Unicode form; use another name for one of them."
                )
            }
            outcome.fields[index].value = text
        } else {
            outcome.fields.append((name, text))
        }
        guard outcome.fields.count <= handler.limits.maximumFields else { throw tooMuchText }
    }

    private var tooMuchText: UploadError {
        let limits = handler.limits
        return UploadError(
            .tooLarge(limit: Int64(limits.maximumFieldBytes)),
            """
            A form may have \(limits.maximumFields) text fields, and \(limits.maximumFieldBytes) bytes in all their names and \
            values; send longer text as a file.
            """
        )
    }

    private var tooManyFiles: UploadError {
        let most = handler.limits.maximumFiles
        return UploadError(
            .tooLarge(limit: Int64(most)),
            "A form may have \(most) files (limits.formFiles); send this one and those after it in another form."
        )
    }

    // MARK: Files

    private mutating func receiveFile(
        _ field: String,
        _ filename: String,
        _ type: MediaType?
    ) async throws(UploadError) -> Bool {
        let file = FormFile(reader)
        if filename.isEmpty {
            // A file input without a chosen file, unless there are bytes.
            do throws(SourceFailure) {
                if try await file.isEmpty() { return true }
            } catch {
                throw UploadError(error)
            }
        }
        let grant = try await authorized()
        guard files < handler.limits.maximumFiles else {
            outcome.failures.append(
                FormFailure(field: field, filename: filename.isEmpty ? nil : filename, error: tooManyFiles)
            )
            return false
        }
        files += 1
        do throws(UploadError) {
            outcome.media.append((field, try await store(file, filename, type, under: grant)))
            return true
        } catch {
            outcome.failures.append(
                FormFailure(field: field, filename: filename.isEmpty ? nil : filename, error: error)
            )
            guard error.code.concernsOneFile else { return false }
            return await skip(file)
        }
    }

    /// What the sender may upload.
    ///
    /// The Authorization field takes precedence over the form field.
    private mutating func authorized() async throws(UploadError) -> Grant {
        if let grant { return grant }
        guard let token else {
            throw UploadError(
                .unauthenticated,
                """
                Send the header `Authorization: Bearer <API key or upload token>`, or an upload token in a form field \
                `\(Self.tokenField)` that stands before the first file.
                """
            )
        }
        guard token.hasPrefix(GrantSealer.prefix) else {
            throw UploadError(
                .unauthenticated,
                "The form field `\(Self.tokenField)` is for an upload token; an API key must not be in a web page."
            )
        }
        let granted = try await handler.grants("Bearer " + token)
        grant = granted
        return granted
    }

    /// Stores one file; nothing remains of it on a failure.
    private func store(
        _ file: FormFile,
        _ filename: String,
        _ type: MediaType?,
        under grant: Grant
    ) async throws(UploadError) -> Media {
        var values = Dictionary(outcome.fields.map { ($0.name, $0.value) }) { $1 }
        if !filename.isEmpty { values["filename"] = filename }
        if let type { values["filetype"] = type.description }
        let new = NewUpload(
            dialect: "form",
            length: nil,
            metadata: UploadMetadata(values: values),
            completesWhenFull: false
        )
        let upload = try await handler.service.create(new, under: grant)
        do throws(UploadError) {
            let complete = try await handler.service.append(
                to: upload.id,
                at: 0,
                contentLength: nil,
                finish: .explicit(isLast: true),
                expecting: nil,
                from: file
            )
            return Media(of: try await handler.service.finished(complete))
        } catch {
            await handler.service.discard(upload.id, after: error)
            throw error
        }
    }

    /// Skips the rest of a refused file.
    ///
    /// - Returns: `false` if the rest is too long or the form has ended; the failure is already recorded.
    private mutating func skip(_ file: FormFile) async -> Bool {
        while skipped < handler.limits.maximumSkippedBytes {
            do throws(SourceFailure) {
                guard let piece = try await file.next(maximum: Self.skipSize) else { return true }
                skipped += Int64(piece.count)
            } catch {
                return false
            }
        }
        return false
    }

    private static let tokenField = "token"
    /// In bytes; longer than any token.
    private static let maximumToken = 16_384
    private static let skipSize = 65_536
}

extension UploadError.Code {
    /// Whether other files of the same form can still be stored.
    fileprivate var concernsOneFile: Bool {
        switch self {
        case .contentTypeRefused, .tooLarge, .lengthExceeded, .grantUsed, .quotaExceeded, .rejected: true
        case .invalidRequest, .unauthenticated, .forbidden, .notFound, .gone, .offsetMismatch, .lengthConflict,
            .checksumMismatch, .digestMismatch, .unsupportedChecksum, .notOpen, .conditionFailed, .invalidParts,
            .interrupted, .busy, .timedOut, .disconnected, .storageFull, .storageFailure, .finishing, .unavailable,
            .tooManyRequests:
            false
        }
    }
}
