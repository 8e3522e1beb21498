import Bytes
import Foundation
import HTTPWire
import Signing
import Testing
import UploadCore
import UploadModel
import XMLText

@testable import ObjectStore

@Suite("Documents in S3 requests", .timeLimit(.minutes(10)))
struct S3DocumentTests {
    private func completion(_ parts: String) throws(ObjectError) -> [CompletedPart] {
        try CompletedPart.list(document: Array("<CompleteMultipartUpload>\(parts)</CompleteMultipartUpload>".utf8))
    }

    @Test("lists of parts are read as SDKs write them")
    func parts() throws {
        let document = """
            <?xml version="1.0" encoding="UTF-8"?>
            <CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
              <Part><ETag>&quot;a54357aff0632cce46d942af68356b38&quot;</ETag><PartNumber>1</PartNumber></Part>
              <Part><PartNumber> 3 </PartNumber><ETag>"b-2"</ETag><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32></Part>
              <Part><PartNumber>10000</PartNumber><ETag>plain</ETag><ChecksumSHA256/></Part>
            </CompleteMultipartUpload>
            """
        let parts = try CompletedPart.list(document: Array(document.utf8))
        #expect(parts.map(\.number) == [1, 3, 10000])
        #expect(parts.map(\.entityTag) == ["a54357aff0632cce46d942af68356b38", "b-2", "plain"])
        #expect(parts.map(\.checksums) == [[:], [.crc32: [0xCB, 0xF4, 0x39, 0x26]], [:]])
    }

    @Test("10,000 parts with checksums fit, one more does not")
    func many() throws {
        func parts(_ count: Int) -> String {
            let checksum = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="
            return (1...count).map {
                "<Part><PartNumber>\($0)</PartNumber><ETag>&quot;a54357aff0632cce46d942af68356b38&quot;</ETag>"
                    + "<ChecksumSHA256>\(checksum)</ChecksumSHA256></Part>"
            }.joined()
        }
        #expect(try completion(parts(10_000)).count == 10_000)
        #expect(s3Code { () throws(ObjectError) in try completion(parts(10_001)) } == .malformedXML)
        let tiny = String(repeating: "<a/>", count: RequestDocuments.Limit.completion / 8)
        #expect(s3Code { () throws(ObjectError) in try completion(tiny) } == .malformedXML)
        let large = String(repeating: " ", count: RequestDocuments.Limit.completion)
        #expect(s3Code { () throws(ObjectError) in try completion(large) } == .maxMessageLengthExceeded)
    }

    @Test(
        "invalid lists of parts are refused",
        arguments: [
            ("", ObjectErrorCode.malformedXML), ("<Part/>", .malformedXML),
            ("<Part><PartNumber>1</PartNumber></Part>", .malformedXML),
            ("<Part><ETag>a</ETag></Part>", .malformedXML), ("<X/>", .malformedXML), ("<Part>", .malformedXML),
            ("<Part><PartNumber>x</PartNumber><ETag>a</ETag></Part>", .malformedXML),
            ("<Part><PartNumber>1</PartNumber><ETag> </ETag></Part>", .malformedXML),
            ("<Part><PartNumber>0</PartNumber><ETag>a</ETag></Part>", .invalidArgument),
            ("<Part><PartNumber>10001</PartNumber><ETag>a</ETag></Part>", .invalidArgument),
            ("<Part><PartNumber>1</PartNumber><ETag>a</ETag><ChecksumCRC32>AA==</ChecksumCRC32></Part>", .invalidPart),
            (
                "<Part><PartNumber>2</PartNumber><ETag>a</ETag></Part><Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>",
                .invalidPartOrder
            ),
            (
                "<Part><PartNumber>1</PartNumber><ETag>a</ETag></Part><Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>",
                .invalidPartOrder
            ),
        ] as [(String, ObjectErrorCode)]
    )
    func badParts(_ parts: String, _ code: ObjectErrorCode) {
        #expect(s3Code { () throws(ObjectError) in try completion(parts) } == code)
    }

