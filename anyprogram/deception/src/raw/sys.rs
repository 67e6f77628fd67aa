//! Direct system calls, bypassing libc's functions: those may be interposed by other libraries, and
//! are cancellation points.

use std::ffi::c_void;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::OnceLock;
use std::{mem, ptr};

use headlong_protocol::{ANSWER_BYTES, Answer, FileKey, SOCKET_DEFAULT, environment};
use libc::{c_int, c_long};

/// Assumed page size; where pages are larger, a range counts fewer pages than expected and is
/// requested once too often.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// `cachestat`, on every architecture (Linux 6.5).
const SYS_CACHESTAT: c_long = 451;

/// Why a residency query failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResidencyError {
    /// The kernel, or a filter, does not support the call.
    Unknown,
    /// The program has no permission for this file.
    NotAllowed,
    /// The descriptor does not support the query.
    Other,
}

/// Restores `errno` when dropped.
pub(crate) struct SavedErrno(c_int);

impl SavedErrno {
    pub(crate) fn save() -> Self {
        Self(errno())
    }
}

impl Drop for SavedErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

fn errno() -> c_int {
    // SAFETY: the address of this thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

pub(super) fn set_errno(value: c_int) {
    // SAFETY: the address of this thread's own `errno`.
    unsafe { *libc::__errno_location() = value };
}

fn failed() -> ResidencyError {
    match errno() {
        libc::ENOSYS | libc::EINVAL => ResidencyError::Unknown,
        libc::EPERM | libc::EACCES => ResidencyError::NotAllowed,
        _ => ResidencyError::Other,
    }
}

/// Milliseconds of the coarse clock: cheap, and late by a few milliseconds.
pub(crate) fn now_ms() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC_COARSE) / 1_000_000
}

/// Nanoseconds.
pub(crate) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is this function's own.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as u64)
}

/// Identity and size of a regular file; `None` for other descriptors.
pub(crate) fn regular_file(fd: c_int) -> Option<(FileKey, u64)> {
    // SAFETY: a structure of integers, for which zero is a value.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: the structure is this function's own.
    let result = unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut stat) };
    let is_regular = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
    let file = FileKey {
        dev: stat.st_dev,
        ino: stat.st_ino,
    };
    (result == 0 && is_regular).then_some((file, stat.st_size as u64))
}

/// Whether a descriptor is open for reading only, and through the page cache.
pub(crate) fn is_only_read(fd: c_int) -> bool {
    // SAFETY: passes no pointer.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    let watched = c_long::from(libc::O_ACCMODE | libc::O_DIRECT | libc::O_PATH);
    flags >= 0 && flags & watched == c_long::from(libc::O_RDONLY)
}

/// About how many bytes a non-blocking socket accepts now; `None` for anything else.
pub(crate) fn room(fd: c_int) -> Option<u64> {
    // SAFETY: passes no pointer.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    if flags < 0 || flags & c_long::from(libc::O_NONBLOCK) == 0 {
        return None;
    }
    let (mut buffer, mut queued): (c_int, c_int) = (0, 0);
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: both integers are this function's own.
    let result = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            fd,
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            &raw mut buffer,
            &raw mut length,
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: the integer is this function's own.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, fd, libc::TIOCOUTQ, &raw mut queued) };
    let room = buffer.saturating_sub(queued);
    (result == 0).then_some(u64::try_from(room).unwrap_or(0))
}

/// The current position of a descriptor.
pub(crate) fn position(fd: c_int) -> Option<u64> {
    // SAFETY: passes no pointer.
    let at = unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) };
    u64::try_from(at).ok()
}

