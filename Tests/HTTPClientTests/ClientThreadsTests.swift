import Glibc
import HTTPClient
import HTTPServer
import HTTPWire
import Synchronization
import Testing

/// The threads of a client: which of them runs a transfer, and limits of all of them together.
@Suite("HTTP client: threads", .timeLimit(.minutes(10)))
struct ClientThreadsTests {
    private func client(threads: Int, transfers: Int = 256, kept: Int = 32) -> HTTPClient {
        HTTPClient(
            userAgent: "test",
            maximumTransfers: transfers,
            keptConnections: kept,
            maximumThreads: threads,
            addresses: .any
        )
    }

    private func request(_ port: UInt16, _ content: (any HTTPRequestContent)? = nil) -> HTTPClientRequest {
        var request = HTTPClientRequest(
            method: content == nil ? "GET" : "PUT",
            url: "http://127.0.0.1:\(port)/",
            timeout: .seconds(300),
            connectTimeout: .seconds(300)
        )
        request.content = content
        return request
    }

    /// Notes the threads that read it, and ends when the test says so.
    private final class WatchedContent: HTTPRequestContent {
        private struct State {
            var threads: Set<pthread_t> = []
            var isReleased = false
            var wake: (@Sendable () -> Void)?
        }

        let length: Int64 = 3
        private let state = Mutex(State())

        var threads: Set<pthread_t> { state.withLock { $0.threads } }

        func release() {
            let wake = state.withLock { state in
                state.isReleased = true
                return state.wake
            }
            wake?()
        }

        func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> HTTPContentRead {
            state.withLock { state in
                state.threads.insert(pthread_self())
                guard state.isReleased else { return .later }
                buffer.copyBytes(from: [1, 2, 3].prefix(buffer.count))
                return .bytes(min(3, buffer.count))
            }
        }

        func whenReadable(_ wake: @escaping @Sendable () -> Void) { state.withLock { $0.wake = wake } }
    }

    private static func accepting() throws -> SocketServer {
        try SocketServer { peer, _ in
            while peer.head() != nil {
                _ = peer.read(3)
                peer.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            }
        }
    }

    @Test("transfers at the same time share the threads evenly, each stays on its thread", arguments: [1, 2, 3])
    func spreads(_ threads: Int) async throws {
        let server = try Self.accepting()
        let client = client(threads: threads)
        let contents = (0..<6).map { _ in WatchedContent() }
        try await withThrowingTaskGroup(of: Int.self) { group in
            for content in contents {
                group.addTask { try await client.send(request(server.port, content)).status }
                while content.threads.isEmpty { await Task.yield() }
            }
            for content in contents { content.release() }
            for try await status in group { #expect(status == 200) }
        }
        #expect(contents.allSatisfy { $0.threads.count == 1 })
        let uses = Dictionary(grouping: contents.flatMap(\.threads)) { $0 }.values.map(\.count)
        #expect(uses == [Int](repeating: 6 / threads, count: threads))
    }

    @Test("requests one after the other stay on one thread and one connection, whatever their origin")
    func oneAfterTheOther() async throws {
        let servers = try (0..<3).map { _ in try Self.accepting() }
        let client = client(threads: 4)
        var threads: Set<pthread_t> = []
        for index in 0..<30 {
            let content = WatchedContent()
            content.release()
            #expect(try await client.send(request(servers[index % 3].port, content)).status == 200)
            threads.formUnion(content.threads)
        }
        #expect(threads.count == 1)
        #expect(servers.map(\.connections) == [1, 1, 1])
    }

    @Test("among idle threads, a request finds the one with an idle connection to its server")
    func reuses() async throws {
        let servers = try (0..<4).map { _ in try Self.accepting() }
        let client = client(threads: 4)
        let contents = (0..<4).map { _ in WatchedContent() }
        try await withThrowingTaskGroup(of: Int.self) { group in
            for (content, server) in zip(contents, servers) {
                group.addTask { try await client.send(request(server.port, content)).status }
                while content.threads.isEmpty { await Task.yield() }
            }
            for content in contents { content.release() }
            for try await status in group { #expect(status == 200) }
        }
        #expect(Set(contents.flatMap(\.threads)).count == 4)
        for _ in 0..<5 {
            for server in servers {
                let content = WatchedContent()
                content.release()
                #expect(try await client.send(request(server.port, content)).status == 200)
            }
        }
        #expect(servers.map(\.connections) == [1, 1, 1, 1])
    }

    @Test("the limit of transfers is that of all threads together, and each of many transfers gets its turn")
    func limit() async throws {
        let counts = Mutex((running: 0, most: 0))
        let server = try TestServer { _ in
            counts.withLock { counts in
                counts.running += 1
                counts.most = max(counts.most, counts.running)
            }
            for _ in 0..<20 { await Task.yield() }
            counts.withLock { $0.running -= 1 }
            return Response(200, [:], .bytes([1]))
        }
        let client = client(threads: 4, transfers: 5)
        let template = request(server.port)
        let right = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<200 { group.addTask { (try? await client.send(template).body) == [1] } }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(right == 200)
        #expect((2...5).contains(counts.withLock { $0.most }))
        client.close()
        await server.shutDown()
    }

    @Test("the limit of idle connections is that of all threads together", arguments: [1, 3, 5])
    func kept(_ kept: Int) async throws {
        let open = Mutex(0)
        let server = try SocketServer { peer, _ in
            open.withLock { $0 += 1 }
            while peer.head() != nil {
                _ = peer.read(3)
                peer.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            }
            open.withLock { $0 -= 1 }
        }
        let client = client(threads: 4, kept: kept)
        let contents = (0..<12).map { _ in WatchedContent() }
        try await withThrowingTaskGroup(of: Int.self) { group in
            for content in contents {
                group.addTask { try await client.send(request(server.port, content)).status }
                while content.threads.isEmpty { await Task.yield() }
            }
            while open.withLock({ $0 }) < 12 { await Task.yield() }
            for content in contents { content.release() }
            for try await status in group { #expect(status == 200) }
        }
        while open.withLock({ $0 }) > kept { await Task.yield() }
        client.close()
    }

    @Test("cancelled transfers, running and queued, make room for others on all threads")
    func cancelled() async throws {
        let server = try Self.accepting()
        let client = client(threads: 2, transfers: 4)
        let stuck = (0..<8).map { _ in WatchedContent() }
        let tasks = stuck.map { content in
            Task { [request = request(server.port, content)] () async -> HTTPClientError? in
                do throws(HTTPClientError) {
                    _ = try await client.send(request)
                    return nil
                } catch {
                    return error
                }
            }
        }
        while stuck.count(where: { !$0.threads.isEmpty }) < 4 { await Task.yield() }
        for task in tasks { task.cancel() }
        for task in tasks { #expect(await task.value == .cancelled) }
        for _ in 0..<8 {
            let content = WatchedContent()
            content.release()
            #expect(try await client.send(request(server.port, content)).status == 200)
        }
    }

    @Test("close ends the transfers of all threads, and those in the queue")
    func close() async throws {
        let server = try Self.accepting()
        let client = client(threads: 3, transfers: 6)
        let contents = (0..<9).map { _ in WatchedContent() }
        let tasks = contents.map { content in
            Task { [request = request(server.port, content)] () async -> HTTPClientError? in
                do throws(HTTPClientError) {
                    _ = try await client.send(request)
                    return nil
                } catch {
                    return error
                }
            }
        }
        while contents.count(where: { !$0.threads.isEmpty }) < 6 { await Task.yield() }
        client.close()
        for task in tasks { #expect(await task.value == .stopped) }
    }
}