    @Test(
        "text that is not a document, and unbounded documents, are refused",
        arguments: [
            "", " ", "x", "<Tagging>", "<Other><TagSet/></Other>", "<Tagging/>",
            "<Tagging><TagSet><X/></TagSet></Tagging>",
            "<!DOCTYPE Tagging [<!ENTITY a \"aaaa\">]><Tagging><TagSet/></Tagging>",
            "<?xml version=\"1.0\" encoding=\"UTF-16\"?><Tagging><TagSet/></Tagging>",
            "\u{0}<Tagging><TagSet/></Tagging>",
        ]
    )
    func malformed(_ text: String) {
        #expect(
            s3Code { () throws(ObjectError) in try ObjectTagging.tags(document: Array(text.utf8)) } == .malformedXML
        )
    }

    @Test("invalid UTF-8 is refused")
    func coding() {
        let bytes = Array("<Tagging><TagSet/>".utf8) + [0xFF] + Array("</Tagging>".utf8)
        #expect(s3Code { () throws(ObjectError) in try ObjectTagging.tags(document: bytes) } == .malformedXML)
    }

    @Test("keys to delete are read, each with its problem")
    func deletion() throws {
        let long = String(repeating: "a", count: 1025)
        let document = """
            <Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>
            <Object><Key> a&amp;&lt;b&gt;&#13;&#10; </Key></Object><Object><Key>v</Key><VersionId>1</VersionId></Object>
            <Object><Key>n</Key><VersionId>null</VersionId></Object><Object><Key></Key></Object>
            <Object><Key>\(long)</Key></Object><Object><Key>e</Key><ETag>"x"</ETag></Object><Object><Key>s</Key><Size>1</Size></Object></Delete>
            """
        let deletion = try ObjectDeletion(document: Array(document.utf8))
        #expect(deletion.isQuiet)
        #expect(deletion.entries.map(\.key) == [" a&<b>\r\n ", "v", "n", "", long, "e", "s"])
        #expect(
            deletion.entries.map(\.problem?.code)
                == [nil, .notImplemented, nil, .invalidArgument, .keyTooLong, nil, .notImplemented]
        )
        #expect(deletion.entries.compactMap(\.condition) == [.hasTag("x")])
        func delete(_ count: Int) throws(ObjectError) -> ObjectDeletion {
            let objects = String(repeating: "<Object><Key>a</Key></Object>", count: count)
            return try ObjectDeletion(document: Array("<Delete>\(objects)</Delete>".utf8))
        }
        #expect(try delete(1000).entries.count == 1000)
        for count in [0, 1001] {
            #expect(s3Code { () throws(ObjectError) in try delete(count) } == .malformedXML)
        }
        for text in ["<Object/>", "<X/>"] {
            let bytes = Array("<Delete>\(text)</Delete>".utf8)
            #expect(s3Code { () throws(ObjectError) in try ObjectDeletion(document: bytes) } == .malformedXML)
        }
    }

    /// Documents that are accepted, each by the name of what reads it.
    private static let documents: [(read: @Sendable ([UInt8]) throws(ObjectError) -> Void, text: String)] = [
        (
            { bytes throws(ObjectError) in _ = try CompletedPart.list(document: bytes) },
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>a</ETag>"
                + "<ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>"
        ),
        (
            { bytes throws(ObjectError) in _ = try ObjectDeletion(document: bytes) },
            "<Delete><Quiet>true</Quiet><Object><Key>a</Key><VersionId>null</VersionId><ETag>x</ETag></Object></Delete>"
        ),
        (
            { bytes throws(ObjectError) in _ = try ObjectTagging.tags(document: bytes) },
            "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
        ),
        (
            { bytes throws(ObjectError) in _ = try BucketCORS(document: bytes) },
            "<CORSConfiguration><CORSRule><ID>a</ID><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
                + "<AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>1</MaxAgeSeconds>"
                + "</CORSRule></CORSConfiguration>"
        ),
        (
            { bytes throws(ObjectError) in _ = try BucketLifecycle(document: bytes) },
            "<LifecycleConfiguration><Rule><ID>a</ID><Status>Enabled</Status><Filter><And><Prefix>p</Prefix>"
                + "<Tag><Key>k</Key><Value>v</Value></Tag><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></And></Filter>"
                + "<Expiration><Days>1</Days></Expiration><AbortIncompleteMultipartUpload>"
                + "<DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>"
                + "</LifecycleConfiguration>"
        ),
        (
            { bytes throws(ObjectError) in _ = try BucketDocuments.location(document: bytes) },
            "<CreateBucketConfiguration><LocationConstraint>a</LocationConstraint><StorageClass>Standard</StorageClass>"
                + "</CreateBucketConfiguration>"
        ),
    ]

    /// Those that may occur several times; a rule, a key or a part itself may be refused for another reason then.
    private static let severalTimes: Set = [
        "Part", "Object", "Tag", "CORSRule", "AllowedOrigin", "AllowedMethod", "AllowedHeader", "ExposeHeader", "Rule",
    ]

    @Test("an element that may occur once does not occur twice, and its name is compared by its bytes")
    func once() throws {
        var checked = 0
        for (read, text) in Self.documents {
            #expect(throws: Never.self) { try read(Array(text.utf8)) }
            for name in Set(text.matches(of: /<([A-Za-z0-9]+)>/).map { String($0.1) }) {
                let whole = try Regex("<\(name)>.*</\(name)>")
                guard !Self.severalTimes.contains(name), let range = text.firstRange(of: whole) else { continue }
                checked += 1
                let element = String(text[range])
                let twice = text.replacingCharacters(in: range, with: element + element)
                let code = s3Code { () throws(ObjectError) in try read(Array(twice.utf8)) }
                #expect(code == .malformedXML, "\(name) in \(text)")
            }
            // A kelvin sign, or an accent, makes another name.
            let names = ["Key", "ETag", "AllowedOrigin", "LocationConstraint"].filter { text.contains("<\($0)>") }
            let name = try #require(names.first)
            let other = name == "Key" ? "\u{212A}ey" : name + "\u{301}"
            let changed = text.replacing("\(name)>", with: "\(other)>")
            #expect(changed.contains(other))
            #expect(s3Code { () throws(ObjectError) in try read(Array(changed.utf8)) } == .malformedXML, "\(changed)")
        }
        #expect(checked > 30)
    }

    @Test("a value has no elements, and what consists of elements has no text")
    func structure() throws {
        var checked = 0
        for (read, text) in Self.documents {
            func code(_ changed: String) -> ObjectErrorCode? {
                s3Code { () throws(ObjectError) in try read(Array(changed.utf8)) }
            }
            #expect(code(text.replacing("><", with: ">\r\n\t <")) == nil, "\(text)")
            for match in text.matches(of: />([^<]+)</) {
                checked += 1
                let value = String(match.1)
                for other in ["<b/>", "<b>\(value)</b>", "\(value)<b/>", "<Key>\(value)</Key>\(value)"] {
                    let changed = text.replacingCharacters(in: match.range, with: ">\(other)<")
                    #expect(code(changed) == .malformedXML, "\(changed)")
                }
            }
            for match in text.matches(of: /><(?!\/)/) {
                checked += 1
                let changed = text.replacingCharacters(in: match.range, with: ">a<")
                #expect(code(changed) == .malformedXML, "\(changed)")
            }
        }
        #expect(checked > 60)
    }

    @Test("what could be a condition of a deletion, or part of a tag, is not ignored")
    func unknownMembers() {
        let deletion = Array("<Delete><Object><Key>a</Key><Etag>x</Etag></Object></Delete>".utf8)
        #expect(s3Code { () throws(ObjectError) in try ObjectDeletion(document: deletion) } == .malformedXML)
        let tag = "<Tag><Key>a</Key><Value>b</Value></Tag>"
        for text in [
            "<TagSet><Tag><Key>a</Key><Value>b</Value><X>c</X></Tag></TagSet>", "<TagSet>\(tag)</TagSet><X/>",
        ] {
            let tagging = Array("<Tagging>\(text)</Tagging>".utf8)
            #expect(s3Code { () throws(ObjectError) in try ObjectTagging.tags(document: tagging) } == .malformedXML)
        }
    }

    @Test("what two elements of a lifecycle rule would say together is said once")
    func lifecycleTwice() {
        func code(_ rest: String) -> ObjectErrorCode? {
            let rule = "<Rule><Status>Enabled</Status>\(rest)</Rule>"
            let document = Array("<LifecycleConfiguration>\(rule)</LifecycleConfiguration>".utf8)
            return s3Code { () throws(ObjectError) in try BucketLifecycle(document: document) }
        }
        let tag = "<Tag><Key>k</Key><Value>v</Value></Tag>"
        let expiration = "<Expiration><Days>1</Days></Expiration>"
        #expect(code("<Filter><And>\(tag)<Prefix>a</Prefix></And></Filter>\(expiration)") == nil)
        for filter in [
            "<Filter><And>\(tag)</And><Prefix>a</Prefix></Filter>",
            "<Prefix>a</Prefix><Filter><Prefix>b</Prefix></Filter>",
            "<Filter><Prefix>a</Prefix></Filter><Filter><Prefix>b</Prefix></Filter>",
        ] {
            #expect(code(filter + expiration) == .malformedXML, "\(filter)")
        }
        #expect(code("<Filter><And>\(tag)\(tag)</And></Filter>\(expiration)") == .invalidRequest)
        #expect(code("<Expiration><Days>1</Days><Date>2026-01-02T00:00:00Z</Date></Expiration>") == .malformedXML)
        let aborts = ["Incomplete": "DaysAfterInitiation", "": "Days"].map { name, days in
            "<Abort\(name)MultipartUpload><\(days)>1</\(days)></Abort\(name)MultipartUpload>"
        }
        #expect(code(aborts.joined()) == .malformedXML && code(aborts[0]) == nil)
        let ids = ["\u{E9}", "e\u{301}"].map { "<Rule><ID>\($0)</ID><Status>Enabled</Status>\(expiration)</Rule>" }
        for (list, expected) in [(ids, nil), ([ids[0], ids[0]], ObjectErrorCode.invalidArgument)] {
            let document = Array("<LifecycleConfiguration>\(list.joined())</LifecycleConfiguration>".utf8)
            #expect(s3Code { () throws(ObjectError) in try BucketLifecycle(document: document) } == expected)
        }
    }

    @Test("a checksum that cannot be checked is refused")
    func otherChecksums() throws {
        let part = try #require(
            try completion(
                "<Part><PartNumber>7</PartNumber><ETag>a</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part>"
            )
            .first
        )
        #expect(try part.checksum(by: .crc32) == [0, 0, 0, 0])
        #expect(s3Code { () throws(ObjectError) in try part.checksum(by: .sha256) } == .badDigest)
        #expect(s3Code { () throws(ObjectError) in try part.checksum(by: nil) } == .invalidPart)
        let bare = try #require(try completion("<Part><PartNumber>7</PartNumber><ETag>a</ETag></Part>").first)
        for algorithm in [nil, ObjectChecksum.Algorithm.sha1] { #expect(try bare.checksum(by: algorithm) == nil) }
    }

    @Test("tags")
    func tags() throws {
        let tags = ["k 1": "v+-=._:/@", "日 हिन्दी é e\u{301} ٣": ""]
        #expect(try ObjectTagging.tags(document: ObjectTagging.document(tags)) == tags)
        #expect(try ObjectTagging.tags(document: ObjectTagging.document([:])) == [:])
        #expect(try ObjectTagging.tags(header: "k%201=v%2B-=._:/@&%E6%97%A5=") == ["k 1": "v+-=._:/@", "日": ""])
        #expect(try ObjectTagging.tags(header: "") == [:])
        #expect(s3Code { () throws(ObjectError) in try ObjectTagging.tags(header: "a=%zz") } == .invalidArgument)
        // As at Amazon, beside other errors than in a document.
        for text in ["a=1&a=2", "a&a"] {
            let code = s3Code { () throws(ObjectError) in try ObjectTagging.tags(header: text) }
            #expect(code == .invalidArgument, "\(text)")
        }
        let twice = Array(
            "<Tagging><TagSet>\(String(repeating: "<Tag><Key>a</Key><Value/></Tag>", count: 2))</TagSet></Tagging>".utf8
        )
        #expect(s3Code { () throws(ObjectError) in try ObjectTagging.tags(document: twice) } == .invalidTag)
        for sign in ["&", "<", "!", "*", "#", "%", "\\", "\u{9}", "\u{7F}", "\u{2028}", "\u{200B}", "€", "😀", "，"] {
            for text in ["k\(PercentEncoding.encode(sign))=1", "k=v\(PercentEncoding.encode(sign))"] {
                let code = s3Code { () throws(ObjectError) in try ObjectTagging.tags(header: text) }
                #expect(code == .invalidTag, "\(text)")
            }
        }
        let eleven = (0...10).map { "k\($0)=1" }.joined(separator: "&")
        #expect(
            s3Code { () throws(ObjectError) in try ObjectTagging.tags(header: eleven, for: .aliyun) } == .badRequest
        )
        for text in [
            "=1", "aws:x=1", "\(String(repeating: "k", count: 129))=1",
            "k=\(String(repeating: "v", count: 257))",
            (0...10).map { "k\($0)=1" }.joined(separator: "&"),
        ] {
            #expect(s3Code { () throws(ObjectError) in try ObjectTagging.tags(header: text) } == .invalidTag, "\(text)")
        }
    }

    @Test("the location of a new bucket is read")
    func creation() throws {
        func location(_ text: String) throws(ObjectError) -> String? {
            try BucketDocuments.location(document: Array(text.utf8))
        }
        #expect(try location("") == nil)
        #expect(try location("<CreateBucketConfiguration/>") == nil)
        for own in [
            "<StorageClass>Standard</StorageClass>",
            "<StorageClass>Standard</StorageClass><DataRedundancyType>LRS</DataRedundancyType>",
        ] {
            #expect(try location("<CreateBucketConfiguration>\(own)</CreateBucketConfiguration>") == nil)
        }
        for other in [
            "<StorageClass>IA</StorageClass>", "<StorageClass/>", "<DataRedundancyType>ZRS</DataRedundancyType>",
            "<BucketAZConfig>MAZ</BucketAZConfig>", "<BucketArchConfig>OFS</BucketArchConfig>",
        ] {
            #expect(
                s3Code { () throws(ObjectError) in
                    try location("<CreateBucketConfiguration>\(other)</CreateBucketConfiguration>")
                } == .notImplemented,
                "\(other)"
            )
        }
        let place = "<LocationConstraint>eu-west-1</LocationConstraint>"
        #expect(try location("<CreateBucketConfiguration>\(place)</CreateBucketConfiguration>") == "eu-west-1")
        #expect(
            s3Code { () throws(ObjectError) in
                try location("<CreateBucketConfiguration><Tags/></CreateBucketConfiguration>")
            }
                == .notImplemented
        )
        #expect(
            s3Code { () throws(ObjectError) in
                try location("<CreateBucketConfiguration><X/></CreateBucketConfiguration>")
            }
                == .malformedXML
        )
    }

    @Test("the age at which something ends")
    func age() {
        let day: TimeInterval = 86_400
        // 1970-01-11T06:00:00Z
        let created = Date(timeIntervalSince1970: 10 * day + 6 * 3600)
        for (age, due) in [
            (BucketLifecycle.Age.days(3), 14 * day), (.date(Date(timeIntervalSince1970: 20 * day)), 20 * day),
        ] {
            #expect(!age.isOver(created, at: Date(timeIntervalSince1970: due - 1)))
            #expect(age.isOver(created, at: Date(timeIntervalSince1970: due)))
        }
        let midnight = Date(timeIntervalSince1970: 0)
        #expect(BucketLifecycle.Age.days(1).isOver(midnight, at: midnight + day))
        #expect(BucketLifecycle.Age.createdBefore(created + 1).isOver(created, at: created))
        #expect(!BucketLifecycle.Age.createdBefore(created).isOver(created, at: created + 100 * day))
    }

    @Test("lifecycle rules")
    func lifecycle() throws {
        func rules(_ text: String) throws(ObjectError) -> [BucketLifecycle.Rule] {
            try BucketLifecycle(document: Array("<LifecycleConfiguration>\(text)</LifecycleConfiguration>".utf8)).rules
        }
        let abort =
            "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
        let found = try rules(
            "<Rule><ID>a</ID><Filter><Prefix>never/</Prefix></Filter><Status>Enabled</Status>\(abort)</Rule>"
                + "<Rule><Filter><And><Prefix>x</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>"
                + "<Status>Disabled</Status><Expiration><Days>1</Days></Expiration></Rule>"
        )
        #expect(
            found == [
                BucketLifecycle.Rule(id: "a", filter: BucketLifecycle.Filter(prefix: "never/"), abort: .days(1)),
                BucketLifecycle.Rule(
                    isEnabled: false,
                    filter: BucketLifecycle.Filter(prefix: "x", tags: ["k": "v"]),
                    expiration: .days(1)
                ),
            ]
        )
        let sizes =
            "<Filter><And><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan>"
            + "<ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter>"
        #expect(
            try rules(
                "<Rule>\(sizes)<Status>Enabled</Status><Expiration><Date>2026-01-02T00:00:00.000Z</Date></Expiration></Rule>"
                    + "<Rule><Prefix>p</Prefix><Tag><Key>k</Key><Value>v</Value></Tag><Status>Enabled</Status>"
                    + "<Expiration><CreatedBeforeDate>2026-01-02T00:00:00Z</CreatedBeforeDate></Expiration>"
                    + "<AbortMultipartUpload><Days>3</Days></AbortMultipartUpload></Rule>"
                    + "<Rule><Status>Enabled</Status><Expiration>"
                    + "<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>"
            ) == [
                BucketLifecycle.Rule(
                    filter: BucketLifecycle.Filter(largerThan: 5, smallerThan: 9),
                    expiration: .date(Date(timeIntervalSince1970: 1_767_312_000))
                ),
                BucketLifecycle.Rule(
                    filter: BucketLifecycle.Filter(prefix: "p", tags: ["k": "v"]),
                    expiration: .createdBefore(Date(timeIntervalSince1970: 1_767_312_000)),
                    abort: .days(3)
                ),
                BucketLifecycle.Rule(),
            ]
        )
        let expiration = "<Expiration><Days>1</Days></Expiration>"
        for (text, code) in [
            ("", ObjectErrorCode.malformedXML), ("<Rule/>", .malformedXML), ("<X/>", .malformedXML),
            ("<Rule><Status>On</Status>\(abort)</Rule>", .malformedXML),
            ("<Rule><Status>Enabled</Status></Rule>", .invalidRequest),
            ("<Rule><Status>Enabled</Status>\(abort)<X/></Rule>", .malformedXML),
            ("<Rule><Status>Enabled</Status>\(abort.replacing(">1<", with: ">0<"))</Rule>", .invalidArgument),
            ("<Rule><Status>Enabled</Status>\(abort.replacing(">1<", with: ">x<"))</Rule>", .malformedXML),
            ("<Rule><Status>Enabled</Status><AbortIncompleteMultipartUpload/></Rule>", .malformedXML),
            ("<Rule><Status>Enabled</Status><Expiration/></Rule>", .malformedXML),
            ("<Rule><Status>Enabled</Status><Expiration><Date>soon</Date></Expiration></Rule>", .malformedXML),
            (
                "<Rule><Status>Enabled</Status><Expiration><Date>2026-01-02T01:00:00Z</Date></Expiration></Rule>",
                .invalidArgument
            ),
            (
                "<Rule><Filter><Not><Prefix>a</Prefix></Not></Filter><Status>Enabled</Status>\(expiration)</Rule>",
                .notImplemented
            ),
            (
                "<Rule><Filter><Tag><Key>k</Key></Tag></Filter><Status>Enabled</Status>\(expiration)</Rule>",
                .malformedXML
            ),
            (String(repeating: "<Rule><ID>a</ID><Status>Enabled</Status>\(abort)</Rule>", count: 2), .invalidArgument),
        ] {
            #expect(s3Code { () throws(ObjectError) in try rules(text) } == code, "\(text)")
        }
    }
}

