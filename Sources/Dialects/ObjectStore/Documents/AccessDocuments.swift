internal import Signing

/// Documents about access.
enum AccessDocuments {
    /// A document `AccessControlPolicy` for a bucket or an object that only its owner may use: credentials, not lists, say who
    /// may do what here.
    static func acl(owner: ObjectOwner, for vendor: Vendor) -> [UInt8] {
        var document = XMLWriter("AccessControlPolicy", vendor)
        owner.write("Owner", to: &document)
        document.element("AccessControlList") { list in
            // OSS names one of its three kinds of access; the others list grants.
            if vendor == .aliyun {
                list.element("Grant", "private")
                return
            }
            list.element("Grant") { grant in
                let schema: StaticString =
                    #"xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser""#
                grant.element("Grantee", attributes: schema) { grantee in
                    grantee.element("ID", owner.id)
                    grantee.element("DisplayName", owner.name)
                }
                grant.element("Permission", "FULL_CONTROL")
            }
        }
        return document.finished()
    }
}
