internal import Bytes
internal import DiskStorage
internal import Foundation
package import GatewayKit
package import SettingsKit
internal import Stores
internal import SystemIO

/// Makes a data directory from the newest copy in a directory of `DirectoryBackup`, for `sluice restore`.
package struct DirectoryRestore: Sendable {
    private let settings: Settings
    private let report: @Sendable (String) -> Void

    /// - Parameters:
    ///   - settings: The settings of the gateway that will use the data directory.
    ///   - report: Receives what was done, one line each.
    package init(_ settings: Settings, report: @escaping @Sendable (String) -> Void) {
        self.settings = settings
        self.report = report
    }

    /// - Parameter target: Directory with the backups.
    /// - Throws: `StartFailure` with a message for the operator: the data directory is not empty, or the copy is damaged;
    ///   nothing but `lock` is then left in the data directory. What an earlier call that was cut off has left is removed.
    package func run(from target: String) throws(StartFailure) {
        guard let name = DirectoryBackup.copies(in: target).last else {
            throw StartFailure("there is no complete backup in \(target)")
        }
        let folder = target + "/" + name
        let root = settings.general.dataDirectory
        try Settings.makePrivate(root, "data directory")
        let directory = try starting { () throws(DataDirectoryError) in try DataDirectory(restoring: root) }
        var copy = ChecksummedCopy()
        do throws(StartFailure) {
            directory.removeRestored()
            try fill(root, from: folder, &copy)
            try copying { () throws(SystemError) in try directory.finishRestoring() }
        } catch {
            directory.removeRestored()
            // Last, because it says that what is there is not complete.
            directory.cancelRestoring()
            throw StartFailure("\(error); nothing is restored in \(root)")
        }
        report("\(root): \(copy.copied) files restored from \(folder) (\(copy.copiedBytes) bytes)")
    }

    private func fill(_ root: String, from folder: String, _ copy: inout ChecksummedCopy) throws(StartFailure) {
        let manifest = try copying { () throws(SystemError) in
            try copy.sums(at: folder + "/" + DirectoryBackup.manifest)
        }
        let state = "state.sqlite"
        guard manifest[state] != nil else { throw StartFailure("the backup \(folder) is damaged: manifest") }
        _ = try copying { () throws(SystemError) in try copy.io.makeDirectory(DataDirectory.blobsPath(in: root)) }
        for (path, sum) in manifest.sorted(by: { $0.key > $1.key }) where path != state {
            if path.hasPrefix(DirectoryBackup.sums + "/") {
                let list = folder + "/" + path
                try check(path, sum, in: folder, try copying { () throws(SystemError) in try copy.sum(of: list) })
                for (blob, sum) in try copying({ () throws(SystemError) in try copy.sums(at: list) }) {
                    try restore(blob, sum, from: folder, to: root, &copy)
                }
            } else {
                try restore(path, sum, from: folder, to: root, &copy)
            }
        }
        try restore(state, manifest[state] ?? "", from: folder, to: root, &copy)
    }

    private func restore(
        _ path: String,
        _ sum: String,
        from folder: String,
        to root: String,
        _ copy: inout ChecksummedCopy
    ) throws(StartFailure) {
        guard !path.split(separator: "/").contains("..") else {
            throw StartFailure("the backup \(folder) is damaged: \(path)")
        }
        let found = try copying { () throws(SystemError) in
            var parent = root
            for name in path.split(separator: "/").dropLast() {
                parent += "/" + name
                try copy.io.makeDirectory(parent)
            }
            do throws(SystemError) {
                return try copy.copy(folder + "/" + path, to: root + "/" + path)
            } catch  where error.errno == ENOENT {
                return "missing"
            }
        }
        try check(path, sum, in: folder, found)
    }

    private func check(_ path: String, _ sum: String, in folder: String, _ found: String) throws(StartFailure) {
        guard found == sum else {
            throw StartFailure("the backup \(folder) is damaged: \(path) is not what was copied")
        }
    }
}
