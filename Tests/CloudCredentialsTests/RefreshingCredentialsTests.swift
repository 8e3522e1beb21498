import Foundation
import Signing
import SluiceTesting
import Synchronization
import Testing

@testable import CloudCredentials

/// The agent of a container is not available here: an HTTP server replaces it.
///
/// Time is that of a manual clock.
@Suite("Refreshing credentials", .timeLimit(.minutes(10)))
struct RefreshingCredentialsTests {
    /// The response of the agent: credentials named by their number, valid for `lifetime` seconds; or a failure.
    private final class Agent: Sendable {
        let clock = ManualClock()
        let lifetime: TimeInterval
        let isBroken = Mutex(false)
        /// While this gate is closed, requests wait here.
        let gate = Mutex<[CheckedContinuation<Void, Never>]?>(nil)

        init(lifetime: TimeInterval) { self.lifetime = lifetime }

        func response(_ number: Int) async -> TestServer.Reply {
            await withCheckedContinuation { continuation in
                let isOpen = gate.withLock { gate in
                    gate?.append(continuation)
                    return gate == nil
                }
                if isOpen { continuation.resume() }
            }
            if isBroken.withLock({ $0 }) { return TestServer.Reply(400) }
            return World.response("AK\(number)", until: clock.now.addingTimeInterval(lifetime))
        }

        func close() { gate.withLock { $0 = [] } }

        func open() {
            let waiting = gate.withLock { gate in
                let waiting = gate ?? []
                gate = nil
                return waiting
            }
            for continuation in waiting { continuation.resume() }
        }
    }

    private struct Rig {
        let agent: Agent
        let server: TestServer
        let credentials: RefreshingCredentials
        var clock: ManualClock { agent.clock }

        init(lifetime: TimeInterval = 3600) throws {
            let agent = Agent(lifetime: lifetime)
            self.agent = agent
            server = try TestServer { _, number in await agent.response(number) }
            let place = World.container(["AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/"])
            credentials = RefreshingCredentials(CredentialsChain([place]), clock: agent.clock)
        }

        func id() async throws -> String { try await credentials.credentials().accessKeyID }

        func fail() { agent.isBroken.withLock { $0 = true } }

        func mend() { agent.isBroken.withLock { $0 = false } }

        /// Waits until this many requests have arrived.
        func requests(_ count: Int) async throws {
            while server.calls.count < count { try await Task.sleep(for: .milliseconds(5)) }
        }

        /// Waits until these credentials are returned.
        func become(_ id: String) async throws {
            while try await self.id() != id { try await Task.sleep(for: .milliseconds(5)) }
        }
    }

