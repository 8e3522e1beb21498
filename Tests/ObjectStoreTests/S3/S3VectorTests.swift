import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

@Suite("S3 requests signed by botocore", .timeLimit(.minutes(10)))
struct S3VectorTests {
    @Test("there are vectors for each way to sign, and for each operation")
    func count() {
        #expect(S3Vector.all.count == 63)
        #expect(S3Vector.forms.count == 2)
        #expect(S3Vector.all.count { $0.lifetime != nil } == 16)
        #expect(S3Vector.all.count { $0.token != nil } == 42)
        #expect(Set(S3Vector.all.map(\.operation)).count == 23)
    }

    @Test("they are accepted, and their content is decoded", arguments: S3Vector.signed)
    func accepted(_ vector: S3Vector) async throws {
        let head = try vector.head()
        let operation = try S3Vector.operation(head)
        #expect(operation.name == vector.operation)
        #expect(operation.bucket == (vector.operation == "ListBuckets" ? nil : "bucket-1"))
        let caller = try await vector.caller(head)
        #expect(caller.identity == .administrator && caller.accessKeyID == vector.id)
        try caller.authorize(operation)

        let sent = try vector.bytes(vector.body)
        var random = SeededGenerator(seed: UInt64(sent.count))
        for _ in 0..<4 {
            let body = try ObjectBody(
                try s3Content(head, .document),
                ScriptedSource(pieces(of: sent, using: &random)),
                payload: caller.payload,
                signature: caller.signature,
                minimumChunk: 1
            )
            var received: [UInt8] = []
            while let piece = try await body.next(maximum: Int.random(in: 1...300, using: &random)) {
                body.digests.update(piece)
                received += piece
                #expect(body.remaining == body.length.map { $0 - Int64(received.count) })
            }
            #expect(received == (try vector.bytes(vector.content)))
            #expect(try body.outcome().values.count == Int64(received.count))
        }
    }

    private func pieces(of bytes: [UInt8], using random: inout SeededGenerator) -> [ScriptedSource.Step] {
        var rest = bytes[...]
        var steps: [ScriptedSource.Step] = []
        while !rest.isEmpty {
            let piece = rest.prefix(Int.random(in: 1...200, using: &random))
            steps.append(.bytes(Array(piece)))
            rest = rest.dropFirst(piece.count)
        }
        return steps
    }

    @Test("another secret, method or target is refused", arguments: S3Vector.signed)
    func refused(_ vector: S3Vector) async throws {
        let head = try vector.head()
        await expect(.signatureDoesNotMatch) { try await vector.caller(head, secret: "other") }
        var other = head
        other.method = HTTPMethod(rawValue: "PATCH")
        let operation = try S3Vector.operation(head)
        let authentication = ObjectAuthentication.knowing(
            SigningCredentials(accessKeyID: vector.id, secretAccessKey: vector.secret)
        )
        if vector.token == nil {
            await expect(.signatureDoesNotMatch) {
                try await authentication.authenticate(other, for: operation, at: vector.now)
            }
        }
        let changed = vector.target.contains("?") ? vector.target + "&a=1" : vector.target + "?a=1"
        other = head
        other.target = try RequestTarget(parsing: changed)
        await expect(.signatureDoesNotMatch) { try await vector.caller(other) }
    }

    @Test("they are refused if too old or too early", arguments: S3Vector.signed)
    func time(_ vector: S3Vector) async throws {
        let head = try vector.head()
        let early = vector.now.addingTimeInterval(-901)
        guard let lifetime = vector.lifetime else {
            await expect(.requestTimeTooSkewed) { try await vector.caller(head, at: early) }
            await expect(.requestTimeTooSkewed) {
                try await vector.caller(head, at: vector.now.addingTimeInterval(901))
            }
            _ = try await vector.caller(head, at: vector.now.addingTimeInterval(900))
            return
        }
        await expect(.accessDenied) { try await vector.caller(head, at: early) }
        let error = await expect(.accessDenied) {
            try await vector.caller(head, at: vector.now.addingTimeInterval(Double(lifetime)))
        }
        #expect(error?.message == "Request has expired")
    }

    @Test("modified content is refused, in every scheme", arguments: S3Vector.signed)
    func changedContent(_ vector: S3Vector) async throws {
        let head = try vector.head()
        let caller = try await vector.caller(head)
        var sent = try vector.bytes(vector.body)
        guard caller.payload != .unsigned, !vector.content.isEmpty else { return }
        // Behind the line of the first chunk, or somewhere in the content.
        sent[sent.count / 3] ^= 1
        let body = try ObjectBody(try s3Content(head), ArraySource(sent), caller)
        let error = await #expect(throws: ObjectError.self) { try await body.document(limit: 1 << 20) }
        let codes: [ObjectErrorCode] = [.xAmzContentSHA256Mismatch, .signatureDoesNotMatch, .badDigest]
        #expect(error.map { codes.contains($0.code) } == true)
    }

    @Test("forms are accepted by their policy", arguments: S3Vector.forms)
    func forms(_ vector: S3Vector) async throws {
        let operation = try S3Vector.operation(try vector.head())
        #expect(operation == .postObject("bucket-1"))
        let fields = try #require(vector.form).map { (name: $0[0], value: $0[1]) }
        let form = try PostForm(fields, fileName: "C:\\a\\x.txt", vendor: .aws)
        #expect(form["key"] == "form/x.txt")
        let known = SigningCredentials(accessKeyID: vector.id, secretAccessKey: vector.secret)
        let authentication = ObjectAuthentication.knowing(known)
        guard vector.token == nil else {
            // Another issuer's token.
            await expect(.invalidToken) {
                try await authentication.authenticate(form, bucket: "bucket-1", at: vector.now)
            }
            return
        }
        let (caller, policy, _) = try await authentication.authenticate(form, bucket: "bucket-1", at: vector.now)
        #expect(caller.identity == .administrator && policy.contentLengths == 1...10)
        await expect(.accessDenied) { try await authentication.authenticate(form, bucket: "other", at: vector.now) }
        await expect(.accessDenied) {
            try await authentication.authenticate(form, bucket: "bucket-1", at: vector.now.addingTimeInterval(600))
        }
        let other = SigningCredentials(accessKeyID: vector.id, secretAccessKey: "other")
        await expect(.signatureDoesNotMatch) {
            try await ObjectAuthentication.knowing(other).authenticate(form, bucket: "bucket-1", at: vector.now)
        }
        for (index, field) in fields.enumerated() {
            var without = fields
            without.remove(at: index)
            let form = try PostForm(without, fileName: "", vendor: .aws)
            let error = await #expect(throws: ObjectError.self, "without \(field.name)") {
                try await authentication.authenticate(form, bucket: "bucket-1", at: vector.now)
            }
            #expect(error?.code == (field.name.hasPrefix("x-amz-") ? .invalidArgument : .accessDenied))
        }
    }

    @discardableResult
    private func expect<Success>(
        _ code: ObjectErrorCode,
        _ work: () async throws -> Success,
        _ location: SourceLocation = #_sourceLocation
    ) async -> ObjectError? {
        do {
            _ = try await work()
            Issue.record("no error, but \(code.rawValue) was expected", sourceLocation: location)
        } catch let error as ObjectError {
            #expect(error.code == code, sourceLocation: location)
            return error
        } catch {
            Issue.record(error, sourceLocation: location)
        }
        return nil
    }
}
