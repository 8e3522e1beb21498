import HTTPWire

@testable import ObjectAPI

/// A request without anything of a signature.
func s3Head(_ method: String, _ target: String, _ fields: HTTPFields = [:]) throws -> RequestHead {
    let method = HTTPMethod(rawValue: method)
    var fields = fields
    if !fields.contains("Host") { fields.append("Host", "s3.example.org") }
    return RequestHead(method: method, target: try RequestTarget(parsing: target, method: method), fields: fields)
}

/// The code of the error that `work` throws; `nil` if it throws none.
func s3Code<Success>(_ work: () throws(S3Error) -> Success) -> S3ErrorCode? {
    do throws(S3Error) {
        _ = try work()
        return nil
    } catch {
        return error.code
    }
}
