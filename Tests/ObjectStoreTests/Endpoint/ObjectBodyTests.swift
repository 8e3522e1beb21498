import Bytes
import Digests
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectStore

@Suite("Request content", .timeLimit(.minutes(10)))
struct ObjectBodyTests {
    private let content = Array("123456789".utf8)

    private func body(
        _ fields: HTTPFields,
        _ source: any ByteSource,
        payload: SigV4Payload = .unsigned,
        checksum: ObjectChecksum.Algorithm? = nil
    ) throws -> ObjectBody {
        try ObjectBody(
            try s3Content(try s3Head("PUT", "/bucket-1/a", fields)),
            source,
            payload: payload,
            signature: Self.signature,
            checksum: checksum,
            minimumChunk: 1
        )
    }

    private static let signature: SigV4Signature = {
        let signer = SigV4Signer(
            credentials: SigningCredentials(accessKeyID: "a", secretAccessKey: "b"),
            region: "us-east-1"
        )
        return signer.sign(SigningRequest(method: "PUT", host: "h", path: "/"), at: noon.unixSeconds).signature
    }()

    private func code(
        _ fields: HTTPFields,
        _ bytes: [UInt8]? = nil,
        payload: SigV4Payload = .unsigned,
        checksum: ObjectChecksum.Algorithm? = nil
    ) async throws -> ObjectErrorCode? {
        var fields = fields
        if payload == .unsigned, !fields.contains("Content-Length") { fields["Content-Length"] = "9" }
        if case .sha256 = payload { fields["Content-Length"] = "9" }
        do {
            let body = try body(fields, ArraySource(bytes ?? content), payload: payload, checksum: checksum)
            _ = try await body.document(limit: 1000)
            return nil
        } catch let error as ObjectError {
            return error.code
        }
    }

    @Test("the digests of a content")
    func digests() async throws {
        let body = try body(["Content-Length": "9"], ArraySource(content), checksum: .crc64nvme)
        #expect(try await body.document(limit: 9) == content)
        let outcome = try body.outcome()
        #expect(outcome.values.entityTag == "25f9e794323b453885f5181f1b624d0b")
        #expect(outcome.values.crc64 == 0x995D_C9BB_DF19_39FA)
        #expect(outcome.checksum?.text(parts: nil) == "rosUhgp5mIg=")
        #expect(outcome.checksum?.s3Type == "FULL_OBJECT")
    }

