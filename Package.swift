// swift-tools-version: 6.2
import PackageDescription

/// Every Swift target is built in the Swift 6 language mode with these settings; see docs/decisions/0001-package-layout.md.
let settings: [SwiftSetting] = [
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    // Small functions are called across targets for every request; see docs/decisions/0007-cross-module-optimization.md.
    .unsafeFlags(["-cross-module-optimization"], .when(configuration: .release)),
]

func layer(_ name: String, _ dependencies: [Target.Dependency] = [], path: String? = nil) -> Target {
    .target(name: name, dependencies: dependencies, path: path, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

/// The version of this build; see docs/decisions/0070-version-of-a-build.md.
let buildVersion = Context.environment["SLUICE_BUILD_VERSION"].flatMap { $0.isEmpty ? nil : $0 }

/// The handles that modules count with.
let handles = Target.Dependency.product(name: "CoreMetrics", package: "swift-metrics")

let package = Package(
    name: "sluice",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "sluice", targets: ["sluice"])
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // The bottom: C shims.
        .target(name: "CSystem", path: "Sources/C/CSystem"),
        .target(name: "CDescriptors", path: "Sources/C/CDescriptors"),
        .target(name: "COpenAPI", path: "Sources/C/COpenAPI"),
        .target(
            name: "CVersion",
            path: "Sources/C/CVersion",
            // scripts/version prints it, scripts/common.sh and the Dockerfile set it; without it, the last release is the version.
            cSettings: buildVersion.map { [.define("SLUICE_BUILD_VERSION", to: "\"\($0)\"")] }
        ),
        .systemLibrary(
            name: "COpenSSL",
            path: "Sources/C/COpenSSL",
            providers: [.apt(["libssl-dev"])]
        ),
        // Not system libraries: they load libcurl and libpq at their first call, and need only the headers here.
        .target(name: "CLibraries", path: "Sources/C/CLibraries"),
        .target(name: "CCurl", dependencies: ["CLibraries"], path: "Sources/C/CCurl"),
        .target(name: "CPostgres", dependencies: ["CLibraries"], path: "Sources/C/CPostgres"),

        // System calls, and the threads that may block in them.
        layer("SystemIO", ["CSystem"]),

        // Values and bytes; no I/O.
        layer("Bytes", ["SystemIO"]),
        layer("MetricsKit", [handles]),
        layer("Tracing"),
        layer("BuildVersion", ["CVersion"]),
        layer("HTTPWire", ["Bytes", "Tracing"]),
        layer("XMLText", ["Bytes"]),
        layer("Digests", ["COpenSSL", "CSystem", "Bytes"]),
        layer("Signing", ["HTTPWire", "Digests", "Bytes"]),

        // Sockets; no Swift package below HTTPServer.
        layer("Transport", ["CSystem", "COpenSSL", "SystemIO", "Bytes"]),
        layer("HTTPServer", ["HTTPWire", "Transport", "SystemIO", "Bytes", "CSystem"]),
        layer("HTTPClient", ["CCurl", "HTTPWire", "Transport", "Bytes", "Tracing"]),

        // The domain: its values and the interfaces of what it needs, what implements them, and what it does.
        layer("UploadModel", ["SystemIO", "Bytes", "Digests", "Signing"]),
        layer("UploadCore", ["UploadModel", "SystemIO", "Bytes", "Digests", "Signing", "Tracing"]),
        layer("DiskStorage", ["UploadModel", "Bytes", "Digests", "SystemIO"]),
        layer("CloudCredentials", ["UploadModel", "HTTPClient", "Signing", "Transport", "SystemIO", "XMLText"]),
        layer(
            "S3Storage",
            [
                "UploadModel", "CloudCredentials", "HTTPClient", "HTTPWire", "Signing", "Digests", "SystemIO", "Bytes",
                "XMLText", "MetricsKit", "CSystem", handles,
            ]
        ),
        layer(
            "Clouds",
            ["UploadModel", "CloudCredentials", "HTTPClient", "HTTPWire", "Signing", "Digests", "Bytes", "XMLText"]
        ),
        layer("StateRecords", ["UploadModel", "Bytes", "Digests", "SystemIO", "MetricsKit", "Tracing", handles]),
        layer(
            "SQLiteState",
            [
                "StateRecords", "UploadModel", "SystemIO", "MetricsKit", .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]
        ),
        layer("PostgresState", ["StateRecords", "UploadModel", "Bytes", "SystemIO", "MetricsKit", "CPostgres"]),

        // Kits: what modules are made of.
        layer("SettingsKit", ["HTTPWire", "Transport", "Bytes", .product(name: "Yams", package: "Yams")]),

        layer("RESTKit", ["UploadModel", "UploadCore", "HTTPWire", "Transport", "Bytes", "Digests"]),

        layer(
            "Telemetry",
            [
                "RESTKit", "SettingsKit", "UploadModel", "UploadCore", "HTTPServer", "HTTPClient", "HTTPWire",
                "SystemIO",
                "MetricsKit",
                "BuildVersion", "Tracing", "Bytes", handles, .product(name: "Logging", package: "swift-log"),
            ]
        ),
        layer(
            "GatewayKit",
            [
                "RESTKit", "SettingsKit", "Telemetry", "UploadModel", "UploadCore", "CloudCalls", "CloudCredentials",
                "ObjectGrants", "HTTPServer", "HTTPWire", "HTTPClient", "Transport", "SystemIO", "Signing", "Digests",
                "MetricsKit", "Tracing", "CSystem",
                handles,
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),

        // Dialects: HTTPWire values in, UploadCore calls out.
        layer(
            "Tus",
            [
                "GatewayKit", "RESTKit", "SettingsKit", "UploadModel", "UploadCore", "HTTPWire", "Bytes", "Digests",
                handles,
            ],
            path: "Sources/Dialects/Tus"
        ),
        layer(
            "ResumableHTTP",
            ["RESTKit", "UploadModel", "UploadCore", "HTTPWire", "Bytes", "Digests"],
            path: "Sources/Dialects/ResumableHTTP"
        ),
        layer("Forms", ["UploadModel", "UploadCore", "HTTPWire", "Bytes"], path: "Sources/Dialects/Forms"),
        layer(
            "VODKit",
            [
                "CloudCalls", "ObjectGateway", "ObjectStore", "Pulls", "Webhooks", "GatewayKit", "MetricsKit",
                "UploadModel", "UploadCore", "Bytes", "Digests", handles,
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Sources/Dialects/VODKit"
        ),
        layer(
            "TencentVOD",
            [
                "VODKit", "ObjectGateway", "ObjectGrants", "ObjectStore", "CloudCalls", "GatewayKit", "RESTKit",
                "SettingsKit", "MetricsKit", "UploadModel", "UploadCore", "Pulls", "Webhooks", "HTTPWire", "Bytes",
                "Digests", "Signing", handles,
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            path: "Sources/Dialects/TencentVOD"
        ),
        layer(
            "AliyunVOD",
            [
                "VODKit", "Callbacks", "ObjectGateway", "ObjectGrants", "ObjectStore", "Presigning", "CloudCalls",
                "GatewayKit", "RESTKit", "SettingsKit", "MetricsKit", "UploadModel", "UploadCore", "Pulls", "HTTPWire",
                "Digests",
                "Bytes", "Signing", "XMLText", handles,
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            path: "Sources/Dialects/AliyunVOD"
        ),
        layer(
            "Vimeo",
            [
                "VODKit", "Tus", "ObjectGateway", "GatewayKit", "RESTKit", "SettingsKit", "MetricsKit", "UploadModel",
                "UploadCore",
                "Pulls", "HTTPWire", "SystemIO",
                "Digests", "Bytes", "Signing", handles,
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            path: "Sources/Dialects/Vimeo"
        ),
        layer("ObjectGrants", ["UploadModel", "Signing", "Digests", "Bytes"]),
        layer("CloudCalls", ["UploadModel", "Signing", "HTTPWire", "Digests", "Bytes", "XMLText"]),
        layer(
            "TokenServices",
            [
                "CloudCalls", "ObjectGrants", "UploadModel", "UploadCore", "HTTPWire", "Bytes", "Digests", "Signing",
                "XMLText",
            ],
            path: "Sources/Dialects/TokenServices"
        ),
        layer(
            "Presigning",
            ["ObjectGrants", "UploadModel", "Bytes", "Signing"],
            path: "Sources/Dialects/Presigning"
        ),
        layer(
            "ObjectStore",
            ["ObjectGrants", "UploadModel", "UploadCore", "HTTPWire", "Bytes", "Digests", "Signing", "XMLText"],
            path: "Sources/Dialects/ObjectStore"
        ),

        layer(
            "PlainUploads",
            [
                "Forms", "ResumableHTTP", "Tus", "GatewayKit", "RESTKit", "SettingsKit", "UploadModel", "UploadCore",
                "HTTPWire",
            ],
            path: "Sources/Dialects/PlainUploads"
        ),
        layer(
            "Companion",
            [
                "ObjectGateway", "ObjectGrants", "ObjectStore", "Presigning", "GatewayKit", "RESTKit", "SettingsKit",
                "UploadModel", "UploadCore", "HTTPWire", "Signing", "Bytes", handles,
            ],
            path: "Sources/Dialects/Companion"
        ),

        // Modules that speak no protocol of uploads, or need adapters.
        layer(
            "Callbacks",
            [
                "SettingsKit", "Telemetry", "UploadModel", "HTTPClient", "HTTPWire", "Transport", "Signing", "Bytes",
            ]
        ),
        layer(
            "ObjectGateway",
            [
                "Callbacks", "Clouds", "CloudCredentials", "ObjectGrants", "ObjectStore", "Presigning", "TokenServices",
                "GatewayKit", "RESTKit", "SettingsKit",
                "Telemetry", "UploadModel", "UploadCore", "HTTPServer", "HTTPClient", "HTTPWire", "Transport",
                "SystemIO", "Signing",
                "MetricsKit",
                handles, .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        layer(
            "Identity",
            [
                "ObjectGateway", "ObjectGrants", "TokenServices", "GatewayKit", "RESTKit", "SettingsKit", "Telemetry",
                "UploadModel", "HTTPClient", "Signing", "Digests", "Bytes",
            ]
        ),
        layer(
            "ManagementAPI",
            [
                "ResumableHTTP", "GatewayKit", "RESTKit", "UploadModel", "UploadCore", "HTTPWire", "Bytes",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        layer(
            "LiveEvents",
            [
                "GatewayKit", "RESTKit", "SettingsKit", "UploadModel", "UploadCore", "HTTPWire", "Bytes",
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        layer(
            "Pulls",
            [
                "GatewayKit", "RESTKit", "SettingsKit", "Telemetry", "UploadModel", "UploadCore", "HTTPClient",
                "HTTPWire",
                "Transport", "MetricsKit", "Bytes", handles,
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        layer(
            "Webhooks",
            [
                "GatewayKit", "RESTKit", "SettingsKit", "Telemetry", "UploadModel", "UploadCore", "HTTPClient",
                "HTTPWire", "Signing", "Bytes",
                "MetricsKit", "Tracing", "SystemIO", handles, .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        layer(
            "ACME",
            [
                "DiskStorage", "GatewayKit", "SettingsKit", "Telemetry", "UploadModel", "HTTPServer", "HTTPClient",
                "HTTPWire", "Transport", "SystemIO", "Signing", "Digests", "Bytes", "MetricsKit", handles,
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        layer(
            "Operations",
            [
                "GatewayKit", "RESTKit", "SettingsKit", "Telemetry", "UploadModel", "UploadCore", "HTTPWire",
                "MetricsKit", "COpenAPI", handles,
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),

        // State and storage as the settings name them, and what commands do with them.
        layer(
            "Stores",
            [
                "DiskStorage", "S3Storage", "SQLiteState", "PostgresState", "CloudCredentials", "GatewayKit",
                "SettingsKit", "Telemetry", "UploadModel", "UploadCore", "HTTPClient", "Transport", "SystemIO",
                "Signing", "Digests",
                "Bytes",
                "MetricsKit", .product(name: "Logging", package: "swift-log"),
            ]
        ),
        layer(
            "Migration",
            [
                "Stores", "DiskStorage", "S3Storage", "SQLiteState", "PostgresState", "StateRecords", "ObjectStore",
                "GatewayKit", "SettingsKit", "UploadModel", "UploadCore", "HTTPClient", "SystemIO", "Signing",
                "Digests", "Bytes",
            ]
        ),
        layer(
            "Administration",
            [
                "ACME", "Stores", "ObjectGateway", "Webhooks", "GatewayKit", "RESTKit", "SettingsKit", "Telemetry",
                "DiskStorage", "S3Storage", "SQLiteState", "PostgresState", "StateRecords", "UploadModel", "UploadCore",
                "HTTPClient", "Transport", "SystemIO", "Signing", "Bytes",
                .product(name: "Logging", package: "swift-log"),
            ]
        ),

        // The top: puts all of it together.
        layer(
            "Gateway",
            [
                "ACME", "Administration", "AliyunVOD", "CloudCalls", "Companion", "GatewayKit", "Identity",
                "LiveEvents", "ManagementAPI", "ObjectGateway",
                "Operations", "PlainUploads", "Pulls", "RESTKit", "SettingsKit", "Stores", "Telemetry", "TencentVOD",
                "Tus", "Vimeo", "VODKit", "Webhooks", "UploadModel", "UploadCore", "HTTPServer", "HTTPWire", "Signing",
                "Transport", "SystemIO",
                "HTTPClient", "MetricsKit", handles,
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]
        ),
        .executableTarget(
            name: "sluice",
            dependencies: [
                "Bytes", "CDescriptors", "Gateway", "Administration", "GatewayKit", "Migration", "ObjectGateway",
                "RESTKit",
                "SettingsKit", "Stores", "Telemetry", "TencentVOD", "UploadModel", "UploadCore",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings,
            // No library looks for the program's symbols: without them each start takes less, and the file is smaller.
            linkerSettings: [.unsafeFlags(["-Xlinker", "--no-export-dynamic"], .when(configuration: .release))]
        ),

        // For tests only; in no product.
        .target(name: "CThreadSanitizer", path: "Sources/C/CThreadSanitizer"),
        layer(
            "SluiceTesting",
            [
                "UploadModel", "UploadCore", "Bytes", "Digests", "HTTPServer", "HTTPWire", "Transport", "SystemIO",
                "CThreadSanitizer",
            ]
        ),
        tests("BytesTests", ["Bytes", "SluiceTesting"]),
        tests("MetricsKitTests", ["MetricsKit", handles]),
        tests("HTTPWireTests", ["HTTPWire", "Bytes", "SluiceTesting"]),
        .testTarget(
            name: "FuzzReplayTests",
            dependencies: [
                "HTTPWire", "Bytes", "Digests", "Signing", "XMLText", "ObjectGrants", "UploadModel", "UploadCore",
                "SluiceTesting",
            ],
            path: "fuzz",
            exclude: ["README.md", "corpus", "documents.dict", "http.dict", "run", "signatures.dict"],
            sources: ["Targets", "Replay"],
            swiftSettings: settings
        ),
        tests("XMLTextTests", ["XMLText", "Bytes"]),
        tests("TransportTests", ["Transport", "SystemIO", "SluiceTesting"]),
        tests("HTTPServerTests", ["HTTPServer", "HTTPWire", "Transport", "SystemIO", "Bytes", "SluiceTesting"]),
        tests("HTTPClientTests", ["HTTPClient", "HTTPServer", "HTTPWire", "Transport", "SystemIO", "Bytes"]),
        tests("DigestsTests", ["Digests", "Bytes", "CSystem"]),
        tests("SigningTests", ["Signing", "HTTPWire", "Digests", "Bytes", "COpenSSL", "SluiceTesting"]),
        tests(
            "UploadCoreTests",
            ["UploadModel", "UploadCore", "Signing", "SystemIO", "Bytes", "Digests", "SluiceTesting"]
        ),
        tests(
            "DiskStorageTests",
            [
                "DiskStorage", "UploadModel", "UploadCore", "Transport", "SystemIO", "Bytes", "Digests", "CSystem",
                "SluiceTesting",
            ]
        ),
        tests(
            "SQLiteStateTests",
            [
                "SQLiteState", "StateRecords", "UploadModel", "UploadCore", "Transport", "SystemIO", "MetricsKit",
                "Bytes", "SluiceTesting",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        tests(
            "CloudCredentialsTests",
            [
                "CloudCredentials", "HTTPClient", "HTTPServer", "HTTPWire", "Signing", "Transport", "SystemIO", "Bytes",
                "SluiceTesting",
            ]
        ),
        tests(
            "CloudsTests",
            [
                "Clouds", "CloudCredentials", "HTTPClient", "HTTPWire", "Signing",
                "Bytes", "UploadModel", "SluiceTesting",
            ]
        ),
        tests(
            "S3StorageTests",
            [
                "S3Storage", "CloudCredentials", "HTTPClient", "Signing", "UploadModel", "Digests", "Transport",
                "SystemIO", "Bytes",
                "XMLText", "MetricsKit", "SluiceTesting",
            ]
        ),
        tests(
            "PostgresStateTests",
            [
                "PostgresState", "StateRecords", "UploadModel", "UploadCore", "SluiceTesting", "CPostgres", "Webhooks",
                "HTTPClient",
                "HTTPServer", "HTTPWire", "Transport", "SystemIO", "Signing", "Bytes",
            ]
        ),
        tests(
            "ACMETests",
            [
                "ACME", "HTTPClient", "HTTPWire", "Transport", "SystemIO", "Signing", "Digests", "Bytes",
                "SluiceTesting", .product(name: "Logging", package: "swift-log"),
            ]
        ),
        tests("WebhooksTests", ["Webhooks", "UploadModel", "SystemIO", "SluiceTesting"]),
        tests(
            "TencentVODTests",
            [
                "VODKit", "TencentVOD", "ObjectGateway", "ObjectGrants", "GatewayKit", "Pulls", "MetricsKit", "RESTKit",
                "SettingsKit", "CloudCalls",
                "UploadModel", "UploadCore", "HTTPClient",
                "HTTPWire", "Signing", "Digests", "Bytes", "SluiceTesting",
            ]
        ),
        // A sketch of a fourth video service, with its tests: it is not shipped. See CONTRIBUTING.md.
        tests(
            "FourthServiceTests",
            [
                "Gateway", "GatewayKit", "VODKit", "ObjectGateway", "MetricsKit", "RESTKit", "SettingsKit", "Telemetry",
                "UploadModel",
                "UploadCore", "Webhooks", "HTTPClient", "HTTPWire", "Transport", "Bytes", "SluiceTesting", handles,
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]
        ),
        tests(
            "VimeoTests",
            [
                "Vimeo", "VODKit", "ObjectGateway", "MetricsKit", "RESTKit", "UploadModel", "UploadCore", "HTTPWire",
                "Signing", "Transport", "SystemIO", "Bytes", "SluiceTesting",
            ]
        ),
        tests(
            "AliyunVODTests",
            [
                "AliyunVOD", "VODKit", "Callbacks", "CloudCalls", "ObjectGateway", "ObjectGrants", "ObjectStore",
                "GatewayKit", "Pulls", "MetricsKit", "RESTKit", "UploadModel", "UploadCore", "HTTPClient", "HTTPWire",
                "Signing", "Transport",
                "Digests", "Bytes", "SluiceTesting",
            ]
        ),
        tests(
            // One target for four: the tests of tokens, policies and URLs send requests to the store with what was minted.
            "ObjectStoreTests",
            [
                "SluiceTesting", "ObjectStore", "ObjectGrants", "Presigning", "CloudCalls", "TokenServices",
                "UploadModel", "UploadCore", "HTTPWire",
                "Signing", "Digests", "Bytes", "XMLText",
            ]
        ),
        tests("RESTKitTests", ["RESTKit", "UploadModel", "HTTPWire", "Transport", "Bytes"]),
        tests(
            "TelemetryTests",
            [
                "Telemetry", "Tracing", "UploadModel", "UploadCore", "HTTPServer", "HTTPWire", "MetricsKit", "Bytes",
                "SluiceTesting",
                .product(name: "Logging", package: "swift-log"),
            ]
        ),
        tests("CompanionTests", ["Companion", "RESTKit", "Signing", "Bytes"]),
        tests("GatewayKitTests", ["GatewayKit", "RESTKit", "HTTPWire"]),
        tests(
            "CallbacksTests",
            [
                "Callbacks", "UploadModel", "HTTPClient", "HTTPServer", "HTTPWire", "Transport", "SystemIO", "Signing",
            ]
        ),
        tests("PullsTests", ["Pulls", "UploadModel", "HTTPClient", "HTTPServer", "HTTPWire", "Transport", "SystemIO"]),
        tests(
            "IdentityTests",
            [
                "Identity", "HTTPClient", "HTTPServer", "HTTPWire", "Transport", "SystemIO", "Signing",
                "SettingsKit", "UploadModel", "Bytes", "SluiceTesting",
            ]
        ),
        tests("LiveEventsTests", ["LiveEvents", "UploadModel", "UploadCore", "Bytes", "SluiceTesting"]),
        tests("PlainUploadsTests", ["PlainUploads", "GatewayKit", "RESTKit", "HTTPWire", "Transport", "Bytes"]),
        tests("MigrationTests", ["Migration", "GatewayKit", "UploadModel", "SluiceTesting"]),
        tests(
            "GatewayTests",
            [
                "Gateway", "Administration", "GatewayKit", "ObjectGateway", "Operations", "SettingsKit", "Stores",
                "Telemetry", "TencentVOD",
                "HTTPWire", "Transport", "UploadModel", "UploadCore",
                "Signing", "Bytes", "SluiceTesting",
                .product(name: "Yams", package: "Yams"),
            ]
        ),
        tests("FormsTests", ["Forms", "SluiceTesting", "UploadModel", "UploadCore", "HTTPWire", "Bytes"]),
        tests(
            "ResumableHTTPTests",
            ["ResumableHTTP", "SluiceTesting", "UploadModel", "UploadCore", "HTTPWire", "Bytes", "Signing"]
        ),
        tests(
            "TusTests",
            ["Tus", "SluiceTesting", "UploadModel", "UploadCore", "HTTPWire", "Bytes", "Digests", "Signing"]
        ),
    ],
    swiftLanguageModes: [.v6]
)
