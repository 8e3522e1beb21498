// swift-tools-version: 6.2
// A peer of the benchmarks: a minimal Hummingbird application. Sluice does not depend on this package.
import PackageDescription

let package = Package(
    name: "hummingbird-peer",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.0.0")
    ],
    targets: [
        .executableTarget(
            name: "hummingbird-peer",
            dependencies: [.product(name: "Hummingbird", package: "hummingbird")]
        )
    ]
)
