internal import CSystem
internal import Glibc

/// The calls of the kernel.
///
/// Empty, so that a value of `any SystemCalls` holds it without an allocation.
package struct LinuxCalls: SystemCalls {
    package init() {}

    // MARK: Sockets

    package func recv(_ socket: Int32, into buffer: UnsafeMutableRawBufferPointer) -> SystemResult {
        SystemResult(Glibc.recv(socket, buffer.baseAddress, buffer.count, 0))
    }

    package func send(_ socket: Int32, _ bytes: UnsafeRawBufferPointer, flags: Int32) -> SystemResult {
        SystemResult(Glibc.send(socket, bytes.baseAddress, bytes.count, flags))
    }

    package func splice(socket: Int32, toPipe pipe: Int32, count: Int) -> SystemResult {
        SystemResult(csys_splice_in(socket, pipe, count))
    }

    package func splice(pipe: Int32, toFile file: Int32, at offset: Int64, count: Int) -> SystemResult {
        SystemResult(csys_splice_out(pipe, file, offset, count))
    }

    package func sendfile(_ file: Int32, at offset: Int64, count: Int, to socket: Int32) -> SystemResult {
        SystemResult(csys_sendfile(socket, file, offset, count))
    }

    // MARK: Open files

    package func open(_ place: FilePlace, flags: Int32, mode: UInt32) -> SystemResult {
        SystemResult(
            place.withPath { path in
                place.followsLinks
                    ? csys_open(place.directory, path, flags, mode)
                    : csys_open_beneath(place.directory, path, flags, mode)
            }
        )
    }

    package func openUnnamed(in directory: FilePlace) -> SystemResult {
        SystemResult(directory.withPath { csys_open_unnamed(directory.directory, $0) })
    }

    package func close(_ file: Int32) -> SystemResult { SystemResult(Glibc.close(file)) }

    package func fstat(_ file: Int32, _ status: inout FileStatus) -> SystemResult {
        var found = Glibc.stat()
        let result = SystemResult(Glibc.fstat(file, &found))
        status = FileStatus(found)
        return result
    }

    package func pread(_ file: Int32, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) -> SystemResult {
        SystemResult(Glibc.pread(file, buffer.baseAddress, buffer.count, off_t(offset)))
    }

    package func pwrite(_ file: Int32, at offset: Int64, _ bytes: UnsafeRawBufferPointer) -> SystemResult {
        SystemResult(Glibc.pwrite(file, bytes.baseAddress, bytes.count, off_t(offset)))
    }

    package func ftruncate(_ file: Int32, to size: Int64) -> SystemResult {
        SystemResult(Glibc.ftruncate(file, off_t(size)))
    }

    package func fallocate(_ file: Int32, at offset: Int64, count: Int64) -> SystemResult {
        SystemResult(csys_preallocate(file, offset, count))
    }

    package func fdatasync(_ file: Int32) -> SystemResult { SystemResult(Glibc.fdatasync(file)) }

    package func fsync(_ file: Int32) -> SystemResult { SystemResult(Glibc.fsync(file)) }

    package func startWriteback(_ file: Int32, at offset: Int64, count: Int64) -> SystemResult {
        SystemResult(csys_start_writeback(file, offset, count))
    }

    package func writeOut(_ file: Int32, from offset: Int64) -> SystemResult {
        SystemResult(csys_write_out(file, offset))
    }

    package func copyFileRange(
        _ input: Int32,
        at inputOffset: Int64,
        to output: Int32,
        at outputOffset: Int64,
        count: Int
    ) -> SystemResult {
        SystemResult(csys_copy_range(input, inputOffset, output, outputOffset, count))
    }

    package func fgetxattr(_ file: Int32, _ name: String, into buffer: UnsafeMutableRawBufferPointer) -> SystemResult {
        SystemResult(csys_get_attribute(file, name, buffer.baseAddress, buffer.count))
    }

    package func fsetxattr(_ file: Int32, _ name: String, _ value: UnsafeRawBufferPointer) -> SystemResult {
        SystemResult(csys_set_attribute(file, name, value.baseAddress, value.count))
    }

    package func isInMemory(_ file: Int32) -> SystemResult { SystemResult(csys_is_in_memory(file)) }

    package func flock(_ file: Int32) -> SystemResult { SystemResult(csys_lock(file)) }

    // MARK: Paths

    package func stat(_ place: FilePlace, _ status: inout FileStatus) -> SystemResult {
        var found = Glibc.stat()
        let flags = place.followsLinks ? 0 : AT_SYMLINK_NOFOLLOW
        let result = SystemResult(place.withPath { fstatat(place.directory, $0, &found, flags) })
        status = FileStatus(found)
        return result
    }

    package func rename(_ place: FilePlace, to other: FilePlace) -> SystemResult {
        SystemResult(
            place.withPath { path in
                other.withPath { target in
                    place.followsLinks || other.followsLinks
                        ? renameat(place.directory, path, other.directory, target)
                        : csys_rename_beneath(place.directory, path, other.directory, target)
                }
            }
        )
    }

    package func unlink(_ place: FilePlace) -> SystemResult {
        SystemResult(
            place.withPath { path in
                place.followsLinks
                    ? unlinkat(place.directory, path, 0) : csys_unlink_beneath(place.directory, path, 0)
            }
        )
    }

    package func mkdir(_ place: FilePlace, mode: UInt32) -> SystemResult {
        SystemResult(
            place.withPath { path in
                place.followsLinks
                    ? mkdirat(place.directory, path, mode) : csys_mkdir_beneath(place.directory, path, mode)
            }
        )
    }

    package func rmdir(_ place: FilePlace) -> SystemResult {
        SystemResult(
            place.withPath { path in
                place.followsLinks
                    ? unlinkat(place.directory, path, AT_REMOVEDIR) : csys_unlink_beneath(place.directory, path, 1)
            }
        )
    }

    package func list(_ directory: FilePlace, into names: inout [String]) -> SystemResult {
        let opened = open(directory, flags: O_RDONLY | O_DIRECTORY, mode: 0)
        guard opened.errno == nil else { return opened }
        let descriptor = Int32(opened.value)
        guard let stream = fdopendir(descriptor) else {
            let failure = SystemResult.failed(errno)
            _ = close(descriptor)
            return failure
        }
        defer { closedir(stream) }
        while true {
            errno = 0
            guard let entry = readdir(stream) else { return errno == 0 ? .success : .failed(errno) }
            // A zero byte ends `d_name` within its 256 bytes (readdir(3)).
            let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != ".", name != ".." { names.append(name) }
        }
    }
}

extension FileStatus {
    fileprivate init(_ status: Glibc.stat) {
        size = Int64(status.st_size)
        // Always units of 512 bytes on Linux (stat(2)).
        allocated = Int64(status.st_blocks) * 512
        links = Int(status.st_nlink)
        mode = status.st_mode
        owner = status.st_uid
        group = status.st_gid
        modifiedAt = Int64(status.st_mtim.tv_sec) * 1000 + Int64(status.st_mtim.tv_nsec) / 1_000_000
    }
}