    @Test(
        "the request's declarations about its content are compared",
        arguments: [
            ("Content-MD5", "JfnnlDI7RTiF9RgfG2JNCw=="), ("x-amz-checksum-crc32", "y/Q5Jg=="),
            ("x-amz-checksum-crc32c", "4waSgw=="), ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
            ("X-Amz-Checksum-SHA1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
            ("x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
        ]
    )
    func declared(_ name: String, _ value: String) async throws {
        var fields = HTTPFields()
        let field = try #require(FieldName(name))
        fields.append(field, value)
        #expect(try await code(fields) == nil)
        #expect(try await code(fields, Array("123456780".utf8)) == .badDigest)
        let malformed: ObjectErrorCode = name == "Content-MD5" ? .invalidDigest : .invalidRequest
        for text in ["", "x", String(value.dropLast(4)), value + "AAAA", "!" + value.dropFirst()] {
            fields[field] = text
            #expect(try await code(fields) == malformed, "\(text)")
        }
    }

    @Test("the signed SHA-256 is that of the content")
    func signedContent() async throws {
        let payload = SigV4Payload(content: content)
        #expect(try await code([:], payload: payload) == nil)
        #expect(try await code([:], Array("123456780".utf8), payload: payload) == .xAmzContentSHA256Mismatch)
        // Both serve equally, and the digest is computed once.
        let fields: HTTPFields = ["x-amz-checksum-sha256": "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="]
        #expect(try await code(fields, payload: payload, checksum: .sha256) == nil)
    }

    @Test("more than one checksum, or another one than the upload's")
    func several() async throws {
        let two: HTTPFields = ["x-amz-checksum-crc32": "y/Q5Jg==", "x-amz-checksum-crc32c": "4waSgw=="]
        #expect(try await code(two) == .invalidRequest)
        let one: HTTPFields = ["x-amz-checksum-crc32": "y/Q5Jg=="]
        #expect(try await code(one, checksum: .sha256) == .invalidRequest)
        #expect(try await code(one, checksum: .crc32) == nil)
        #expect(try await code(["x-amz-checksum-md4": "y/Q5Jg=="]) == .invalidRequest)
        #expect(try await code(["x-amz-checksum-crc32": "y/Q5Jg==-2"]) == .invalidRequest)
        #expect(try await code(["x-amz-sdk-checksum-algorithm": "CRC32"]) == .invalidRequest)
        #expect(try await code(["x-amz-sdk-checksum-algorithm": "crc32", "x-amz-checksum-crc32": "y/Q5Jg=="]) == nil)
        #expect(
            try await code(["x-amz-sdk-checksum-algorithm": "SHA1", "x-amz-checksum-crc32": "y/Q5Jg=="])
                == .invalidRequest
        )
        #expect(try await code(["x-amz-trailer": "x-amz-checksum-crc32"]) == .invalidRequest)
        #expect(try await code(["x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "COMPOSITE"]) == nil)
    }

    @Test("a length is required")
    func lengths() async throws {
        let head = try s3Head("PUT", "/bucket-1/a")
        func code(_ head: RequestHead, _ payload: SigV4Payload, _ kind: DeclaredContent.Kind = .object)
            -> ObjectErrorCode?
        {
            s3Code { () throws(ObjectError) in
                try ObjectBody(
                    try s3Content(head, kind),
                    ArraySource([]),
                    payload: payload,
                    signature: Self.signature
                )
            }
        }
        #expect(code(head, .unsigned) == .missingContentLength)
        #expect(code(head, .unsigned, .document) == nil)
        #expect(code(head, .signedChunks) == .missingContentLength)
        let chunked = try s3Head("PUT", "/bucket-1/a", ["Transfer-Encoding": "chunked"])
        #expect(code(chunked, .unsigned, .document) == .missingContentLength)
        let encoded = try s3Head("PUT", "/bucket-1/a", ["Content-Length": "100"])
        #expect(code(encoded, .unsignedChunksAndTrailers) == .missingContentLength)
        let wrong = try s3Head("PUT", "/bucket-1/a", ["x-amz-decoded-content-length": "-1"])
        #expect(code(wrong, .signedChunks) == .invalidArgument)
    }

    @Test("with a list of parts, the checksum is that of the object")
    func completion() async throws {
        let fields: HTTPFields = [
            "Content-Length": "9", "x-amz-checksum-crc32": "AAAAAA==", "x-amz-mp-object-size": "12",
            "Content-MD5": "JfnnlDI7RTiF9RgfG2JNCw==",
        ]
        let head = try s3Head("POST", "/bucket-1/a?uploadId=u", fields)
        let declared = try s3Content(head, .completion)
        let body = try ObjectBody(declared, ArraySource(content), payload: .unsigned, signature: nil)
        #expect(try await body.document(limit: 9) == content)
        let expected = try CompletedPart.Expectation(RequestReader(head, .aws))
        let checksum = ObjectChecksum(.crc32, value: [0, 0, 0, 0])
        try expected.check(checksum, parts: 2, size: 12)
        func code(_ checksum: ObjectChecksum?, _ size: Int64) -> ObjectErrorCode? {
            s3Code { () throws(ObjectError) in try expected.check(checksum, parts: 2, size: size) }
        }
        #expect(code(checksum, 11) == .invalidRequest)
        #expect(code(nil, 12) == .invalidRequest)
        #expect(code(ObjectChecksum(.crc32c, value: [0, 0, 0, 0]), 12) == .invalidRequest)
        #expect(code(ObjectChecksum(.crc32, value: [0, 0, 0, 1]), 12) == .badDigest)

        let composite: HTTPFields = ["x-amz-checksum-sha1": "AAAAAAAAAAAAAAAAAAAAAAAAAAA=-2"]
        let head2 = try s3Head("POST", "/bucket-1/a?uploadId=u", composite)
        let parts = try CompletedPart.Expectation(RequestReader(head2, .aws))
        let zeros = ObjectChecksum(.sha1, isComposite: true, value: [UInt8](repeating: 0, count: 20))
        try parts.check(zeros, parts: 2, size: 1)
        #expect(s3Code { () throws(ObjectError) in try parts.check(zeros, parts: 3, size: 1) } == .badDigest)
        let whole = ObjectChecksum(.sha1, value: zeros.value)
        #expect(s3Code { () throws(ObjectError) in try parts.check(whole, parts: 2, size: 1) } == .badDigest)
        for field: HTTPFields in [
            ["x-amz-mp-object-size": "x"], ["x-amz-checksum-type": "COMPOSITEX"], ["x-amz-checksum-type": ""],
        ] {
            let wrong = try s3Head("POST", "/bucket-1/a?uploadId=u", field)
            #expect(
                s3Code { () throws(ObjectError) in try CompletedPart.Expectation(RequestReader(wrong, .aws)) }
                    == .invalidArgument
            )
        }
    }

