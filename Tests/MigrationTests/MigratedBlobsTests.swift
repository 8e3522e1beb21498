import Foundation
import GatewayKit
import SluiceTesting
import Testing
import UploadModel

@testable import Migration

@Suite("Migrated blobs", .timeLimit(.minutes(10)))
struct MigratedBlobsTests {
    private let ids = (0..<3).map { UploadID.generate(at: Date(timeIntervalSince1970: Double($0))) }

    @Test("blobs are recognised by id and length, also by the next process")
    func known() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("migrated")
        let first = try MigratedBlobs(path: path)
        #expect(!first.contains(ids[0], length: 5))
        first.add(ids[0], length: 5)
        first.add(ids[1], length: 0)
        first.add(ids[0], length: 7)
        for blobs in [first, try MigratedBlobs(path: path)] {
            #expect(blobs.contains(ids[0], length: 7))
            #expect(!blobs.contains(ids[0], length: 5))
            #expect(blobs.contains(ids[1], length: 0))
            #expect(!blobs.contains(ids[2], length: 0))
        }
    }

    @Test("a truncated line is ignored and does no harm", arguments: [1, 20, 27, 28, 29])
    func torn(count: Int) throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("migrated")
        let line = "\(ids[1].text) 123"
        let text = "\(ids[0].text) 5\n" + line.prefix(count)
        try Data(text.utf8).write(to: URL(filePath: path))
        let blobs = try MigratedBlobs(path: path)
        blobs.add(ids[2], length: 9)
        let again = try MigratedBlobs(path: path)
        for length: Int64 in [1, 12, 123] {
            #expect(!blobs.contains(ids[1], length: length))
            #expect(!again.contains(ids[1], length: length))
        }
        #expect(again.contains(ids[0], length: 5))
        #expect(again.contains(ids[2], length: 9))
    }

    @Test("a write failure is reported")
    func unwritable() {
        #expect(throws: StartFailure.self) { _ = try MigratedBlobs(path: "/nowhere/migrated") }
    }
}
