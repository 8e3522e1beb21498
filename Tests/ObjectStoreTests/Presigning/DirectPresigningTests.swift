import Foundation
import Signing
import Testing
import UploadModel

@testable import Presigning

@Suite("URLs and forms for real stores", .timeLimit(.minutes(10)))
struct DirectPresigningTests {
    private let grant = Grant(id: "grant-1", subject: nil, expiresAt: noon.addingTimeInterval(60))
    private let name = ObjectName(bucket: "media-1250000000", key: "a b/1")

    private func presigner(
        _ vendor: Vendor,
        _ origin: String,
        isPathStyle: Bool = false,
        token: String? = nil
    ) -> ObjectPresigner {
        ObjectPresigner(
            credentials: SigningCredentials(accessKeyID: "id", secretAccessKey: "secret", sessionToken: token),
            vendor: vendor,
            address: ObjectAddress(origin: origin, isPathStyle: isPathStyle),
            region: "eu-1"
        )
    }

    @Test("the bucket is in the host name or in the path")
    func styles() throws {
        let cases: [(Vendor, String, Bool, String)] = [
            (.aws, "https://s3.eu-1.amazonaws.com", false, "https://media-1250000000.s3.eu-1.amazonaws.com/a%20b/1?"),
            (.aws, "http://127.0.0.1:7480", true, "http://127.0.0.1:7480/media-1250000000/a%20b/1?"),
            (
                .aliyun, "https://oss-eu-1.aliyuncs.com", false,
                "https://media-1250000000.oss-eu-1.aliyuncs.com/a%20b/1?"
            ),
            (
                .tencent, "https://cos.eu-1.myqcloud.com", false,
                "https://media-1250000000.cos.eu-1.myqcloud.com/a%20b/1?"
            ),
        ]
        for (vendor, origin, isPathStyle, start) in cases {
            let signed = try presigner(vendor, origin, isPathStyle: isPathStyle)
                .request(.putObject, name, under: grant, at: noon)
            #expect(signed.url.hasPrefix(start))
            #expect(!signed.url.contains("oken"))
        }
        let dotted = ObjectName(bucket: "media.example.com", key: "1")
        let signed = try presigner(.aws, "https://s3.eu-1.amazonaws.com").request(
            .getObject,
            dotted,
            under: grant,
            at: noon
        )
        #expect(signed.url.hasPrefix("https://s3.eu-1.amazonaws.com/media.example.com/1?"))
    }

    @Test("the signature is that of a signer for the same host and path")
    func signatures() throws {
        let signed = try presigner(.aws, "https://s3.eu-1.amazonaws.com").request(
            .getObject,
            name,
            under: grant,
            at: noon
        )
        let signer = SigV4Signer(
            credentials: SigningCredentials(accessKeyID: "id", secretAccessKey: "secret"),
            region: "eu-1"
        )
        let request = SigningRequest(
            method: "GET",
            host: "media-1250000000.s3.eu-1.amazonaws.com",
            path: "/a%20b/1",
            payload: .unsigned
        )
        let query = SigningRequest.query(of: signer.presign(request, at: noon.unixSeconds, lifetime: 60))
        #expect(signed.url == "https://media-1250000000.s3.eu-1.amazonaws.com/a%20b/1?" + query)
    }

    @Test("the token of temporary credentials is in URLs and forms")
    func tokens() throws {
        let names: [(Vendor, String)] = [
            (.aws, "X-Amz-Security-Token"), (.aliyun, "x-oss-security-token"), (.tencent, "x-cos-security-token"),
        ]
        for (vendor, field) in names {
            let presigner = presigner(vendor, "https://store.example", token: "the+token")
            let signed = try presigner.request(.createMultipartUpload, name, under: grant, at: noon)
            #expect(signed.method == "POST")
            #expect(signed.url.contains("\(field)=the%2Btoken"))
            #expect(signed.url.contains("uploads="))
            let form = try presigner.form("media", .prefix("a/"), under: grant, at: noon)
            #expect(form.url == "https://media.store.example/")
            #expect(form.fields.first { $0.name == field.lowercased() }?.value == "the+token")
        }
    }
}