/// Reads the number at an address given by the program, if the address is valid. The program may
/// pass any address; the kernel reports the error for an invalid one.
pub(crate) fn pointed_at(address: usize) -> Option<i64> {
    const NO_CHANGE: c_int = -1;
    let number: *const i64 = ptr::with_exposed_provenance(address);
    // The kernel copies a signal set of this size before it rejects the operation as invalid. Every
    // seccomp filter allows this call.
    // SAFETY: the kernel returns an error for an unreadable address, and changes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            NO_CHANGE,
            number,
            ptr::null_mut::<c_void>(),
            size_of::<i64>(),
        )
    };
    // A null set is not an error.
    if result != -1 || errno() != libc::EINVAL {
        return None;
    }
    // SAFETY: it was readable just now. If another thread unmaps it meanwhile, the program's own
    // call fails as well.
    Some(unsafe { number.read_unaligned() })
}

/// The process id; in a child of `vfork`, its own.
pub(crate) fn process() -> c_int {
    // SAFETY: passes no pointer.
    unsafe { libc::syscall(libc::SYS_getpid) as c_int }
}

/// Number of pages of a range that are in memory.
///
/// # Errors
/// If the kernel does not answer.
pub(crate) fn cached_pages(fd: c_int, offset: u64, length: u64) -> Result<u64, ResidencyError> {
    let range = [offset, length];
    let mut counts = [0u64; 5];
    // SAFETY: both arrays are local, and have the sizes of `struct cachestat_range` and `struct
    // cachestat`.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, fd, range.as_ptr(), counts.as_mut_ptr(), 0u32) };
    match result {
        0 => Ok(counts[0]),
        _ => Err(failed()),
    }
}

/// Whether a byte of a file can be read without waiting.
///
/// # Errors
/// If the kernel does not answer.
pub(crate) fn reads_at_once(fd: c_int, offset: u64) -> Result<bool, ResidencyError> {
    let mut byte = 0u8;
    let vector = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: the vector refers to one local byte.
    let result = unsafe {
        libc::syscall(
            libc::SYS_preadv2,
            fd,
            &raw const vector,
            1 as c_long,
            offset as c_long,
            0 as c_long,
            libc::RWF_NOWAIT as c_long,
        )
    };
    match result {
        1 => Ok(true),
        // The file was truncated: nothing to wait for.
        0 => Ok(true),
        _ => match errno() {
            libc::EAGAIN => Ok(false),
            libc::EOPNOTSUPP | libc::ENOSYS => Err(ResidencyError::Unknown),
            _ => Err(failed()),
        },
    }
}

/// Most pages queried by one `mincore`: the largest range and its partial pages.
const PAGES_MAX: usize = 1026;

/// Whether all pages of a range are in memory, determined by mapping it.
pub(crate) fn mapped_resident(fd: c_int, offset: u64, length: u64) -> Option<bool> {
    let start = offset / PAGE_BYTES * PAGE_BYTES;
    let bytes = offset.checked_add(length)?.checked_sub(start)? as usize;
    let pages = bytes.div_ceil(PAGE_BYTES as usize);
    let mut states = [0u8; PAGES_MAX];
    if pages > PAGES_MAX {
        return None;
    }
    // SAFETY: a new mapping, which overlaps nothing and is never accessed.
    let mapping = unsafe {
        libc::syscall(
            libc::SYS_mmap,
            ptr::null_mut::<c_void>(),
            bytes,
            libc::PROT_READ,
            libc::MAP_SHARED,
            fd,
            start,
        )
    };
    if mapping < 0 {
        return None;
    }
    // SAFETY: the mapping is as long as `bytes`, and there is a state for each of its pages.
    let asked = unsafe { libc::syscall(libc::SYS_mincore, mapping, bytes, states.as_mut_ptr()) };
    // SAFETY: the mapping made above, known only here.
    unsafe { libc::syscall(libc::SYS_munmap, mapping, bytes) };
    let states = states.get(..pages)?;
    (asked == 0).then(|| states.iter().all(|state| state & 1 == 1))
}

/// The kernel reads ahead at most its largest request per call, which may be as small as this.
const READ_AHEAD_BYTES: u64 = 512 << 10;

