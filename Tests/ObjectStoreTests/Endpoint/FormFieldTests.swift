import Bytes
import Foundation
import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

@Suite("Fields of forms", .timeLimit(.minutes(10)))
struct FormFieldTests {
    /// Names of fields with an effect, without those of the signature, which no form has twice.
    private static func names(_ vendor: Vendor) -> [String] {
        let table = vendor.profile.fields
        let signed: Set<String> = [
            "algorithm", "credential", "date", "security-token", "signature", "signature-version",
        ]
        let own = table.rules.keys.filter { !signed.contains($0) } + table.families.map { $0.prefix + "x" }
        return own.sorted().map { table.prefix + $0 } + (vendor == .aliyun ? [] : ["acl"]) + [
            "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-MD5",
            "Content-Type", "Expires", "content-type", table.prefix + "x",
        ]
    }

    private static let controls = ["\0", "\u{1}", "\t", "\r", "\n", "\r\n", "\u{7F}"]

    @Test(
        "a field that cannot be a header field is refused, whatever the policy says of it",
        arguments: Vendor.allCases,
        ["eq", "starts-with"]
    )
    func controlCharacters(_ vendor: Vendor, _ operation: String) async throws {
        let form = try await FormBench(vendor)
        for name in Self.names(vendor) {
            for control in Self.controls {
                let value = "image/png" + control
                let allowed = operation == "eq" ? value : "image/"
                let refused = try await form.post([[operation, "$" + name, allowed]], [(name, value)])
                #expect(refused.outcome == "400 InvalidArgument", "\(name) \(Array(control.utf8))")
                #expect(refused.element("ArgumentName") == name)
            }
        }
        #expect(try await form.stored == nil)
    }

    @Test(
        "a field whose name cannot be that of a header is refused if a header with such a beginning has an effect",
        arguments: Vendor.allCases
    )
    func otherNames(_ vendor: Vendor) async throws {
        let form = try await FormBench(vendor)
        let prefix = vendor.fieldPrefix
        for name in [prefix + "meta-größe", prefix + "meta a", "Content-Type ", "content-type\t"] {
            let refused = try await form.post([["starts-with", "$" + name, ""]], [(name, "image/png")])
            #expect(refused.outcome == "400 InvalidArgument", "\(name)")
        }
        #expect(try await form.stored == nil)
    }

    @Test("fields without an effect can have any value, such as two lines", arguments: Vendor.allCases)
    func withoutEffect(_ vendor: Vendor) async throws {
        let form = try await FormBench(vendor)
        let fields = [("comment", "two\r\nlines"), ("x-ignore-note", "a\tb"), ("größe", "\u{1}")]
        let done = try await form.post([["starts-with", "$comment", ""], ["starts-with", "$größe", ""]], fields)
        #expect(done.outcome == "204")
        #expect(try await form.stored?.attributes?.headers == [:])
    }

    @Test(
        "the type of the file is used only if no field has one, and only if the policy allows it",
        arguments: [
            ([["starts-with", "$Content-Type", ""]], [], "text/html"),
            ([["starts-with", "$Content-Type", ""]], [("Content-Type", "")], nil),
            ([["starts-with", "$Content-Type", "image/"]], [("CONTENT-TYPE", "image/png")], "image/png"),
            ([["eq", "$Content-Type", ""]], [], nil),
        ] as [([[String]], [(String, String)], String?)]
    )
    func typeOfTheFile(_ conditions: [[String]], _ fields: [(String, String)], _ type: String?) async throws {
        for vendor in Vendor.allCases {
            let form = try await FormBench(vendor)
            #expect(try await form.post(conditions, fields).outcome == "204")
            let stored = try #require(try await form.stored)
            #expect(stored.contentType == type, "\(vendor)")
        }
    }

    @Test("only in OSS a second field has the media type")
    func secondType() async throws {
        let fields = [("Content-Type", "image/png"), ("x-oss-content-type", "text/html")]
        let condition = ["starts-with", "$Content-Type", "image/"]
        let refused = try await FormBench(.aliyun).post([condition], fields)
        #expect(refused.outcome == "403 AccessDenied")
        for vendor in [Vendor.aws, .tencent] {
            let form = try await FormBench(vendor)
            let done = try await form.post([condition, ["starts-with", "$x-oss-content-type", ""]], fields)
            #expect(done.outcome == "204")
            #expect(try await form.stored?.contentType == "image/png", "\(vendor)")
        }
    }

