package import UploadModel

/// The contract of `StoreMarks`.
package enum StoreMarksContract {
    package static let all: [Contract<any StoreMarks>] = [
        Contract("a new state has no mark, and cannot advance one") { marks in
            try demand(await marks.storeMark(), is: nil)
            try demand(
                await errorCode { () async throws(UploadError) in try await marks.advanceStoreMark() },
                is: .storageFailure
            )
            try demand(await marks.storeMark(), is: nil)
        },
        Contract("the first mark stays, and only its epoch grows") { marks in
            let first = StoreMark(id: "a", epoch: 0)
            try demand(await marks.ensureStoreMark(first), is: first)
            try demand(await marks.ensureStoreMark(StoreMark(id: "b", epoch: 7)), is: first)
            try demand(await marks.advanceStoreMark(), is: StoreMark(id: "a", epoch: 1))
            try demand(await marks.advanceStoreMark(), is: StoreMark(id: "a", epoch: 2))
            try demand(await marks.storeMark(), is: StoreMark(id: "a", epoch: 2))
            try demand(await marks.ensureStoreMark(first), is: StoreMark(id: "a", epoch: 2))
        },
        Contract("concurrent increments of the epoch all differ") { marks in
            _ = try await marks.ensureStoreMark(StoreMark(id: "a", epoch: 0))
            let epochs = try await withThrowingTaskGroup(of: Int64.self) { group in
                for _ in 0..<8 { group.addTask { try await marks.advanceStoreMark().epoch } }
                return try await group.reduce(into: Set<Int64>()) { $0.insert($1) }
            }
            try demand(epochs, is: Set(1...8))
        },
        Contract("replacing a mark approves one sweep") { marks in
            try demand(await marks.takeSweepApproval(), is: false)
            try await marks.replaceStoreMark(StoreMark(id: "a", epoch: 5))
            try demand(await marks.storeMark(), is: StoreMark(id: "a", epoch: 5))
            try await marks.replaceStoreMark(StoreMark(id: "b", epoch: .max - 1))
            try demand(await marks.storeMark(), is: StoreMark(id: "b", epoch: .max - 1))
            try demand(await marks.takeSweepApproval(), is: true)
            try demand(await marks.takeSweepApproval(), is: false)
            try demand(await marks.advanceStoreMark().epoch, is: .max)
        },
    ]
}