/// Makes the kernel start reading a range.
pub(crate) fn read_ahead(fd: c_int, offset: u64, length: u64) {
    let end = offset.saturating_add(length);
    let mut at = offset;
    while at < end {
        let bytes = READ_AHEAD_BYTES.min(end - at);
        // SAFETY: passes no pointer.
        if unsafe { libc::syscall(libc::SYS_readahead, fd, at, bytes) } != 0 {
            return;
        }
        at += bytes;
    }
}

/// Whether a seccomp filter restricts the process.
pub(super) fn is_filtered() -> bool {
    // SAFETY: passes no pointer.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_SECCOMP, 0, 0, 0, 0) != 0 }
}

static ADDRESS: OnceLock<libc::sockaddr_un> = OnceLock::new();

/// Sets the daemon's address from the environment. A path that is too long disables connecting.
pub(super) fn set_address() {
    let path = std::env::var_os(environment::SOCKET);
    let path = path
        .as_ref()
        .map_or(SOCKET_DEFAULT.as_bytes(), |path| path.as_bytes());
    let mut address = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    if path.len() < address.sun_path.len() {
        for (place, byte) in address.sun_path.iter_mut().zip(path) {
            *place = *byte as libc::c_char;
        }
        let _ = ADDRESS.set(address);
    }
}

/// A close-on-exec, non-blocking socket.
pub(crate) fn socket() -> Option<c_int> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: passes no pointer.
    let socket = unsafe { libc::syscall(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
    c_int::try_from(socket).ok().filter(|socket| *socket >= 0)
}

/// Closes a descriptor owned by this library.
pub(crate) fn close(fd: c_int) {
    // SAFETY: passes no pointer, and the caller owns the descriptor.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Result of connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectResult {
    Yes,
    /// The daemon is present but overloaded.
    Busy,
    /// The daemon is absent, or not trusted with a descriptor.
    No,
}

/// Connects to the daemon if it runs as root or as this user: any other process must not receive
/// descriptors of files that this program may read.
pub(crate) fn connect(socket: c_int) -> ConnectResult {
    let Some(address) = ADDRESS.get() else {
        return ConnectResult::No;
    };
    // SAFETY: an address with its true length.
    let result = unsafe {
        libc::syscall(
            libc::SYS_connect,
            socket,
            ptr::from_ref(address),
            size_of::<libc::sockaddr_un>(),
        )
    };
    if result != 0 {
        return match errno() {
            libc::EAGAIN | libc::EINTR => ConnectResult::Busy,
            _ => ConnectResult::No,
        };
    }
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its length are this function's own.
    let asked = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            socket,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            &raw mut peer,
            &raw mut length,
        )
    };
    // SAFETY: passes no pointer.
    let own = unsafe { libc::syscall(libc::SYS_geteuid) };
    match asked == 0 && (peer.uid == 0 || c_long::from(peer.uid) == own) {
        true => ConnectResult::Yes,
        false => ConnectResult::No,
    }
}

/// Buffer for a control message with one descriptor, aligned as its header.
#[repr(C)]
struct ControlMessage {
    header: libc::cmsghdr,
    descriptor: c_int,
}

/// Sends a whole message, with a descriptor if there is one.
pub(crate) fn send(socket: c_int, message: &[u8], descriptor: Option<c_int>) -> bool {
    let mut vector = libc::iovec {
        iov_base: message.as_ptr().cast_mut().cast(),
        iov_len: message.len(),
    };
    let length = mem::offset_of!(ControlMessage, descriptor) + size_of::<c_int>();
    let mut control = ControlMessage {
        header: libc::cmsghdr {
            cmsg_len: length as _,
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        },
        descriptor: descriptor.unwrap_or(-1),
    };
    // SAFETY: a structure of integers and pointers, for which zero is a value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    if descriptor.is_some() {
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = length as _;
    }
    // SAFETY: the header refers to the vector and control message above, which outlive the call.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendmsg,
            socket,
            &raw const header,
            libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(sent) == Ok(message.len())
}