    @Test("white space around a value is no part of it")
    func whiteSpace() async throws {
        let form = try await FormBench(.aliyun)
        let condition = ["starts-with", "$x-oss-forbid-overwrite", "true"]
        for outcome in ["204", "409 FileAlreadyExists"] {
            #expect(try await form.post([condition], [("x-oss-forbid-overwrite", "true ")]).outcome == outcome)
        }
    }

    @Test(
        "a form that replaces nothing, or only what it names, does so",
        arguments: [
            (.aws, "If-None-Match", "*", "412 PreconditionFailed"),
            (.aliyun, "if-none-match", "*", "412 PreconditionFailed"),
            (.tencent, "If-None-Match", " * ", "412 PreconditionFailed"),
            (.tencent, "x-cos-forbid-overwrite", "TRUE", "412 PreconditionFailed"),
            (.aliyun, "x-oss-forbid-overwrite", "true", "409 FileAlreadyExists"),
        ] as [(Vendor, String, String, String)]
    )
    func conditions(_ vendor: Vendor, _ name: String, _ value: String, _ outcome: String) async throws {
        let form = try await FormBench(vendor)
        let condition = ["starts-with", "$" + name, ""]
        #expect(try await form.post([condition], [(name, value)]).outcome == "204")
        let stored = try await form.stored
        #expect(try await form.post([condition], [(name, value)]).outcome == outcome)
        #expect(try await form.stored == stored)
        #expect(try await form.post([], []).outcome == "204")
        #expect(try await form.stored != stored)
    }

    @Test("a form replaces the object with a tag, and no condition is left out", arguments: Vendor.allCases)
    func namedTag(_ vendor: Vendor) async throws {
        let form = try await FormBench(vendor)
        let condition = ["starts-with", "$If-Match", ""]
        let missing = try await form.post([condition], [("If-Match", "\"5d41402abc4b2a76b9719d911017c592\"")])
        #expect(missing.status.code / 100 == 4)
        #expect(try await form.stored == nil)
        let tag = try #require(try await form.post([], []).fields["ETag"])
        let stored = try await form.stored
        for value in ["\"0\"", tag + ", \"0\"", "*", "W/" + tag, ""] {
            let refused = try await form.post([condition], [("If-Match", value)])
            #expect(refused.status.code >= 400 && refused.trace.errorCode != nil, "\(value)")
        }
        #expect(try await form.stored == stored)
        #expect(try await form.post([condition], [("If-Match", tag)]).outcome == "204")
        let replaced = try await form.stored
        #expect(replaced != stored)
        // As a header field of the request, too.
        for header: HTTPFields in [["If-None-Match": "*"], ["If-Match": "\"0\""]] {
            #expect(try await form.post([], [], header: header).outcome == "412 PreconditionFailed")
        }
        #expect(try await form.stored == replaced)
    }

    @Test(
        "only access rights that every object has can be asked for",
        arguments: [
            (.aws, "acl"), (.aws, "ACL"), (.aws, "x-amz-acl"), (.tencent, "acl"), (.tencent, "x-cos-acl"),
            (.aliyun, "x-oss-object-acl"), (.aliyun, "x-oss-acl"),
        ] as [(Vendor, String)]
    )
    func accessRights(_ vendor: Vendor, _ name: String) async throws {
        let form = try await FormBench(vendor)
        let condition = ["starts-with", "$" + name, ""]
        for value in ["public-read", "public-read-write", "authenticated-read", ""] {
            let refused = try await form.post([condition], [(name, value)])
            #expect(refused.status.code / 100 == 4 && refused.trace.errorCode != nil, "\(value): \(refused.outcome)")
        }
        #expect(try await form.stored == nil)
        #expect(try await form.post([condition], [(name, "private")]).outcome == "204")
        // Of two names, none hides the other.
        guard name == "acl" else { return }
        let two = [("acl", "private"), (vendor.fieldPrefix + "acl", "public-read")]
        for fields in [two, two.reversed()] {
            let refused = try await form.post([condition, ["starts-with", "$\(vendor.fieldPrefix)acl", ""]], fields)
            #expect(refused.status.code / 100 == 4)
        }
    }

