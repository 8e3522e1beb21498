import Testing
import UploadModel

@Suite("Waiting for a lease of another node", .timeLimit(.minutes(10)))
struct LeaseClaimTests {
    private func text(_ signal: LeaseClaim.Signal?) -> String {
        switch signal {
        case .granted(let epoch): "granted \(epoch)"
        case .look: "look"
        case .withdrawn(let error): "withdrawn \(error.message)"
        case nil: "none"
        }
    }

    @Test("a wait without a signal ends after its time, or when its task is cancelled")
    func ends() async {
        let claim = LeaseClaim()
        #expect(text(await claim.wait(for: .milliseconds(1))) == "none")
        let waiting = Task { text(await claim.wait(for: .seconds(3600))) }
        waiting.cancel()
        #expect(await waiting.value == "none")
    }

    @Test("the newest signal is taken once, and nothing replaces a withdrawal")
    func signals() async {
        let claim = LeaseClaim()
        claim.signal(.look)
        claim.signal(.granted(epoch: 3))
        #expect(text(await claim.wait(for: .seconds(3600))) == "granted 3")
        #expect(text(await claim.wait(for: .milliseconds(1))) == "none")
        // While it waits.
        async let waiting = text(claim.wait(for: .seconds(3600)))
        for _ in 0..<100 { await Task.yield() }
        claim.signal(.look)
        #expect(await waiting == "look")
        claim.signal(.withdrawn(UploadError(.interrupted, "over")))
        claim.signal(.granted(epoch: 4))
        for _ in 0..<2 { #expect(text(await claim.wait(for: .seconds(3600))) == "withdrawn over") }
    }

    @Test("the end of one wait does not end the next one, and a time that is over at once is noticed")
    func waitsInTurn() async {
        let claim = LeaseClaim()
        for epoch in 0..<500 {
            claim.signal(.look)
            #expect(text(await claim.wait(for: .seconds(3600))) == "look")
            async let waiting = text(claim.wait(for: .seconds(3600)))
            for _ in 0..<10 { await Task.yield() }
            claim.signal(.granted(epoch: Int64(epoch)))
            #expect(await waiting == "granted \(epoch)")
            #expect(text(await claim.wait(for: .zero)) == "none")
        }
    }
}
