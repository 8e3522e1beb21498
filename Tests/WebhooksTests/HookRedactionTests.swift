import Testing

@testable import Webhooks

@Suite("What hooks do not learn", .timeLimit(.minutes(10)))
struct HookRedactionTests {
    @Test(
        "the code of a link is left out",
        arguments: [
            ("1234567890123456-7.AAAAAAAAAAAAAAAAAAAAAA", "1234567890123456-7"),
            ("01jd3v0m5xq4n8e2r7t9w6y1zk.abcDEF0123-_abcDEF0123", "01jd3v0m5xq4n8e2r7t9w6y1zk"),
            ("a.b.AAAAAAAAAAAAAAAAAAAAA-", "a.b"), (".AAAAAAAAAAAAAAAAAAAAAA", ""), ("film.mp4", nil), ("", nil),
            ("a.AAAAAAAAAAAAAAAAAAAAA", nil), ("a.AAAAAAAAAAAAAAAAAAAAAAA", nil), ("a.AAAAAAAAAAAAAAAAAAAAA=", nil),
            ("AAAAAAAAAAAAAAAAAAAAAA", nil), ("a-AAAAAAAAAAAAAAAAAAAAAA", nil),
        ] as [(String, String?)]
    )
    func codes(_ segment: String, _ rest: String?) {
        #expect(HookRedaction.withoutCode(segment) == rest)
    }

    @Test(
        "signatures and tokens in a query have no value",
        arguments: [
            ("video_file_id=7&upgrade=true&signature=abc", "video_file_id=7&upgrade=true&signature="),
            (
                "X-Amz-Signature=0&X-Amz-Date=1&x-amz-security-token=2",
                "X-Amz-Signature=&X-Amz-Date=1&x-amz-security-token="
            ),
            (
                "Action=UploadMediaByURL&Signature=a%3D&SecurityToken=b",
                "Action=UploadMediaByURL&Signature=&SecurityToken="
            ),
            ("q-signature=a&q-ak=b&sign=c", "q-signature=&q-ak=b&sign="), ("x-oss-signature=a&a", "x-oss-signature=&a"),
            ("access_token=a&token=b=c&code=d&%74oken=e", "access_token=&token=&code=&%74oken="),
            ("a=1&&b=", "a=1&&b="), ("", ""), ("partNumber=1&uploadId=x", "partNumber=1&uploadId=x"),
            ("codec=h264&design=1", "codec=h264&design=1"),
        ]
    )
    func queries(_ query: String, _ redacted: String) {
        #expect(HookRedaction.query(query) == redacted)
    }
}
