import Bytes
import Foundation
import HTTPWire
import Testing
import UploadModel

@testable import RESTKit

@Suite("problem documents", .timeLimit(.minutes(10)))
struct ProblemTests {
    @Test("a problem has the members of RFC 9457 and the stable code")
    func document() throws {
        let problem = Problem.invalidFields([.init(field: "expiresIn", message: "must be an integer from 1 to 60")])
        let response = problem.response(requestID: "r-1")
        #expect(response.status == 422)
        #expect(response.fields["Content-Type"] == "application/problem+json")
        guard case .bytes(let bytes) = response.content else {
            Issue.record("no content")
            return
        }
        let members = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        #expect(members["status"] as? Int == 422)
        #expect(members["title"] as? String == "Unprocessable Content")
        #expect(members["code"] as? String == "invalid_field")
        #expect(members["requestId"] as? String == "r-1")
        #expect(members["detail"] as? String == "expiresIn: must be an integer from 1 to 60")
        #expect((members["errors"] as? [[String: String]])?.first?["field"] == "expiresIn")
    }

    @Test(
        "a domain error keeps its message and gets the status of its kind",
        arguments: [
            (UploadError.Code.unauthenticated, 401, "unauthenticated"), (.forbidden(scope: "mint"), 403, "forbidden"),
            (.notFound, 404, "not_found"), (.gone, 410, "gone"), (.storageFull, 507, "storage_full"),
            (.busy, 423, "busy"), (.unavailable, 503, "unavailable"), (.tooLarge(limit: 5), 413, "content_too_large"),
        ]
    )
    func mapping(code: UploadError.Code, status: Int, text: String) {
        let problem = RESTErrors.problem(UploadError(code, "change this"))
        #expect(problem.status.code == status)
        #expect(problem.code == text)
        #expect(problem.detail == "change this")
        #expect((problem.fields["WWW-Authenticate"] != nil) == (status == 401 || status == 403))
    }

    @Test("of many wrong fields the first are named, and long names from clients are truncated")
    func manyFields() throws {
        let name = String(repeating: "日", count: 50_000)
        let problem = Problem.invalidFields(
            (0..<5000).map { .init(field: "\($0)\(name)", message: "is unknown") }
        )
        #expect(problem.errors.count == Problem.maximumErrors)
        #expect(problem.errors.first?.field == String("0\(name)".prefix(64)) + "…")
        #expect(problem.detail.hasSuffix("; and 4990 more"))
        guard case .bytes(let bytes) = problem.response(requestID: "r-1").content else {
            Issue.record("no content")
            return
        }
        #expect(bytes.count < 10_000)
        let few = Problem.invalidFields((0..<10).map { .init(field: "\($0)", message: "is unknown") })
        #expect(few.errors.count == 10)
        #expect(!few.detail.contains("more"))
    }

    @Test("timestamps are RFC 3339 with milliseconds")
    func timestamp() {
        #expect(JSONResponse.timestamp(Date(timeIntervalSince1970: 1_700_000_000.25)) == "2023-11-14T22:13:20.250Z")
    }
}