@Suite("Cross-origin rules of buckets", .timeLimit(.minutes(10)))
struct BucketCORSTests {
    private func cors(_ rules: String) throws(ObjectError) -> BucketCORS {
        try BucketCORS(document: Array("<CORSConfiguration>\(rules)</CORSConfiguration>".utf8))
    }

    private let document = """
        <CORSRule><AllowedOrigin>https://app.example</AllowedOrigin><AllowedOrigin>https://*.app.example</AllowedOrigin>
        <AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod><AllowedHeader>*</AllowedHeader>
        <ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>60</MaxAgeSeconds></CORSRule>
        <CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>
        <AllowedHeader>x-a*</AllowedHeader></CORSRule>
        """

    private func preflight(_ origin: String?, _ method: String?, _ headers: String? = nil) throws -> RequestHead {
        var fields = HTTPFields()
        fields["Origin"] = origin
        fields["Access-Control-Request-Method"] = method
        fields["Access-Control-Request-Headers"] = headers
        return try s3Head("OPTIONS", "/bucket-1/a", fields)
    }

    @Test("rules for some origins let their pages send anything, and expose the fields that clients read")
    func origins() throws {
        for (list, expected) in [(["*"], "*"), (["https://a.example", "https://app.example"], "https://app.example")] {
            let rules = BucketCORS(origins: list)
            for method in ["GET", "HEAD", "PUT", "POST", "DELETE"] {
                let response = try BucketCORS.preflight(
                    try preflight("https://app.example", method, "x-any, content-type"),
                    rules
                )
                #expect(response.fields["Access-Control-Allow-Origin"] == expected)
                #expect(response.fields["Access-Control-Allow-Headers"] == "x-any, content-type")
                let exposed = response.fields.list("Access-Control-Expose-Headers")
                #expect(Set(["ETag", "Location", "Date", "x-oss-hash-crc64ecma"]).isSubset(of: exposed))
            }
        }
        let others = BucketCORS(origins: ["https://a.example"])
        let head = try preflight("https://a.example.org", "PUT", "x-any")
        #expect(s3Code { () throws(ObjectError) in try BucketCORS.preflight(head, others) } == .accessForbidden)
    }