    @Test(
        "a digest in a form is compared with the file",
        arguments: [
            (.aws, "Content-MD5", "XUFAKrxLKna5cZ2REBfFkg=="), (.tencent, "Content-MD5", "XUFAKrxLKna5cZ2REBfFkg=="),
            (.aliyun, "Content-MD5", "XUFAKrxLKna5cZ2REBfFkg=="),
            (.aliyun, "x-oss-hash-sha1", "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"),
            (.tencent, "x-cos-content-sha1", "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d"),
        ] as [(Vendor, String, String)]
    )
    func digests(_ vendor: Vendor, _ name: String, _ value: String) async throws {
        let form = try await FormBench(vendor)
        let condition = ["starts-with", "$" + name, ""]
        let other = value.replacing("X", with: "Y").replacing("aaf4", with: "aaf5")
        let different = vendor == .aliyun ? "400 InvalidDigest" : "400 BadDigest"
        #expect(try await form.post([condition], [(name, other)]).outcome == different)
        #expect(try await form.post([condition], [(name, "1")]).outcome == "400 InvalidDigest")
        #expect(try await form.stored == nil)
        #expect(try await form.post([condition], [(name, value)]).outcome == "204")
    }

    private static let tagSet = "<Tagging>\r\n<TagSet><Tag><Key>t</Key><Value>1</Value></Tag></TagSet></Tagging>"

    @Test(
        "tags of a form are stored, or it is refused, under each name",
        arguments: [
            (.aws, [("tagging", tagSet)], true), (.aws, [("Tagging", tagSet)], true),
            (.aws, [("tagging", "t=1")], false),
            (.aws, [("x-amz-tagging", "t=1")], false), (.aws, [("tagging", tagSet), ("X-Amz-Tagging", "t=1")], false),
            (.tencent, [("x-cos-tagging", "t=1")], true), (.tencent, [("tagging", tagSet)], true),
            (.tencent, [("tagging", "t=1")], false),
            (.tencent, [("tagging", tagSet), ("x-cos-tagging", "t=2")], false),
            (.aliyun, [("x-oss-tagging", "t=1")], true), (.aliyun, [("tagging", tagSet)], false),
            (.aliyun, [("TAGGING", "t=1"), ("x-oss-tagging", "t=1")], false),
        ] as [(Vendor, [(String, String)], Bool)]
    )
    func tagging(_ vendor: Vendor, _ fields: [(String, String)], _ isStored: Bool) async throws {
        let form = try await FormBench(vendor)
        let response = try await form.post(fields.map { ["starts-with", "$" + $0.0, ""] }, fields)
        #expect(isStored ? response.status == 204 : response.status == 400, "\(response.outcome)")
        #expect(try await form.stored?.attributes?.tags == (isStored ? ["t": "1"] : nil))
    }

