internal import Bytes
internal import DiskStorage
internal import Foundation
package import GatewayKit
internal import HTTPClient
package import SettingsKit
internal import Stores
internal import SystemIO
package import UploadCore
internal import UploadModel

/// Compares the records of a gateway with its bytes, for `sluice verify`; the gateway may serve meanwhile.
package struct StoreInspection: Sendable {
    private let settings: Settings

    /// - Parameter settings: The settings of the gateway.
    package init(_ settings: Settings) { self.settings = settings }

    /// - Parameters:
    ///   - readsDigests: Whether to read the bytes of media whose digests are recorded.
    ///   - progress: Called often with the progress.
    ///   - report: Called with each finding.
    /// - Returns: What was compared.
    /// - Throws: `StartFailure` if records or bytes cannot be read.
    package func run(
        digests readsDigests: Bool,
        progress: @escaping (StoreVerification.Outcome) -> Void,
        report: @escaping (StoreVerification.Finding) -> Void
    ) async throws(StartFailure) -> StoreVerification.Outcome {
        ProcessSetup.prepare()
        let opened = try await GatewayState.open(settings)
        defer { opened.close() }
        let pool = BlockingPool(threads: 2, label: "sluice.block")
        let client = settings.s3Client
        defer { client.close() }
        let storage: any InspectedStorage
        switch settings.general.storage {
        case .disk:
            let directory = try starting { () throws(DataDirectoryError) in
                try DataDirectory(reading: settings.general.dataDirectory)
            }
            storage = DiskStorage(directory: directory, durability: settings.storageDurability, pool: pool)
        case .s3:
            storage = try await settings.s3Storage(
                records: opened.blobs,
                client: client,
                pool: pool,
                clock: opened.clock
            )
        }
        let verification = StoreVerification(
            state: opened.store,
            storage: storage,
            clock: opened.clock,
            orphanAge: settings.uploadLimits.orphanAge
        )
        do throws(UploadError) {
            return try await verification.run(digests: readsDigests, progress: progress, report: report)
        } catch {
            throw StartFailure(error.message + (error.cause.map { " (\($0))" } ?? ""))
        }
    }
}

extension StoreVerification.Finding {
    /// One line for people.
    package var line: String { "\(fault.rawValue) \(id): \(detail)" }

    /// One JSON object.
    package var json: [UInt8] {
        var writer = JSONObjectWriter(["fault": fault.rawValue, "id": id.text, "detail": detail])
        return writer.finish()
    }
}

extension StoreVerification.Outcome {
    /// One line for people.
    package var line: String {
        var parts = ["\(uploads) uploads compared with their bytes", "\(blobs) blobs with their records"]
        if digested > 0 { parts.append("digests of \(digested) media (\(digestedBytes) bytes)") }
        if ended > 0 { parts.append("\(ended) ended uploads whose bytes the next sweep removes") }
        if young > 0 { parts.append("\(young) blobs too young to have a record") }
        return parts.joined(separator: ", ") + ": \(findings) findings"
    }

    /// One JSON object.
    package var json: [UInt8] {
        var writer = JSONObjectWriter(capacity: 200)
        writer.member("uploads", Int64(uploads))
        writer.member("blobs", Int64(blobs))
        writer.member("digested", Int64(digested))
        writer.member("digestedBytes", digestedBytes)
        writer.member("ended", Int64(ended))
        writer.member("young", Int64(young))
        writer.member("findings", Int64(findings))
        return writer.finish()
    }
}
