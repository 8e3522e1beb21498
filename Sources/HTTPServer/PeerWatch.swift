internal import Transport

/// Notices, while an answer without an end of its own is sent, that its client went away or that the server stops.
///
/// Used on the loop of its connection. It holds no task: see `Channel.park`.
final class PeerWatch {
    private let channel: Channel
    /// Takes what the client sends meanwhile: its next request.
    private let input: InputBuffer
    private var action: (@Sendable () -> Void)?
    private var isStopping: Bool

    init(channel: Channel, input: InputBuffer, isStopping: Bool) {
        self.channel = channel
        self.input = input
        self.isStopping = isStopping
    }

    /// Calls `action` once, when the client goes away or the server stops.
    func begin(_ action: @escaping @Sendable () -> Void) {
        if isStopping { return action() }
        self.action = action
        look()
    }

    /// The answer is over.
    func end() {
        guard action != nil else { return }
        action = nil
        channel.unpark()
    }

    /// The server stops.
    func stop() {
        isStopping = true
        tell()
    }

    private func tell() {
        guard let action else { return }
        end()
        action()
    }

    /// Reads ahead, because only a read tells the end of a connection from another request.
    private func look() {
        while action != nil {
            let isParked = channel.park(until: .max) { [self] result in
                switch result {
                case .success: look()
                case .failure: tell()
                }
            }
            // Of a client that sends much the next write will tell.
            if isParked || input.count >= Self.mostAhead { return }
            if channel.cut != nil { return tell() }
            switch input.fill(from: channel, room: Self.mostAhead) {
            case .moved, .wouldBlockReading: break
            case .wouldBlockWriting: return
            case .ended, .failed: return tell()
            }
        }
    }

    private static let mostAhead = 4096
}