    @Test(
        "tags, and that nothing is replaced, are not left out where another vendor or another request has them",
        arguments: Vendor.allCases
    )
    func misplaced(_ vendor: Vendor) async throws {
        let form = try await FormBench(vendor)
        #expect(try await form.post([], []).outcome == "204")
        let stored = try await form.stored
        func refusal(field name: String, _ value: String) async throws -> String {
            try await form.post([["starts-with", "$" + name, ""]], [(name, value)]).outcome
        }
        func refusal(header name: String, _ value: String) async throws -> String {
            try await form.post([], [], header: [try #require(FieldName(name)): value]).outcome
        }
        for other in Vendor.allCases {
            let (tagging, forbids) = (other.fieldPrefix + "tagging", other.fieldPrefix + "forbid-overwrite")
            for name in [tagging, tagging.uppercased()] {
                #expect(try await refusal(header: name, "t=1") == "400 InvalidArgument", "\(name)")
            }
            if other == vendor { continue }
            #expect(try await refusal(field: tagging, "t=1") == "400 InvalidArgument", "\(tagging)")
            for value in ["true", "false", ""] {
                #expect(try await refusal(field: forbids, value) == "400 InvalidArgument", "\(forbids)")
            }
            // Of S3 it would be unknown in any request.
            let unknown = other == .aws ? "501 NotImplemented" : "400 InvalidArgument"
            #expect(try await refusal(header: forbids, "true") == unknown, "\(forbids)")
        }
        #expect(try await form.stored == stored)
    }

    @Test("that nothing is replaced also holds as a header field of the request", arguments: [Vendor.aliyun, .tencent])
    func forbidOverwrite(_ vendor: Vendor) async throws {
        let form = try await FormBench(vendor)
        let name = try #require(FieldName(vendor.fieldPrefix + "forbid-overwrite"))
        let refused = vendor == .aliyun ? "409 FileAlreadyExists" : "412 PreconditionFailed"
        for outcome in ["204", refused] {
            #expect(try await form.post([], [], header: [name: "true"]).outcome == outcome)
        }
        #expect(try await form.post([], [], header: [name: "x"]).outcome == "400 InvalidArgument")
        #expect(try await form.post([], [], header: [name: "false"]).outcome == "204")
    }

    @Test("the query of a form adds no field")
    func query() async throws {
        let form = try await FormBench(.aws)
        let query = "?X-Amz-Signature=1&x-amz-meta-a=1&x-amz-tagging=a%3D1&x-amz-meta-filename=a.exe"
        #expect(try await form.post([], [], query: query).outcome == "204")
        let stored = try #require(try await form.stored)
        #expect(stored.attributes?.headers == [:] && stored.attributes?.tags == [:])
    }
}

/// A test endpoint that gets forms of one vendor for the key `a/f`.
struct FormBench {
    let vendor: Vendor
    let bench: ObjectBench
    private let credentials: SigningCredentials

    init(_ vendor: Vendor, under grant: ObjectGrant? = nil, _ bench: ObjectBench? = nil) async throws {
        self.vendor = vendor
        self.bench = if let bench { bench } else { try await ObjectBench() }
        credentials = try self.bench.issuer.session(grant ?? self.bench.grant(actions: [.postObject]), for: vendor)
    }

    /// The stored object.
    var stored: Media? {
        get async throws { try await bench.services.objects.object(ObjectName(bucket: "bucket-1", key: "a/f")) }
    }

    /// Sends a form with a file of type `text/html`.
    ///
    /// - Parameters:
    ///   - conditions: Conditions of the policy, besides those for the bucket, the key and the signature.
    ///   - fields: Fields besides the key and those of the signature.
    ///   - query: The query of the request, with the question mark.
    ///   - header: Fields of the request's head.
    /// - Returns: The response.
    /// - Throws: If the form cannot be built.
    func post(
        _ conditions: [[String]],
        _ fields: [(String, String)],
        query: String = "",
        header: HTTPFields = HTTPFields()
    ) async throws -> Response {
        let now = bench.clock.now.unixSeconds
        let own = [["eq", "$bucket", "bucket-1"], ["eq", "$key", "a/f"]] + conditions
        func policy(_ signed: [SigningField]) -> String {
            let all = own + signed.map { ["eq", "$" + $0.name, $0.value] }
            let list = (try? JSONEncoder().encode(all)).map { String(decoding: $0, as: UTF8.self) } ?? ""
            return Base64.encode(#"{"expiration":"2026-01-02T04:04:05.000Z","conditions":\#(list)}"#.utf8)
        }
        let signed =
            switch vendor {
            case .aws: SigV4Signer(credentials: credentials, region: "us-east-1").form(policy: policy, at: now)
            case .aliyun:
                OSSSigner(credentials: credentials, scheme: .v4(region: "x")).form(policy: policy, at: now)
            case .tencent:
                COSSigner(credentials: credentials)
                    .form(policy: policy, window: COSWindow(start: now - 60, end: now + 600))
            }
        var text = ""
        for (name, value) in [("key", "a/f")] + fields + signed.map({ ($0.name, $0.value) }) {
            text += "--x\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n\(value)\r\n"
        }
        text += "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n"
        var type = header
        type["Content-Type"] = "multipart/form-data; boundary=x"
        let content = Array((text + "Content-Type: text/html\r\n\r\nhello\r\n--x--\r\n").utf8)
        return await bench.send(try s3Head("POST", "/bucket-1\(query)", type), content)
    }
}
