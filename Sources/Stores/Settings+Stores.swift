internal import Foundation
package import GatewayKit
package import SettingsKit
package import Signing
internal import SystemIO
package import UploadCore
package import UploadModel

/// Settings converted for state and storage.
extension Settings {
    /// The configured master secret, or the one in the data directory, which is created if it is missing.
    package func master() throws(StartFailure) -> MasterSecret {
        if let masterSecret = general.masterSecret { return masterSecret.exposed }
        try Self.makePrivate(general.dataDirectory, "data directory")
        return try MasterSecretFile.loadOrCreate(in: general.dataDirectory)
    }

    /// Creates a directory that only its owner can access, with its parents, if it is missing.
    package static func makePrivate(_ directory: String, _ purpose: String) throws(StartFailure) {
        do {
            try FileManager.default.createDirectory(
                atPath: directory,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw StartFailure("the \(purpose) \(directory) cannot be created: \(error.localizedDescription)")
        }
    }

    package var storageDurability: UploadModel.Durability {
        switch general.durability {
        case .acknowledged: .acknowledged
        case .completed: .completed
        case .none: .none
        }
    }

    package var uploadLimits: UploadLimits {
        UploadLimits(
            maximumBytes: limits.uploadBytes,
            lifetime: uploads.expireAfter.map { Double($0.components.seconds) },
            takeOverTimeout: uploads.takeOverTimeout,
            // State and blobs in the data directory belong to this process only. With a database, another node may be
            // about to record a blob, and records of a store are made long before its bytes arrive.
            orphanAge: database.url == nil && general.storage == .disk ? 0 : 3600,
            quarantine: Double(uploads.quarantine.components.seconds),
            policies: quota.policies,
            quotaPeriod: Double(quota.period.components.seconds),
            recent: RecentLimits(most: uploads.recent, age: uploads.recentFor)
        )
    }

    /// The same for open files, which need descriptors.
    var recentFiles: RecentLimits {
        RecentLimits(most: min(uploads.recent, ProcessSetup.descriptors / 16), age: uploads.recentFor)
    }
}
