internal import HTTPWire
internal import UploadCore
internal import UploadModel

/// Listings of objects and of open multipart uploads.
extension ObjectStoreHandler {
    func list(_ listing: ObjectListing, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let start = try listing.start()
        let grouping = Listing(prefix: listing.prefix, delimiter: listing.delimiter, maximum: listing.maximum)
        let page = try await core { () async throws(UploadError) in
            try await grouping.page(
                from: start,
                name: { (object: ListedObject) in ListingCursor(key: object.key) },
                deciding: call.caller.listing
            ) { (cursor, limit) async throws(UploadError) -> [ListedObject] in
                let query = ObjectQuery(
                    bucket: listing.bucket,
                    prefix: listing.prefix,
                    after: cursor?.key,
                    limit: limit
                )
                return try await service.objects(query).map { ListedObject($0) }
            }
        }
        return Self.document(listing.document(page, owner: Self.owner, for: call.vendor))
    }

    func list(_ listing: UploadListing, _ call: ObjectCall) async throws(ObjectError) -> Response {
        let grouping = Listing(prefix: listing.prefix, delimiter: listing.delimiter, maximum: listing.maximum)
        let page = try await core(.upload) { () async throws(UploadError) in
            try await grouping.page(
                from: listing.start,
                name: { (upload: Upload) in ListingCursor(key: upload.key ?? "", id: upload.id.text) },
                deciding: call.caller.listing,
                showing: call.caller.maySee
            ) { (cursor, limit) async throws(UploadError) -> [Upload] in
                let query = PartUploadQuery(
                    bucket: listing.bucket,
                    prefix: listing.prefix,
                    after: cursor?.key,
                    afterID: cursor?.id.flatMap { UploadID($0) },
                    limit: limit
                )
                return try await uploads.parts.partUploads(query)
            }
            .map { ListedUpload($0) }
        }
        return Self.document(listing.document(page, owner: Self.owner, for: call.vendor))
    }
}

extension ListedObject {
    fileprivate init(_ object: ObjectSummary) {
        self.init(
            key: object.key,
            size: object.size,
            entityTag: object.entityTag ?? object.id.text,
            modifiedAt: object.createdAt,
            checksum: object.checksum,
            typeOfOSS: ObjectAttributes.typeOfOSS(isAppendable: object.isAppendable, hasParts: object.hasParts)
        )
    }
}

extension ListedUpload {
    fileprivate init(_ upload: Upload) {
        self.init(
            key: upload.key ?? "",
            uploadID: upload.id.text,
            createdAt: upload.createdAt,
            checksum: upload.attributes?.checksum
        )
    }
}
