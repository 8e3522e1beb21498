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

func storey(_ name: String, _ dependencies: [Target.Dependency] = [], path: String? = nil) -> Target {
    .target(name: name, dependencies: dependencies, path: path, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

let package = Package(
    name: "sluice",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "sluice", targets: ["sluice"])
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/jpsim/Yams", from: "6.2.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // The bottom: C shims.
        .target(name: "CSystem", path: "Sources/C/CSystem"),
        .systemLibrary(
            name: "COpenSSL",
            path: "Sources/C/COpenSSL",
            providers: [.apt(["libssl-dev"])]
        ),
        .systemLibrary(
            name: "CCurl",
            path: "Sources/C/CCurl",
            pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"])]
        ),
        .systemLibrary(
            name: "CPostgres",
            path: "Sources/C/CPostgres",
            pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"])]
        ),

        // Values and bytes; no I/O.
        storey("Bytes"),
        storey("HTTPWire", ["Bytes"]),
        storey("XMLText"),
        storey("Digests", ["COpenSSL", "CSystem", "Bytes"]),
        storey("Signing", ["Digests", "Bytes"]),

        // Sockets; no Swift package below HTTPServer.
        storey("Transport", ["CSystem", "COpenSSL", "Bytes"]),
        storey("HTTPServer", ["HTTPWire", "Transport", "Bytes", "CSystem"]),
        storey("HTTPClient", ["CCurl", "HTTPWire", "Transport", "Bytes"]),

        // The domain, and what implements its interfaces.
        storey("UploadCore", ["Bytes", "Digests", "Signing"]),
        storey("DiskStorage", ["UploadCore", "Bytes", "Digests", "Transport", "CSystem"]),
        storey("CloudCredentials", ["UploadCore", "HTTPClient", "Signing", "Transport", "XMLText"]),
        storey(
            "S3Storage",
            [
                "UploadCore", "CloudCredentials", "HTTPClient", "HTTPWire", "Signing", "Digests", "Transport", "Bytes",
                "XMLText", "CSystem",
            ]
        ),
        storey(
            "Clouds",
            ["UploadCore", "CloudCredentials", "HTTPClient", "Signing", "Digests", "Bytes", "XMLText"]
        ),
        storey("StateRecords", ["UploadCore", "Bytes", "Digests"]),
        storey(
            "SQLiteState",
            ["StateRecords", "UploadCore", "Transport", .product(name: "GRDB", package: "GRDB.swift")]
        ),
        storey("PostgresState", ["StateRecords", "UploadCore", "Bytes", "Transport", "CPostgres"]),

        // Dialects: HTTPWire values in, UploadCore calls out.
        storey("Tus", ["UploadCore", "HTTPWire", "Bytes", "Digests"], path: "Sources/Dialects/Tus"),
        storey(
            "ResumableHTTP",
            ["UploadCore", "HTTPWire", "Bytes", "Digests"],
            path: "Sources/Dialects/ResumableHTTP"
        ),
        storey("Webhooks", ["UploadCore", "HTTPClient", "HTTPWire", "Signing"]),
        storey("Forms", ["UploadCore", "HTTPWire", "Bytes"], path: "Sources/Dialects/Forms"),
        storey("TencentVOD", ["UploadCore", "Bytes", "Signing"], path: "Sources/Dialects/TencentVOD"),
        storey(
            "ObjectAPI",
            ["UploadCore", "HTTPWire", "Bytes", "Digests", "Signing", "XMLText"],
            path: "Sources/Dialects/ObjectAPI"
        ),

        // The top: the only one that sees adapters and sockets together.
        .target(
            name: "Gateway",
            dependencies: [
                "HTTPServer", "HTTPWire", "Transport", "UploadCore", "DiskStorage", "S3Storage", "SQLiteState",
                "PostgresState", "StateRecords", "Tus", "ResumableHTTP", "Forms", "TencentVOD", "ObjectAPI",
                "Webhooks", "HTTPClient",
                "CloudCredentials", "Clouds",
                "Signing", "Digests", "Bytes", "CSystem",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Yams", package: "Yams"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            resources: [.embedInCode("Resources/openapi.yaml")],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "sluice",
            dependencies: [
                "Gateway", "UploadCore",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings
        ),

        // For tests only; in no product.
        .target(name: "CThreadSanitizer", path: "Sources/C/CThreadSanitizer"),
        storey(
            "SluiceTesting",
            ["UploadCore", "Bytes", "Digests", "HTTPServer", "HTTPWire", "Transport", "CThreadSanitizer"]
        ),
        tests("BytesTests", ["Bytes"]),
        tests("HTTPWireTests", ["HTTPWire", "Bytes", "SluiceTesting"]),
        tests("XMLTextTests", ["XMLText"]),
        tests("TransportTests", ["Transport"]),
        tests("HTTPServerTests", ["HTTPServer", "HTTPWire", "Transport", "Bytes", "SluiceTesting"]),
        tests("HTTPClientTests", ["HTTPClient", "HTTPServer", "HTTPWire", "Transport", "Bytes"]),
        tests("DigestsTests", ["Digests", "Bytes", "CSystem"]),
        tests("SigningTests", ["Signing", "HTTPWire", "Digests", "Bytes", "COpenSSL", "SluiceTesting"]),
        tests("UploadCoreTests", ["UploadCore", "Signing", "Bytes", "Digests", "SluiceTesting"]),
        tests(
            "DiskStorageTests",
            ["DiskStorage", "UploadCore", "Transport", "Bytes", "Digests", "CSystem", "SluiceTesting"]
        ),
        tests(
            "SQLiteStateTests",
            [
                "SQLiteState", "StateRecords", "UploadCore", "Transport", "SluiceTesting",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        tests(
            "CloudCredentialsTests",
            [
                "CloudCredentials", "HTTPClient", "HTTPServer", "HTTPWire", "Signing", "Transport", "Bytes",
                "SluiceTesting",
            ]
        ),
        tests(
            "CloudsTests",
            [
                "Clouds", "CloudCredentials", "HTTPClient", "HTTPWire", "Signing",
                "Bytes", "UploadCore", "SluiceTesting",
            ]
        ),
        tests(
            "S3StorageTests",
            [
                "S3Storage", "CloudCredentials", "HTTPClient", "Signing", "UploadCore", "Digests", "Transport", "Bytes",
                "XMLText", "SluiceTesting",
            ]
        ),
        tests(
            "PostgresStateTests",
            [
                "PostgresState", "StateRecords", "UploadCore", "SluiceTesting", "CPostgres", "Webhooks", "HTTPClient",
                "HTTPServer", "HTTPWire", "Transport", "Signing", "Bytes",
            ]
        ),
        tests("WebhooksTests", ["Webhooks", "UploadCore"]),
        tests("TencentVODTests", ["TencentVOD", "Signing", "Bytes"]),
        tests(
            "ObjectAPITests",
            ["SluiceTesting", "ObjectAPI", "UploadCore", "HTTPWire", "Signing", "Digests", "Bytes", "XMLText"]
        ),
        tests(
            "GatewayTests",
            [
                "Gateway", "HTTPClient", "HTTPWire", "HTTPServer", "Transport", "UploadCore", "Signing", "Bytes",
                "SluiceTesting",
                .product(name: "Yams", package: "Yams"),
            ]
        ),
        tests("FormsTests", ["Forms", "SluiceTesting", "UploadCore", "HTTPWire", "Bytes"]),
        tests("TusTests", ["Tus", "SluiceTesting", "UploadCore", "HTTPWire", "Bytes", "Digests", "Signing"]),
    ],
    swiftLanguageModes: [.v6]
)
