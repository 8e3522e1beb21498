internal import Bytes
internal import CloudCalls
internal import Foundation
internal import ObjectStore
internal import UploadModel

/// Reads from the parameters of a call what is to be uploaded, and checks it.
struct ApsaraUploadReader: Sendable {
    let place: ApsaraPlace
    /// Why a URL must not be called back; `nil` if it may be.
    let callbackProblem: @Sendable (_ url: String) -> CallbackURLProblem?

    /// 48.8 TB, the largest object of OSS.
    static let largestFile: Int64 = 48_800_000_000_000

    private static let imageTypes: Set<String> = ["png", "jpg", "jpeg", "gif", "heic", "webp"]

    func newUpload(_ order: ApsaraOrder) throws(ApsaraError) -> ApsaraNewUpload {
        let parameters = order.parameters
        let application = try application(of: order)
        var new: ApsaraNewUpload
        switch order.action {
        case .createUploadImage: new = try image(parameters)
        case .createUploadAttachedMedia: new = try attachedMedia(parameters)
        default: new = try video(parameters)
        }
        new.application = application
        new.labels = try labels(parameters, for: new.kind)
        if new.labels.title.isEmpty { new.labels.title = new.fileName.first(scalars: 128) }
        new.size = try parameters.integer("FileSize", in: 0...Self.largestFile)
        return new
    }

    private func video(_ parameters: ApsaraParameters) throws(ApsaraError) -> ApsaraNewUpload {
        _ = try parameters.required("Title")
        let name = try fileName(parameters, "FileName", isRequired: true)
        guard let name, let suffix = name.suffix else {
            throw ApsaraError(
                400,
                "InvalidFileName.Extension",
                "`FileName` must end in an extension of 1 to 16 letters and digits, such as .mp4."
            )
        }
        return ApsaraNewUpload(kind: .video, fileName: name.name, suffix: suffix)
    }

    private func image(_ parameters: ApsaraParameters) throws(ApsaraError) -> ApsaraNewUpload {
        _ = try parameters.required("ImageType")
        let type = try parameters.choice("ImageType", of: ["default", "cover"])
        let name = try fileName(parameters, "OriginalFileName", isRequired: false)
        let suffix =
            parameters["ImageExt"]?.lowercasedASCII() ?? name?.suffix.flatMap {
                Self.imageTypes.contains($0) ? $0 : nil
            }
            ?? "png"
        guard Self.imageTypes.contains(suffix) else {
            throw .invalid("ImageExt", "must be \(Self.imageTypes.sorted().joined(separator: ", "))")
        }
        return ApsaraNewUpload(kind: .image, fileName: name?.name ?? "", suffix: suffix, category: type)
    }

    private func attachedMedia(_ parameters: ApsaraParameters) throws(ApsaraError) -> ApsaraNewUpload {
        _ = try parameters.required("BusinessType")
        let type = try parameters.choice("BusinessType", of: ["watermark", "subtitle", "material"])
        let name = try fileName(parameters, "FileName", isRequired: false)
        guard let suffix = parameters["MediaExt"]?.lowercasedASCII() ?? name?.suffix else { throw .missing("MediaExt") }
        guard ApsaraFileName.isSuffix(suffix) else {
            throw .invalid("MediaExt", "must have 1 to 16 letters and digits")
        }
        return ApsaraNewUpload(kind: .attached, fileName: name?.name ?? "", suffix: suffix, category: type)
    }

    private func fileName(
        _ parameters: ApsaraParameters,
        _ parameter: String,
        isRequired: Bool
    ) throws(ApsaraError) -> ApsaraFileName? {
        if isRequired { _ = try parameters.required(parameter) }
        return try parameters.text(parameter, atMost: ApsaraFileName.longest).map { ApsaraFileName(path: $0) }
    }

    /// What is kept with media.
    func labels(
        _ parameters: ApsaraParameters,
        for kind: ApsaraMedia.Kind
    ) throws(ApsaraError) -> ApsaraMedia.Labels {
        var labels = ApsaraMedia.Labels()
        labels.title = try parameters.text("Title", atMost: 128) ?? ""
        labels.description = try parameters.text("Description", atMost: 1024) ?? ""
        labels.coverURL = try parameters.text("CoverURL", atMost: 1024) ?? ""
        labels.tags = try parameters.tags() ?? []
        labels.categoryIDs = try categories(parameters)
        labels.templateGroupID = try parameters.text("TemplateGroupId", atMost: 64)
        labels.workflowID = try parameters.text("WorkflowId", atMost: 64)
        labels.storageLocation = try parameters.text("StorageLocation", atMost: 256)
        labels.userData = try userData(parameters)
        if kind == .video { labels.referenceID = try parameters.referenceID() }
        return labels
    }

    private func categories(_ parameters: ApsaraParameters) throws(ApsaraError) -> [Int64] {
        if let one = try parameters.integer("CateId", in: -1...Int64.max) { return [one] }
        let texts = parameters.list("CateIds")
        let numbers = texts.compactMap { Int64($0) }
        guard texts.count <= 5, numbers.count == texts.count else {
            throw .invalid("CateIds", "must be at most 5 numbers, separated by commas")
        }
        return numbers
    }

    func userData(_ parameters: ApsaraParameters) throws(ApsaraError) -> String? {
        guard let text = try parameters.text("UserData", atMost: 4096) else { return nil }
        guard let parsed = ApsaraUserData(text) else {
            throw .invalid(
                "UserData",
                "must be a JSON object; its Extend may have 512 bytes, its MessageCallback a CallbackURL of 256 and the CallbackType http"
            )
        }
        if let url = parsed.callbackURL { try check(callbackURL: url, "UserData") }
        return text
    }

    func check(callbackURL url: String, _ name: String) throws(ApsaraError) {
        switch callbackProblem(url) {
        case nil: return
        case .malformed: throw .invalid(name, "must have an absolute http or https URL as its callback")
        case .notAllowed:
            throw .invalid(name, "must have a callback at a host that the setting object.callbackHosts allows")
        }
    }

    // MARK: Applications

    /// The application that a call names, in which its caller may perform it.
    ///
    /// - Throws: `InvalidAppId.NotFound`, `Forbidden`.
    func application(of order: ApsaraOrder) throws(ApsaraError) -> String {
        let application = order.parameters["AppId"] ?? ApsaraPlace.defaultApplication
        guard place.has(application) else {
            throw ApsaraError(404, "InvalidAppId.NotFound", "There is no application with this `AppId`.")
        }
        try check(order, in: application)
        return application
    }

    func check(_ order: ApsaraOrder, in application: String) throws(ApsaraError) {
        guard order.caller.may(order.action, in: application, at: place) else { throw .forbidden }
    }
}
