import Foundation
import SluiceTesting
import SystemIO
import Testing

@testable import Webhooks

@Suite("Programs of hooks", .timeLimit(.minutes(10)))
struct HookProgramsTests {
    private let folder: TemporaryDirectory

    init() throws { folder = try TemporaryDirectory() }

    private func add(_ name: String, _ text: String = "#!/bin/sh\n", mode: Int = 0o755) throws {
        try text.write(toFile: folder.path(name), atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: folder.path(name))
    }

    private func directory(_ wanted: Set<HookName> = Set(HookName.allCases)) -> HookDirectory {
        HookDirectory(folder.path, running: wanted, .onCallingThread)
    }

    @Test("hooks with a program are run; other names and dots are not")
    func names() throws {
        try add("pre-create")
        try add("post-finish", "#!/usr/bin/env python3\n")
        try add("pre-finish")
        try add("post-finish.py", mode: 0o644)
        try add("..data")
        let found = directory([.preCreate, .postCreate, .postFinish])
        #expect(found.hooks == [.preCreate, .postFinish] && found.problems.isEmpty)
        #expect(found.remarks.count == 2)
        #expect(found.remarks[0].contains("pre-finish is not run"))
        #expect(found.remarks[1].contains("named after: post-finish.py; the hooks are pre-create, "))
    }

    @Test("many unknown names are shortened")
    func manyNames() throws {
        try add("pre-create")
        for number in 10..<25 { try add("file-\(number)") }
        #expect(directory().remarks.first?.contains("file-19 and 5 more; ") == true)
    }

    @Test("all problems are found at once")
    func problems() throws {
        let none = "\(folder.path) has no program for a hook of hooks.events: pre-create"
        #expect(directory([.preCreate]).problems == [none])
        try add("pre-create", mode: 0o644)
        try add("post-create", "#! /none/sh -e\n")
        try add("post-finish", mode: 0o757)
        let problems = directory().problems
        #expect(problems.count == 3)
        #expect(problems.contains { $0.contains("/pre-create cannot be executed") && $0.contains("chmod +x") })
        #expect(problems.contains { $0.contains("/post-create needs /none/sh") })
        #expect(problems.contains { $0.contains("every user can change \(folder.path)/post-finish") })
    }

    private func lines(_ pieces: [String]) -> [String] {
        var (lines, logged) = (HookErrorLines(), [String]())
        for piece in pieces {
            Array(piece.utf8).withUnsafeBytes { bytes in lines.add(bytes) { logged.append($0) } }
        }
        lines.end { logged.append($0) }
        return logged
    }

    @Test("lines of standard error are joined, cut and counted")
    func errorLines() {
        #expect(lines(["a", "b\n\nc", ""]) == ["ab", "c"])
        let long = String(repeating: "x", count: 1000)
        #expect(lines([long, "\n", long, "y\nz"]) == [long, long + "…", "z"])
        let many = lines([(0..<103).map { "\($0)\n" }.joined()])
        #expect(many.count == 101 && many[99] == "99" && many[100] == "… and 3 more lines")
    }
}
