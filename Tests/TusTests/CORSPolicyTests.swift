import HTTPWire
import Testing

@Suite("CORS policy", .timeLimit(.minutes(10)))
struct CORSPolicyTests {
    private static func head(_ method: HTTPMethod, _ fields: HTTPFields) -> RequestHead {
        RequestHead(
            method: method,
            target: RequestTarget(rawPath: "/", rawQuery: nil, authority: nil, segments: [""]),
            fields: fields
        )
    }

    @Test(
        "origins are normalised as browsers write them",
        arguments: [
            ("https://app.example", "https://app.example"),
            ("HTTPS://App.Example", "https://app.example"),
            ("https://app.example:443", "https://app.example"),
            ("http://app.example:80", "http://app.example"),
            ("http://app.example:443", "http://app.example:443"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]", "http://[::1]"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("capacitor://localhost", "capacitor://localhost"),
            ("null", "null"),
        ]
    )
    func normalizes(text: String, origin: String) throws {
        #expect(try CORSPolicy.Origins([text]) == .only([origin]))
    }

    @Test(
        "an invalid origin is refused by name",
        arguments: [
            "", "app.example", "https://", "://app.example", "https://app.example/", "https://app.example/path",
            "https://user@app.example", "https://*.example", "https://app.example:", "https://app.example:99999",
            "https://app.example:+1", "https://:80", "https://a.example, https://b.example", "https://bücher.example",
            "https://app.example?x", "https://app.example#x",
        ]
    )
    func refuses(text: String) {
        let problem = #expect(throws: InvalidOrigin.self) { try CORSPolicy.Origins(["https://good.example", text]) }
        #expect(problem?.text == text)
        #expect(problem?.description.hasPrefix("'\(text)' is not an origin") == true)
    }

    @Test("a star among the origins allows all")
    func star() throws {
        #expect(try CORSPolicy.Origins(["https://app.example", "*"]) == .any)
        #expect(try CORSPolicy.Origins([]) == .only([]))
    }

    @Test("only OPTIONS with both fields is a preflight")
    func whatIsAPreflight() {
        let policy = CORSPolicy()
        let full: HTTPFields = ["Origin": "https://a.example", "Access-Control-Request-Method": "PATCH"]
        #expect(policy.preflight(Self.head(.options, full), methods: [.patch])?.status == 204)
        #expect(policy.preflight(Self.head(.post, full), methods: [.patch]) == nil)
        #expect(policy.preflight(Self.head(.options, ["Origin": "https://a.example"]), methods: [.patch]) == nil)
        #expect(
            policy.preflight(Self.head(.options, ["Access-Control-Request-Method": "PATCH"]), methods: [.patch]) == nil
        )
        #expect(CORSPolicy.disabled.preflight(Self.head(.options, full), methods: [.patch]) == nil)
    }

    @Test("fields of the application are allowed if they are configured")
    func additionalFields() throws {
        let policy = CORSPolicy(
            origins: .only(["https://a.example"]),
            additionalRequestFields: ["X-App"],
            maximumAge: 60
        )
        let head = Self.head(
            .options,
            [
                "Origin": "https://a.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "x-app, x-other",
            ]
        )
        let response = try #require(policy.preflight(head, methods: [.get, .post]))
        let allowed = response.fields.list("Access-Control-Allow-Headers")
        #expect(allowed.contains("X-App"))
        #expect(allowed.contains("Authorization"))
        #expect(!allowed.contains("x-other"))
        #expect(response.fields["Access-Control-Max-Age"] == "60")
        #expect(response.fields["Access-Control-Allow-Methods"] == "GET, POST")
    }

    @Test("with any origin, each requested field name is allowed once")
    func askedFields() throws {
        let head = Self.head(
            .options,
            [
                "Origin": "https://a.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization, x-app, bad name, x(y)",
            ]
        )
        let response = try #require(CORSPolicy().preflight(head, methods: [.post]))
        let allowed = response.fields.list("Access-Control-Allow-Headers")
        #expect(allowed.contains("x-app"))
        #expect(allowed.filter { $0.lowercased() == "authorization" }.count == 1)
        #expect(!allowed.contains { $0.contains("bad") || $0.contains("(") })
    }

    @Test("decorating is idempotent, and existing values of Vary stay")
    func idempotent() {
        let policy = CORSPolicy(origins: .only(["https://a.example"]))
        let head = Self.head(.get, ["Origin": "https://a.example"])
        var once = Response(200, ["Vary": "Accept"])
        policy.decorate(&once, for: head)
        var twice = once
        policy.decorate(&twice, for: head)
        #expect(once.fields == twice.fields)
        #expect(once.fields["Vary"] == "Accept, Origin")
        #expect(once.fields["Access-Control-Allow-Origin"] == "https://a.example")
    }

    @Test("no response allows credentials")
    func noCredentials() throws {
        let head = Self.head(.options, ["Origin": "https://a.example", "Access-Control-Request-Method": "POST"])
        for policy in [CORSPolicy(), CORSPolicy(origins: .only(["https://a.example"]))] {
            var response = try #require(policy.preflight(head, methods: [.post]))
            policy.decorate(&response, for: head)
            #expect(!response.fields.contains("Access-Control-Allow-Credentials"))
        }
    }

    @Test("copies of a policy follow another one together")
    func following() {
        let policy = CORSPolicy(origins: .only(["https://a.example"]))
        let copy = policy
        let head = Self.head(.get, ["Origin": "https://b.example"])
        policy.follow(CORSPolicy(origins: .only(["https://b.example"])))
        var response = Response(200)
        copy.decorate(&response, for: head)
        #expect(response.fields["Access-Control-Allow-Origin"] == "https://b.example")
        #expect(copy == policy)
        policy.follow(.disabled)
        #expect(!copy.isEnabled && CORSPolicy.disabled == CORSPolicy.disabled)
        var plain = Response(200)
        copy.decorate(&plain, for: head)
        #expect(plain.fields == Response(200).fields)
    }

    @Test("two Origin fields do not match a listed origin")
    func twoOrigins() {
        let policy = CORSPolicy(origins: .only(["https://a.example"]))
        var response = Response(200)
        policy.decorate(
            &response,
            for: Self.head(.get, ["Origin": "https://a.example", "Origin": "https://a.example"])
        )
        #expect(!response.fields.contains("Access-Control-Allow-Origin"))
    }
}