/// Result of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitResult {
    Readable,
    TimedOut,
    Interrupted,
    Failed,
}

/// Waits until the socket is readable.
pub(crate) fn wait_readable(socket: c_int, milliseconds: u64) -> WaitResult {
    let mut poll = libc::pollfd {
        fd: socket,
        events: libc::POLLIN,
        revents: 0,
    };
    let timeout = libc::timespec {
        tv_sec: (milliseconds / 1000) as libc::time_t,
        tv_nsec: ((milliseconds % 1000) * 1_000_000) as c_long,
    };
    // SAFETY: the structures are this function's own; the mask of signals is left as it is.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            &raw mut poll,
            1 as c_long,
            &raw const timeout,
            ptr::null::<c_void>(),
            0 as c_long,
        )
    };
    match result {
        0 => WaitResult::TimedOut,
        1.. => WaitResult::Readable,
        _ if errno() == libc::EINTR => WaitResult::Interrupted,
        _ => WaitResult::Failed,
    }
}

/// The daemon's answer; `None` if the connection is closed or the answer is invalid.
pub(crate) fn receive(socket: c_int) -> Option<Answer> {
    let mut bytes = [0u8; ANSWER_BYTES];
    // SAFETY: the buffer is this function's own, and as long as stated.
    let received = unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            socket,
            bytes.as_mut_ptr(),
            bytes.len(),
            0 as c_long,
            ptr::null_mut::<c_void>(),
            ptr::null_mut::<c_void>(),
        )
    };
    Answer::decode(bytes.get(..usize::try_from(received).ok()?)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn every_query_reports_written_bytes_as_resident() {
        let name = format!("headlong-deception-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut file = std::fs::File::create(&path).expect("created");
        file.write_all(&vec![1; 1 << 20]).expect("written");
        let file = std::fs::File::open(&path).expect("there");
        std::fs::remove_file(&path).expect("removed");
        let fd = file.as_raw_fd();
        match cached_pages(fd, 0, 1 << 20) {
            Ok(pages) => assert_eq!(pages, 256),
            Err(error) => assert_ne!(error, ResidencyError::Other),
        }
        if let Ok(answer) = reads_at_once(fd, 4095) {
            assert!(answer);
        }
        assert_eq!(mapped_resident(fd, 5000, 100_000), Some(true));
        assert_eq!(regular_file(fd).map(|(_, size)| size), Some(1 << 20));
        assert!(is_only_read(fd));
        assert_eq!(position(fd), Some(0));
    }

    #[test]
    fn pipe_is_not_a_regular_file() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let fd = reader.as_raw_fd();
        assert_eq!(regular_file(fd), None);
        assert_eq!(position(fd), None);
        assert_ne!(cached_pages(fd, 0, 4096), Ok(1));
        assert!(cached_pages(-1, 0, 4096).is_err());
        assert_eq!(mapped_resident(fd, 0, 4096), None);
    }

    #[test]
    fn number_is_read_only_at_valid_addresses() {
        let numbers = [7i64, -9];
        let address = numbers.as_ptr().expose_provenance();
        assert_eq!(pointed_at(address + 8), Some(-9));
        let inside = address + 5;
        let bytes = [numbers[0].to_ne_bytes(), numbers[1].to_ne_bytes()].concat();
        let unaligned = bytes[5..13].try_into().expect("eight");
        assert_eq!(pointed_at(inside), Some(i64::from_ne_bytes(unaligned)));
        for nowhere in [0, 1, 64, usize::MAX, usize::MAX - 7, 1 << 62] {
            assert_eq!(pointed_at(nowhere), None, "{nowhere:#x}");
        }
    }

    #[test]
    fn errno_is_restored_on_drop() {
        set_errno(libc::EXDEV);
        {
            let _errno = SavedErrno::save();
            assert_eq!(regular_file(-1), None);
            assert_eq!(errno(), libc::EBADF);
        }
        assert_eq!(errno(), libc::EXDEV);
    }
}
