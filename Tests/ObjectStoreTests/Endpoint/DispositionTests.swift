import HTTPWire
import Signing
import SluiceTesting
import Testing
import UploadCore
import UploadModel

@testable import ObjectGrants
@testable import ObjectStore

/// The user's policy allows names that end in `.png`; keys here do.
@Suite("File names in Content-Disposition of objects", .timeLimit(.minutes(10)))
struct DispositionTests {
    /// How an object gets the field.
    enum Way: CaseIterable {
        case object, append, parts, form, replacingCopy, copy
    }

    private static func bench() async throws -> ObjectBench {
        var policy = Policy()
        policy.extensions = ["png"]
        return try await ObjectBench(limits: UploadLimits(maximumBytes: 1000, policies: [.subject: policy]))
    }

    private func send(_ way: Way, _ vendor: Vendor, _ disposition: String) async throws -> String {
        let bench = try await Self.bench()
        if way == .form {
            let form = try await FormBench(vendor, under: bench.grant(.only("a/f"), actions: [.postObject]), bench)
            // The key has no ending.
            let fields = [(vendor.fieldPrefix + "meta-filename", "f.png"), ("Content-Disposition", disposition)]
            let conditions = fields.map { ["starts-with", "$" + $0.0, ""] }
            return try await form.post(conditions, fields).outcome
        }
        var grant = bench.grant()
        grant.actions.insert(.copySource)
        let session = try bench.issuer.session(grant, for: vendor)
        let source: HTTPFields = ["Content-Disposition": disposition]
        // The administrator is no user, and has no limit.
        _ = try await bench.send("PUT", "/bucket-1/a/source.png", ObjectBench.administrator, source, content: [1])
        var fields = HTTPFields()
        func add(_ name: String, _ value: String) throws {
            fields.append(try #require(FieldName(vendor.fieldPrefix + name)), value)
        }
        if way != .copy { fields["Content-Disposition"] = disposition }
        if way == .copy || way == .replacingCopy {
            let bucket = vendor == .tencent ? "bucket-1.cos.ap-x.myqcloud.com" : "/bucket-1"
            try add("copy-source", bucket + "/a/source.png")
        }
        if way == .replacingCopy { try add("metadata-directive", "REPLACE") }
        let (method, query, content): (String, String, [UInt8]) =
            switch way {
            case .append: ("POST", "?append&position=0", [1])
            case .parts: ("POST", "?uploads", [])
            case .copy, .replacingCopy: ("PUT", "", [])
            default: ("PUT", "", [1])
            }
        let target = "/bucket-1/a/f.png\(query)"
        return switch vendor {
        case .aws: try await bench.send(method, target, session, fields, content: content).outcome
        case .aliyun: try await bench.send(method, target, session, by: .ossV4, fields, content: content).outcome
        case .tencent: try await bench.send(method, target, session, by: .cos, fields, content: content).outcome
        }
    }

    @Test("each name is checked, in every way in", arguments: Vendor.allCases, Way.allCases)
    func names(_ vendor: Vendor, _ way: Way) async throws {
        guard vendor != .aws || way != .append else { return }
        for allowed in ["attachment", "inline; filename=a.png", "attachment; filename=a.PNG; filename*=UTF-8''b.png"] {
            #expect(try await send(way, vendor, allowed).hasPrefix("20"), "\(allowed)")
        }
        for refused in [
            "attachment; filename=a.exe", "attachment; filename=a.png; filename*=UTF-8''a.exe",
            "attachment; filename*=UTF-8''a.png; filename=a.exe", "attachment; filename=a b.png", "filename=a.exe",
        ] {
            let outcome = try await send(way, vendor, refused)
            #expect(outcome.hasPrefix("40"), "\(refused): \(outcome)")
        }
    }
}
