internal import DiskStorage
internal import Foundation
internal import GatewayKit
internal import PostgresState
internal import S3Storage
internal import SQLiteState
internal import StateRecords
internal import Stores
internal import UploadModel

extension Doctor {
    // MARK: State

    func state() async -> [Diagnosis] {
        let directory = settings.general.dataDirectory
        guard let database = settings.databaseSettingsOfCommands else {
            return [file(in: directory)] + Self.blocks(in: directory)
        }
        let survey: DatabaseSurvey
        do throws(PostgresStateError) {
            survey = try await DatabaseSurvey(of: database)
        } catch {
            return [.failed("database", error.description)]
        }
        return [Self.result(survey), Self.comparedClock("clock", "the database", ahead: survey.ahead)]
            + Self.connections(survey, ofNode: settings.database.connections)
    }

    private static func result(_ survey: DatabaseSurvey) -> Diagnosis {
        let name = "PostgreSQL \(survey.version) at \(survey.location)"
        let check = "database"
        guard survey.isNewEnough else { return .failed(check, "\(name) is too old: use version 12 or newer") }
        if survey.isReadOnly { return .failed(check, "\(name) is read-only: name the primary in database.url") }
        if survey.isAmidImport {
            return .failed(check, "\(name): a migration into it is not finished: run `sluice migrate` again")
        }
        switch survey.schema {
        case .newer: return .failed(check, "\(name) was used by a newer version of Sluice: use that version")
        case .missing, .older:
            guard survey.canCreate else {
                return .failed(
                    check,
                    "\(name): its user may not create tables, which the next start does: GRANT CREATE ON SCHEMA to it"
                )
            }
            return .ok(
                check,
                "\(name) can be used; the next start \(survey.schema == .missing ? "creates" : "changes") its tables"
            )
        case .current: return .ok(check, "\(name) can be used, and its tables are those of this version")
        }
    }

    /// A node uses some more, for leases and notifications.
    private static func connections(_ survey: DatabaseSurvey, ofNode count: Int) -> [Diagnosis] {
        guard Int64(count) + 2 > survey.maximumConnections else { return [] }
        return [
            .warning(
                "database.connections",
                "one gateway opens up to \(count + 2) connections, and the database allows \(survey.maximumConnections) in total: lower database.connections, or raise max_connections"
            )
        ]
    }

    /// A warning if a full file system can end the process.
    ///
    /// SQLite maps its index of the log, and reserves space for it by a byte in each 4 KiB. Of smaller blocks that reserves
    /// only some, and the process gets SIGBUS where it writes into others.
    private static func blocks(in directory: String) -> [Diagnosis] {
        let place = existingParent(of: directory)
        var status = statvfs()
        guard statvfs(place, &status) == 0, status.f_bsize < 4096 else { return [] }
        return [
            .warning(
                "state",
                "the file system of \(place) has blocks of \(status.f_bsize) bytes, so SQLite can end the process when it is full: use blocks of 4 KiB (mkfs -b 4096)"
            )
        ]
    }

    private func file(in directory: String) -> Diagnosis {
        let check = "state"
        let path = DataDirectory.statePath(in: directory)
        guard let version = SQLiteState.libraryVersion,
            version.compare(SQLiteState.oldestLibrary, options: .numeric) != .orderedAscending
        else { return .failed(check, "the SQLite library is older than \(SQLiteState.oldestLibrary)") }
        do throws(StartFailure) {
            try RetiredState(statePath: path).check()
        } catch {
            return .failed(check, error.description)
        }
        guard FileManager.default.fileExists(atPath: path) else {
            return .ok(check, "\(path) is missing; the first start creates it (SQLite \(version))")
        }
        do throws(SQLiteStateError) {
            switch try SQLiteState.age(of: path) {
            case .newer: return .failed(check, "\(path) was used by a newer version of Sluice: use that version")
            case .missing, .older:
                return .ok(check, "\(path) can be read; the next start changes its tables (SQLite \(version))")
            case .current:
                return .ok(check, "\(path) can be read, and its tables are those of this version (SQLite \(version))")
            }
        } catch {
            return .failed(check, "\(error.description); restore it from a backup")
        }
    }

    // MARK: Store

    func store() async -> [Diagnosis] {
        let check = "store"
        let surveys: [BucketSurvey]
        do throws(StartFailure) {
            surveys = try await settings.surveyStore(probes: probes, clock: SystemClock())
        } catch {
            return [.failed(check, error.description)]
        }
        var results: [Diagnosis] = surveys.map { survey in
            let name = "the bucket \(survey.bucket) at \(survey.endpoint)"
            guard let problem = survey.problem else {
                return .ok(check, "\(name) can be \(probes ? "written, read and cleaned" : "reached")")
            }
            guard survey.isMissing else { return .failed(check, "\(name) cannot be used: \(problem)") }
            if survey.isCreatedAtStart { return .ok(check, "\(name) is missing; the next start creates it") }
            return .failed(check, "\(name) is missing: create it, or set s3.createBucket")
        }
        if let ahead = surveys.lazy.compactMap(\.ahead).first {
            results.append(Self.comparedClock("clock", "the store", ahead: ahead))
        }
        return results
    }
}
