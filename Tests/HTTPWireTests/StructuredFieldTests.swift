import HTTPWire
import Testing

@Suite("Structured fields", .timeLimit(.minutes(10)))
struct StructuredFieldTests {
    @Test(
        "items are parsed",
        arguments: [
            ("5", .integer(5)), ("  -0 ", .integer(0)), ("999999999999999", .integer(999_999_999_999_999)),
            ("-12;q=1;b", .integer(-12)), ("?1", .boolean(true)), ("?0; a=?1", .boolean(false)),
            (":AQI=:", .bytes([1, 2])),
            ("::", .bytes([])), ("\"a \\\" b\"", .other), ("a/b:c", .other), ("1.5", .other), ("@1659578233", .other),
        ] as [(String, StructuredField)]
    )
    func items(text: String, value: StructuredField) {
        #expect(StructuredField.item(text) == value)
    }

    @Test(
        "text that is not an item is refused",
        arguments: [
            "", " ", "5,", "5 6", "5, 6", "1234567890123456", "--1", "-", "1.", "1.2345", "?", "?2", "?true", ":AQ",
            ":A:", "\"a", "\"\\a\"", "\"\u{1}\"", "5;", "5;A=1", "5;a=", "\t5", "(1 2)", "=",
        ]
    )
    func noItems(text: String) {
        #expect(StructuredField.item(text) == nil)
    }

    @Test("dictionaries are parsed, and the last value of a repeated key counts")
    func dictionaries() {
        #expect(StructuredField.dictionary("") == [:])
        #expect(
            StructuredField.dictionary("max-size=5,min-size=0 , a;x=1,\t*b=(1 2);c, sha-256=:AQI=:, a=2")
                == [
                    "max-size": .integer(5), "min-size": .integer(0), "*b": .other, "sha-256": .bytes([1, 2]),
                    "a": .integer(2),
                ]
        )
    }

    @Test(
        "text that is not a dictionary is refused",
        arguments: ["a=", "a,", ",a", "A=1", "a=1 b=2", "a==1", "a=(1", "a=(1,2)", "1=a"]
    )
    func noDictionaries(text: String) {
        #expect(StructuredField.dictionary(text) == nil)
    }

    @Test("values are written")
    func texts() {
        #expect(StructuredField.text(true) == "?1")
        #expect(StructuredField.text(false) == "?0")
        #expect(StructuredField.text([1, 2]) == ":AQI=:")
    }
}

@Suite("File names in Content-Disposition", .timeLimit(.minutes(10)))
struct ContentDispositionReadingTests {
    @Test(
        "the file name of a field is decoded",
        arguments: [
            ("attachment; filename=\"a b.mp4\"", "a b.mp4"), ("inline;filename=a.mp4", "a.mp4"),
            ("form-data; name=x; FILENAME=\"q\\\"uote;.txt\"", "q\"uote;.txt"),
            ("attachment; filename=\"plain\"; filename*=UTF-8''%C3%9Cbung.mp4", "Übung.mp4"),
            ("attachment; filename*=utf-8'de'a%20b; filename=c", "a b"),
            ("attachment; filename=\"../../etc/passwd\"", "passwd"),
            ("attachment; filename=\"C:\\\\dir\\\\a.txt\"", "a.txt"),
            ("attachment; filename*=ISO-8859-1''%FC; filename=plain", "plain"), ("attachment", nil),
            ("attachment; filename=\"\"", nil), ("attachment; filename=\"/\"", nil),
            ("attachment; filename*=UTF-8''%FF", nil), ("filename=a", nil), ("", nil),
        ] as [(String, String?)]
    )
    func names(field: String, name: String?) {
        #expect(ContentDisposition.fileName(in: field) == name)
    }

    @Test(
        "all file names of a field are found, or it is said that there may be others",
        arguments: [
            ("attachment", []), ("", []), ("inline; size=1", []), ("attachment; filename=\"\"", []),
            ("attachment; filename=a.png", ["a.png"]), ("attachment; FileName=\"x; y\\\"/a.png\"", ["a.png"]),
            ("attachment; filename=a.png; filename*=UTF-8''b%2Eexe", ["a.png", "b.exe"]),
            ("attachment; filename*=UTF-8''a.png; filename=b.exe", ["a.png", "b.exe"]),
            ("attachment; filename=a.png; filename=b.exe", ["a.png", "b.exe"]),
            ("attachment; filename*=iso-8859-1'de'%FC.exe", ["ü.exe"]),
            // Which name clients find here differs.
            ("filename=a.exe", nil), ("attachment, filename=a.exe", nil), ("attachment filename=a.exe", nil),
            ("attachment; filename=a b.exe", nil), ("attachment; filename =a.exe", nil), ("attachment; filename=", nil),
            ("attachment; filename=\"a.exe", nil), ("attachment; filename=\"a.png\", x; filename=b.exe", nil),
            ("attachment; filename*=UTF-16''a.exe", nil), ("attachment; filename*=a.exe", nil),
            ("attachment; filename*0=a; filename*1=.exe", nil), ("attachment; filename*0*=UTF-8''a.exe", nil),
            ("attachment; x y; filename=a.png", nil), ("attachment; filename=a.png, attachment; filename=b.exe", nil),
            ("attachment; filename='a.exe", ["'a.exe"]), ("a b", []),
        ] as [(String, [String]?)]
    )
    func allNames(field: String, names: [String]?) {
        #expect(ContentDisposition.fileNames(in: field) == names)
    }

    @Test("written names are decoded again", arguments: ["a.mp4", "Übung \"1\".mp4", "100 %.txt"])
    func roundTrip(name: String) {
        #expect(ContentDisposition.fileName(in: ContentDisposition.attachment(fileName: name)) == name)
        #expect(ContentDisposition.fileNames(in: ContentDisposition.attachment(fileName: name))?.last == name)
    }
}