    @Test("a completion that names the checksum type names the one of the upload", arguments: [true, false])
    func checksumType(_ isComposite: Bool) throws {
        let type = isComposite ? "composite" : "FULL_OBJECT"
        let head = try s3Head("POST", "/bucket-1/a?uploadId=u", ["x-amz-checksum-type": type])
        let expected = try CompletedPart.Expectation(RequestReader(head, .aws))
        func code(_ checksum: ObjectChecksum?) -> ObjectErrorCode? {
            s3Code { () throws(ObjectError) in try expected.check(checksum, parts: 2, size: 1) }
        }
        let zeros: [UInt8] = [0, 0, 0, 0]
        #expect(code(ObjectChecksum(.crc32, isComposite: isComposite, value: zeros)) == nil)
        #expect(code(ObjectChecksum(.crc32, isComposite: !isComposite, value: zeros)) == .badDigest)
        #expect(code(nil) == (isComposite ? .badDigest : nil))
    }

    @Test("an oversized document is refused unread")
    func large() async throws {
        let source = ScriptedSource([.bytes(content)])
        let body = try body(["Content-Length": "9"], source)
        let error = await #expect(throws: ObjectError.self) { try await body.document(limit: 8) }
        #expect(error?.code == .maxMessageLengthExceeded && source.unread == 9)
    }

    @Test("connection errors are reported")
    func source() async throws {
        for (failure, code) in [
            (SourceFailure.disconnected, ObjectErrorCode.incompleteBody), (.timedOut, .requestTimeout),
            (.interrupted, .operationAborted), (.shuttingDown, .serviceUnavailable),
            (.malformed("x"), .invalidRequest), (.tooLarge(limit: 1), .entityTooLarge),
        ] {
            let source = ScriptedSource([.bytes([1]), .fail(failure)])
            let body = try body(["Content-Length": "9"], source)
            let error = await #expect(throws: ObjectError.self) { try await body.document(limit: 9) }
            #expect(error?.code == code && error?.closesConnection == true)
            #expect(s3Code { () throws(ObjectError) in try body.outcome() } == .incompleteBody)
        }
        let short = try body(["Content-Length": "9"], ArraySource([1, 2]))
        let error = await #expect(throws: ObjectError.self) { try await short.document(limit: 9) }
        #expect(error?.code == .incompleteBody)
    }

    @Test("digests that did not see all bytes are an internal error, not the client's")
    func unseen() async throws {
        let body = try body(["Content-Length": "9"], ArraySource(content))
        while try await body.next(maximum: 4) != nil {}
        #expect(s3Code { () throws(ObjectError) in try body.outcome() } == .internalError)
    }

    // MARK: Chunks

    private func chunks(_ trailers: [SigningField]?, isSigned: Bool = true, sizes: [Int] = [4, 5]) -> [UInt8] {
        var encoder = AWSChunkedEncoder(signer: isSigned ? Self.signature.chunkSigner : nil)
        var bytes: [UInt8] = []
        var rest = content[...]
        for size in sizes {
            bytes += encoder.chunk(Array(rest.prefix(size)))
            rest = rest.dropFirst(size)
        }
        return bytes + encoder.end(trailers: trailers)
    }