    @Test("the first rule that allows a preflight decides the response")
    func preflights() throws {
        let rules = try cors(document)
        for origin in ["https://app.example", "https://x.app.example"] {
            let response = try BucketCORS.preflight(try preflight(origin, "PUT", "Content-Type, X-B"), rules)
            #expect(response.status == 200)
            #expect(response.fields["Access-Control-Allow-Origin"] == origin)
            #expect(response.fields["Access-Control-Allow-Methods"] == "PUT, GET")
            #expect(response.fields["Access-Control-Allow-Headers"] == "content-type, x-b")
            #expect(response.fields["Access-Control-Expose-Headers"] == "ETag")
            #expect(response.fields["Access-Control-Max-Age"] == "60")
            #expect(response.fields["Vary"]?.contains("Origin") == true)
        }
        let other = try BucketCORS.preflight(try preflight("https://other.example", "GET", "X-Abc"), rules)
        #expect(other.fields["Access-Control-Allow-Origin"] == "*" && other.fields["Access-Control-Max-Age"] == nil)
        for (origin, method, headers) in [
            ("https://other.example", "PUT", nil), ("https://other.example", "GET", "x-b"),
            ("https://app.example", "DELETE", nil), ("http://app.example", "PUT", nil),
        ] as [(String, String, String?)] {
            let head = try preflight(origin, method, headers)
            #expect(s3Code { () throws(ObjectError) in try BucketCORS.preflight(head, rules) } == .accessForbidden)
            #expect(s3Code { () throws(ObjectError) in try BucketCORS.preflight(head, nil) } == .accessForbidden)
        }
        for head in [try preflight(nil, "PUT"), try preflight("https://app.example", nil)] {
            #expect(s3Code { () throws(ObjectError) in try BucketCORS.preflight(head, rules) } == .invalidRequest)
        }
    }

