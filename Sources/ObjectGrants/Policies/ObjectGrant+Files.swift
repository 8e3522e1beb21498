internal import Signing
package import UploadModel

extension ObjectGrant {
    /// A file that a client may upload.
    package struct File: Sendable, Equatable {
        package let key: String
        /// Bytes of each request; `nil` for no limit of its own.
        package let maximumBytes: Int64?

        package init(key: String, maximumBytes: Int64?) {
            self.key = key
            self.maximumBytes = maximumBytes
        }
    }

    /// A grant for uploading exactly these files, each in one request or in parts, and for looking at what has arrived.
    ///
    /// - Parameters:
    ///   - upload: Subject, limits and expiry; its `maximumBytes` limits each file.
    ///   - bucket: As clients name it.
    ///   - files: At least one; all in one directory.
    package init(upload: Grant, bucket: String, files: [File]) {
        if files.count == 1 {
            self.init(upload: upload, bucket: bucket, keys: .only(files[0].key))
            return
        }
        // The directory limits what listings show; the policy allows nothing but the files.
        let directory = files.first.flatMap { file in
            file.key.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(file.key[...$0]) }
        }
        let statements = files.map { file in
            // The limit of the whole grant is not repeated: it refuses as too large, which clients understand better.
            let limit = file.maximumBytes.flatMap { bytes in
                upload.maximumBytes.map { bytes < $0 } ?? true
                    ? PolicyCondition(key: .contentLength, comparison: .lessOrEqual, values: .numbers([bytes])) : nil
            }
            return SessionPolicy.Statement(
                effect: .allow,
                actions: ObjectAction.upload,
                resources: [WildcardPattern("\(bucket)/\(file.key)")],
                conditions: limit.map { [$0] } ?? []
            )
        }
        self.init(
            upload: upload,
            bucket: bucket,
            keys: directory.flatMap { KeyPrefix($0) }.map { .within($0) } ?? .all,
            // In COS terms, where the resource of a listing is the requested prefix.
            policies: [SessionPolicy(vendor: .tencent, statements: statements)]
        )
    }
}
