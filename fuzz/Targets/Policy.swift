// Session policies and policies of forms, of all vendors: a denial of everything denies everything, a second
// matcher agrees, and requests that a form's policy does not allow are refused.

internal import Bytes
internal import Foundation
internal import Signing

#if !FUZZING
// Compiled together with the target when it fuzzes.
@testable internal import ObjectGrants
internal import UploadCore
import UploadModel
#endif

private let accesses = ObjectAction.allCases.map {
    ObjectAccess($0, bucket: "bucket-1250000000", key: "a/b", contentLength: 5, contentType: "text/plain")
}

func fuzzPolicy(_ bytes: [UInt8]) {
    let json = text(bytes)
    for vendor in Vendor.allCases {
        checkSession(json, vendor)
        checkForm(bytes, vendor)
    }
    let halves = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 1, omittingEmptySubsequences: false)
    if halves.count == 2, bytes.count <= 64 { checkPattern(text(halves[0]), text(halves[1])) }
}

private func checkSession(_ json: String, _ vendor: Vendor) {
    let policy: SessionPolicy
    do throws(PolicyProblem) { policy = try SessionPolicy(json, vendor: vendor) } catch {
        return expect(!error.message.isEmpty, "no reason")
    }
    for access in accesses {
        let allowed = policy.allows(access)
        // Statements can only add up: without one that allows, nothing is.
        if policy.statements.allSatisfy({ $0.effect == .deny }) { expect(!allowed, "\(json) allows \(access)") }
    }
    let all = SessionPolicy.Statement(
        effect: .deny,
        actions: Set(ObjectAction.allCases),
        resources: [WildcardPattern("*")],
        conditions: []
    )
    let denying = SessionPolicy(vendor: vendor, statements: policy.statements + [all])
    for access in accesses { expect(!denying.allows(access), "\(json) allows although all is denied") }
}

private func checkForm(_ json: [UInt8], _ vendor: Vendor) {
    let policy: PostPolicy
    do throws(PostPolicyProblem) {
        policy = try PostPolicy(base64: Base64.encode(json), vendor: vendor)
    } catch {
        return expect(!error.message.isEmpty, "no reason")
    }
    if let lengths = policy.contentLengths {
        expect(lengths.lowerBound >= 0, "a negative size")
        if lengths.upperBound < Int64.max {
            expect((try? policy.check(length: lengths.upperBound + 1, isComplete: false)) == nil, "too large")
        }
        if lengths.lowerBound > 0 {
            expect((try? policy.check(length: lengths.lowerBound - 1, isComplete: true)) == nil, "too small")
        }
    }
    guard let form = try? PostForm([("key", "a/${filename}"), ("x-ignore-a", "1")], fileName: "c\\b", vendor: vendor)
    else { return expect(false, "the form is refused") }
    expectEqual(form["KEY"], "a/b", "key")
    let expired: Void? = try? policy.check(form, bucket: "bucket", at: policy.expiresAt)
    expect(expired == nil, "an expired policy")
    guard (try? policy.check(form, bucket: "bucket", at: Date(timeIntervalSince1970: 0))) != nil else { return }
    // It is in force and allows this form: another bucket or key it allows only if it does not name them.
    for rule in policy.rules {
        if rule.field == "bucket", case .equal(let name) = rule.condition { expectEqual(name, "bucket", "bucket") }
        if rule.field == "key", case .startsWith(let prefix) = rule.condition {
            expect("a/b".utf8.starts(with: prefix.utf8), "a key that does not begin with \(prefix)")
        }
    }
}

/// The definition, with all ways tried.
private func checkPattern(_ pattern: String, _ subject: String) {
    let (pattern, subject) = (Array(pattern.unicodeScalars), Array(subject.unicodeScalars))
    var fits = [Bool](repeating: false, count: subject.count + 1)
    fits[0] = true
    for scalar in pattern {
        var next = [Bool](repeating: false, count: subject.count + 1)
        for index in 0...subject.count {
            if scalar == "*" {
                next[index] = fits[index] || (index > 0 && next[index - 1])
            } else if index > 0 {
                next[index] = fits[index - 1] && (scalar == "?" || scalar == subject[index - 1])
            }
        }
        fits = next
    }
    let given = String(String.UnicodeScalarView(pattern))
    let found = WildcardPattern(given).matches(String(String.UnicodeScalarView(subject)))
    expectEqual(found, fits[subject.count], "\(pattern) and \(subject)")
}