    @Test("credentials are fetched once while they are valid", .timeLimit(.minutes(10)))
    func once() async throws {
        let rig = try Rig()
        rig.agent.close()
        let ids = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<50 { group.addTask { try await rig.id() } }
            try await rig.requests(1)
            rig.agent.open()
            return try await group.reduce(into: Set<String>()) { $0.insert($1) }
        }
        #expect(ids == ["AK0"])
        rig.clock.advance(by: 3600 - 361)
        #expect(try await rig.id() == "AK0")
        #expect(rig.server.calls.count == 1)
        await rig.server.shutDown()
    }

    @Test("credentials are fetched in the background five minutes before they expire", .timeLimit(.minutes(10)))
    func background() async throws {
        let rig = try Rig()
        #expect(try await rig.id() == "AK0")
        rig.clock.advance(by: 3600 - 300)
        rig.agent.close()
        // No caller waits, and no second fetch starts.
        for _ in 0..<20 { #expect(try await rig.id() == "AK0") }
        try await rig.requests(1 + 1)
        #expect(try await rig.id() == "AK0")
        rig.agent.open()
        try await rig.become("AK1")
        #expect(rig.server.calls.count == 2)
        await rig.server.shutDown()
    }

    @Test("callers wait for new credentials when the old ones are about to expire", .timeLimit(.minutes(10)))
    func lastMoments() async throws {
        let rig = try Rig()
        #expect(try await rig.id() == "AK0")
        rig.clock.advance(by: 3600 - 30)
        #expect(try await rig.id() == "AK1")
        rig.clock.advance(by: 9000)
        #expect(try await rig.id() == "AK2")
        await rig.server.shutDown()
    }

    @Test("old credentials are returned while fetching fails, until they expire", .timeLimit(.minutes(10)))
    func failing() async throws {
        let rig = try Rig()
        #expect(try await rig.id() == "AK0")
        rig.fail()
        rig.clock.advance(by: 3600 - 300)
        #expect(try await rig.id() == "AK0")
        try await rig.requests(2)
        rig.clock.advance(by: 299)
        #expect(try await rig.id() == "AK0")
        rig.clock.advance(by: 1.5)
        for _ in 0..<10 {
            await #expect(throws: CredentialsError("the container: \(rig.server.url)/ responded with status 400")) {
                try await rig.id()
            }
        }
        // Ten calls within a second were one request.
        let count = rig.server.calls.count
        rig.mend()
        await #expect(throws: CredentialsError.self) { try await rig.id() }
        #expect(rig.server.calls.count == count)
        rig.clock.advance(by: 1)
        #expect(try await rig.id() == "AK\(count)")
        await rig.server.shutDown()
    }

    @Test("after a failure in the background the next attempt is ten seconds later", .timeLimit(.minutes(10)))
    func sparing() async throws {
        let rig = try Rig()
        #expect(try await rig.id() == "AK0")
        rig.fail()
        rig.clock.advance(by: 3600 - 300)
        #expect(try await rig.id() == "AK0")
        try await rig.requests(2)
        // The failure is known when a refusal waits for the same fetch or finds it ended.
        await rig.credentials.invalidate()
        #expect(try await rig.id() == "AK0")
        rig.clock.advance(by: 1)
        #expect(try await rig.id() == "AK0")
        let count = rig.server.calls.count
        for _ in 0..<8 {
            rig.clock.advance(by: 1)
            #expect(try await rig.id() == "AK0")
            #expect(!rig.credentials.isFetching)
        }
        #expect(rig.server.calls.count == count)
        rig.mend()
        rig.clock.advance(by: 10)
        #expect(try await rig.id() == "AK0")
        try await rig.become("AK\(count)")
        await rig.server.shutDown()
    }

    @Test("a refusal starts a new fetch, at most once a second", .timeLimit(.minutes(10)))
    func refusal() async throws {
        let rig = try Rig()
        #expect(try await rig.id() == "AK0")
        await rig.credentials.invalidate()
        #expect(try await rig.id() == "AK0")
        rig.clock.advance(by: 1)
        // The previous refusal still counts.
        #expect(try await rig.id() == "AK1")
        rig.clock.advance(by: 1)
        #expect(try await rig.id() == "AK1")
        for _ in 0..<20 {
            await rig.credentials.invalidate()
            _ = try await rig.id()
        }
        #expect(rig.server.calls.count == 3)
        // Credentials that were perhaps refused for another reason are returned if there are no others.
        rig.clock.advance(by: 1)
        rig.fail()
        #expect(try await rig.id() == "AK2")
        #expect(rig.server.calls.count == 4)
        await rig.server.shutDown()
    }

    @Test("short-lived credentials are fetched after half their lifetime", .timeLimit(.minutes(10)))
    func short() async throws {
        let rig = try Rig(lifetime: 600)
        #expect(try await rig.id() == "AK0")
        rig.clock.advance(by: 299)
        #expect(try await rig.id() == "AK0")
        #expect(rig.server.calls.count == 1)
        rig.clock.advance(by: 151)
        #expect(try await rig.id() == "AK0")
        try await rig.become("AK1")
        await rig.server.shutDown()
    }

    @Test("credentials that arrive expired are returned: the store decides", .timeLimit(.minutes(10)))
    func expired() async throws {
        let rig = try Rig(lifetime: -600)
        for _ in 0..<5 { #expect(try await rig.id() == "AK0") }
        rig.clock.advance(by: 59)
        #expect(try await rig.id() == "AK0")
        #expect(rig.server.calls.count == 1)
        rig.clock.advance(by: 1)
        try await rig.become("AK1")
        await rig.server.shutDown()
    }

    @Test("a clock that is set back does not stop fetching", .timeLimit(.minutes(10)))
    func clockSetBack() async throws {
        let rig = try Rig()
        #expect(try await rig.id() == "AK0")
        rig.clock.advance(by: -86_400)
        await rig.credentials.invalidate()
        #expect(try await rig.id() == "AK1")
        await rig.server.shutDown()
    }

    @Test("a changed key in the file is used a few seconds later, and at once after a refusal")
    func rotation() async throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("credentials")
        func write(_ id: String) throws {
            try "[default]\naws_access_key_id = \(id)\naws_secret_access_key = secret-\(id)\n"
                .write(toFile: path, atomically: true, encoding: .utf8)
        }
        let clock = ManualClock()
        let place = World.sharedFile(["AWS_SHARED_CREDENTIALS_FILE": path])
        let credentials = RefreshingCredentials(CredentialsChain([place]), clock: clock)
        try write("A")
        #expect(try await credentials.credentials().secretAccessKey == "secret-A")
        try write("B")
        clock.advance(by: 4)
        #expect(try await credentials.credentials().accessKeyID == "A")
        await credentials.invalidate()
        #expect(try await credentials.credentials().secretAccessKey == "secret-B")
        try write("C")
        clock.advance(by: 5)
        while try await credentials.credentials().accessKeyID != "C" { try await Task.sleep(for: .milliseconds(5)) }
        // While the file is being rewritten, the old credentials are used.
        try "[default]\naws_access_key_id = D\n".write(toFile: path, atomically: true, encoding: .utf8)
        clock.advance(by: 5)
        await credentials.invalidate()
        #expect(try await credentials.credentials().accessKeyID == "C")
        clock.advance(by: 10)
        try write("D")
        while try await credentials.credentials().accessKeyID != "D" { try await Task.sleep(for: .milliseconds(5)) }
    }

    @Test("descriptions contain no secrets")
    func texts() async throws {
        let place = EnvironmentPlace(
            environment: CredentialsEnvironment(["AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "hush"])
        )
        let chain = CredentialsChain([place])
        let credentials = RefreshingCredentials(chain, clock: ManualClock())
        let fetched = try await chain.fetch()
        let value = try await credentials.credentials()
        for thing: Any in [place, chain, credentials, fetched, value, StaticCredentials(value)] {
            var text = "\(thing)" + String(reflecting: thing)
            dump(thing, to: &text)
            #expect(!text.contains("hush"))
        }
    }
}
