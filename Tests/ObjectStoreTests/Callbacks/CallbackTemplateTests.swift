import Testing

@testable import ObjectStore

@Suite("Callback templates", .timeLimit(.minutes(10)))
struct CallbackTemplateTests {
    private static let values: [CallbackVariable: CallbackValue] = [
        .bucket: .text("media-1"), .object: .text("a b/ü&=\"x\\.mp4"), .size: .number(5), .mimeType: .text("video/mp4"),
        .imageWidth: .number(800), .imageFormat: .text(""), .custom("x:user"): .text("44"),
        .custom("x:a-b"): .text("+%"),
    ]

    private func content(_ text: String, _ format: CallbackTemplate.Format) throws -> String {
        let template = try CallbackTemplate(text, format)
        return String(decoding: template.content { Self.values[$0] ?? .nothing }, as: UTF8.self)
    }

    @Test(
        "in a form values are percent-encoded, and the rest is unchanged",
        arguments: [
            ("bucket=${bucket}&object=${object}", "bucket=media-1&object=a%20b%2F%C3%BC%26%3D%22x%5C.mp4"),
            ("${size}${size}", "55"), ("type=${mimeType}&u=${x:user}", "type=video%2Fmp4&u=44"), ("é {} }", "é {} }"),
            ("v=${x:A-b}", "v=%2B%25"), ("w=${imageInfo.width}&h=${imageInfo.height}", "w=800&h="),
        ]
    )
    func form(_ template: String, _ expected: String) throws {
        #expect(try content(template, .form) == expected)
    }

    @Test(
        "in JSON variables are values, or parts of strings within quotation marks",
        arguments: [
            (#"{"m":${mimeType},"size":${size}}"#, #"{"m":"video/mp4","size":5}"#),
            (#"{"o":${object}}"#, #"{"o":"a b/ü&=\"x\\.mp4"}"#),
            (#"{"o":"/${bucket}/${object}"}"#, #"{"o":"/media-1/a b/ü&=\"x\\.mp4"}"#),
            (#"{"pic":"${imageInfo.width},${imageInfo.height}"}"#, #"{"pic":"800,"}"#),
            (
                #"{"w":${imageInfo.width},"h":${imageInfo.height},"f":${imageInfo.format}}"#,
                #"{"w":800,"h":null,"f":""}"#
            ),
            (#"{"a\"${size}":${x:user}}"#, #"{"a\"5":"44"}"#), (#"["\\",${x:user}]"#, #"["\\","44"]"#),
            (#"["\\${x:user}","\u0041${x:user}"]"#, #"["\\44","\u004144"]"#),
            ("${size}", "5"),
        ]
    )
    func json(_ template: String, _ expected: String) throws {
        #expect(try content(template, .json) == expected)
    }

    @Test(
        "text that is not a template is refused",
        arguments: [
            ("$size", "Left brace must be adjacent to dollar sign."),
            ("5 $", "Left brace must be adjacent to dollar sign."),
            ("$${size}", "Left brace must be adjacent to dollar sign."),
            ("${size", "A variable lacks its right brace."),
            ("${}", "There is no variable ${}."), ("${Size}", "There is no variable ${Size}."),
            ("${x:}", "There is no variable ${x:}."), ("${ size}", "There is no variable ${ size}."),
        ]
    )
    func refused(_ text: String, _ message: String) throws {
        let error = try #require(throws: ObjectError.self) { try CallbackTemplate(text, .form) }
        #expect(error.code == .invalidArgument && error.message == message)
    }

    @Test(
        "a template that does not yield JSON is refused",
        arguments: [
            "size=${size}", #"{"size":${size}"#, #"{"size":${size},}"#, "${size}${size}", #"{"a":"${size}}"#, "{'a':1}",
            // Valid only for one kind of value.
            "{${size}:1}", "{${x:v}:1}", "1${size}", "-${size}", "${size}.5", #""a"${size}"#,
            // In the middle of an escape sequence.
            #"["\${x:v}", "]"#, #"["\${x:v}n"]"#, #"["\u${x:v}0041"]"#, #"["\u00${x:v}41"]"#, #"["\u004${x:v}1"]"#,
        ]
    )
    func notJSON(_ text: String) {
        #expect(throws: ObjectError.self) { try CallbackTemplate(text, .json) }
        #expect(throws: Never.self) { try CallbackTemplate(text, .form) }
    }

    @Test("the number of variables is limited")
    func tooMany() throws {
        let most = String(repeating: "${size}", count: CallbackTemplate.maximumVariables)
        #expect(throws: Never.self) { try CallbackTemplate(most, .form) }
        #expect(throws: ObjectError.self) { try CallbackTemplate(most + "${size}", .form) }
    }

    @Test("the size of the callback is limited", arguments: CallbackTemplate.Format.allCases)
    func length(_ format: CallbackTemplate.Format) throws {
        // Six bytes in JSON, beside its quotation marks, and three in a form.
        let (count, text) = format == .json ? (6, "[${x:v},\"${x:v}\"]") : (3, "${x:v}  ${x:v}")
        let template = try CallbackTemplate(text, format)
        func value(_ length: Int) -> CallbackValue { .text(String(repeating: "\u{1}", count: length)) }
        let rest = template.content { _ in .text("") }.count
        let longest = (CallbackTemplate.maximumBytes - rest) / (2 * count)
        #expect(template.content { _ in value(longest) }.count == rest + 2 * count * longest)
        #expect(template.fits { _ in value(longest) } && !template.fits { _ in value(longest + 1) })
    }

    @Test("an image is parsed only if the template needs it")
    func image() throws {
        #expect(try CallbackTemplate("${imageInfo.format}", .form).asksForImage)
        #expect(try !CallbackTemplate("${size}${x:imageInfo.format}", .form).asksForImage)
    }
}