    @Test("responses list the fields that pages may read")
    func responses() throws {
        let rules = try cors(document)
        var fields = HTTPFields()
        rules.decorate(&fields, for: try s3Head("PUT", "/bucket-1/a", ["Origin": "https://app.example"]))
        #expect(fields["Access-Control-Allow-Origin"] == "https://app.example")
        #expect(fields["Access-Control-Expose-Headers"] == "ETag")
        fields = HTTPFields()
        rules.decorate(&fields, for: try s3Head("PUT", "/bucket-1/a", ["Origin": "https://other.example"]))
        #expect(fields["Access-Control-Allow-Origin"] == nil && fields["Vary"] != nil)
        fields = HTTPFields()
        rules.decorate(&fields, for: try s3Head("PUT", "/bucket-1/a"))
        #expect(fields.isEmpty)
    }

    @Test(
        "invalid rules are refused",
        arguments: [
            ("", ObjectErrorCode.malformedXML), ("<X/>", .malformedXML), ("<CORSRule/>", .malformedXML),
            ("<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>", .malformedXML),
            ("<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>", .malformedXML),
            (
                "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>PATCH</AllowedMethod></CORSRule>",
                .invalidRequest
            ),
            (
                "<CORSRule><AllowedOrigin>*.*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>",
                .invalidRequest
            ),
            (
                "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><MaxAgeSeconds>x</MaxAgeSeconds></CORSRule>",
                .malformedXML
            ),
            (
                "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><ExposeHeader>a b</ExposeHeader></CORSRule>",
                .invalidRequest
            ),
        ] as [(String, ObjectErrorCode)]
    )
    func refused(_ rules: String, _ code: ObjectErrorCode) {
        #expect(s3Code { () throws(ObjectError) in try cors(rules) } == code)
    }
}