    private static let trailer: HTTPFields = [
        "x-amz-trailer": "X-Amz-Checksum-CRC32C", "x-amz-decoded-content-length": "9",
    ]

    @Test("trailers must be the announced ones")
    func trailers() async throws {
        let right = [SigningField("x-amz-checksum-crc32c", "4waSgw==")]
        let wrong = [SigningField("x-amz-checksum-crc32c", "4waSgg==")]
        let other = [SigningField("x-amz-checksum-crc32", "y/Q5Jg==")]
        let plain: HTTPFields = ["x-amz-decoded-content-length": "9"]
        for (payload, isSigned) in [(SigV4Payload.signedChunksAndTrailers, true), (.unsignedChunksAndTrailers, false)] {
            func code(_ fields: HTTPFields, _ trailers: [SigningField]) async throws -> ObjectErrorCode? {
                try await self.code(fields, chunks(trailers, isSigned: isSigned), payload: payload)
            }
            #expect(try await code(Self.trailer, right) == nil)
            #expect(try await code(Self.trailer, wrong) == .badDigest)
            #expect(try await code(Self.trailer, other) == .malformedTrailer)
            #expect(try await code(Self.trailer, right + other) == .malformedTrailer)
            #expect(try await code(Self.trailer, []) == .malformedTrailer)
            #expect(try await code(Self.trailer, [SigningField("x-amz-checksum-crc32c", "x")]) == .invalidRequest)
            #expect(try await code(plain, right) == .malformedTrailer)
            #expect(try await code(plain, []) == nil)
            var unknown = plain
            unknown["x-amz-trailer"] = "x-amz-meta-a"
            #expect(try await code(unknown, right) == .invalidRequest)
        }
    }

    @Test("truncated, modified, oversized or excess chunks")
    func brokenChunks() async throws {
        let whole = chunks(nil)
        let fields: HTTPFields = ["x-amz-decoded-content-length": "9"]
        #expect(try await code(fields, whole, payload: .signedChunks) == nil)
        for count in 0..<whole.count {
            let code = try await code(fields, Array(whole.prefix(count)), payload: .signedChunks)
            #expect(code == .incompleteBody, "cut off at \(count)")
        }
        for index in whole.indices {
            var changed = whole
            changed[index] ^= 0x40
            let code = try await code(fields, changed, payload: .signedChunks)
            #expect(code != nil && code != .internalError, "changed at \(index)")
        }
        #expect(try await code(fields, whole + [13], payload: .signedChunks) == .invalidRequest)
        for length in ["8", "10"] {
            #expect(
                try await code(["x-amz-decoded-content-length": length], whole, payload: .signedChunks)
                    == .incompleteBody
            )
        }
    }

    @Test("the storing code sees that the bytes are wrong, and the reason is known")
    func failingSource() async throws {
        var wrong = chunks(nil, sizes: [9])
        wrong[wrong.count - 100] ^= 1
        let body = try body(["x-amz-decoded-content-length": "9"], ArraySource(wrong), payload: .signedChunks)
        var count = 0
        await #expect(throws: SourceFailure.self) {
            while let piece = try await body.next(maximum: 3) { count += piece.count }
        }
        #expect(count == 9)
        #expect(body.failure?.code == .signatureDoesNotMatch && body.failure?.closesConnection == true)
        await #expect(throws: SourceFailure.self) { _ = try await body.next(maximum: 3) }
        #expect(s3Code { () throws(ObjectError) in try body.outcome() } == .signatureDoesNotMatch)
    }

    @Test("an interruption reaches the source")
    func interruption() async throws {
        let source = ScriptedSource([.bytes([1]), .stall])
        let body = try body(["Content-Length": "9"], source)
        body.interrupter.interrupt()
        await #expect(throws: SourceFailure.interrupted) { _ = try await body.next(maximum: 3) }
        #expect(source.interruptions == 1)
    }
}
