//! The functions that interpose libc's.
//!
//! Each runs its own step, makes the original call with unchanged arguments, and returns its
//! result. Functions that C declares as variadic are defined with their full argument list: both
//! conventions pass them in the same registers on x86-64 and aarch64.

use std::mem::transmute;

use libc::{c_char, c_int, c_long, c_uint, c_void, iovec, mode_t, off_t, size_t, ssize_t};

use super::original::{Symbol, address, is_unknown};
use super::sys::set_errno;
use crate::descriptors;
use crate::timed_calls::{
    self, ReadPosition, after, before, before_close, before_closing_all, before_mapping,
    before_replacing, before_sending, not_replaced,
};

/// Assumed length of vectored calls: the list belongs to the program and is not read.
const VECTOR_BYTES: u64 = 128 << 10;

/// Defines an interposed C function: the step before the original call, and the step after it.
macro_rules! hook {
    (
        $name:ident($($argument:ident: $type:ty),*) -> $result:ty, else $missing:expr;
        before $before:expr; after |$state:ident, $value:ident| $after:block
    ) => {
        // SAFETY: interposes the function of this name on purpose, with its type.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            let $state = $before;
            let original = address(Symbol::$name);
            if original.is_null() {
                set_errno(libc::ENOSYS);
                return $missing;
            }
            // SAFETY: the address of the function of this name, which has this type.
            let original: unsafe extern "C-unwind" fn($($type),*) -> $result = unsafe { transmute(original) };
            // SAFETY: the caller's own arguments, unchanged.
            let $value = unsafe { original($($argument),*) };
            $after
            $value
        }
    };
}

/// Functions that read a file.
macro_rules! reads {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $fd:expr, $at:expr, $length:expr;)+) => {
        $(hook! {
            $name($($argument: $type),*) -> $result, else -1;
            before before($fd, $at, $length as u64);
            after |timed, result| { after(timed) }
        })+
    };
}

reads! {
    read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t, fd, ReadPosition::Position, count;
    __read_chk(fd: c_int, buffer: *mut c_void, count: size_t, room: size_t) -> ssize_t,
        fd, ReadPosition::Position, count;
    pread(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t,
        fd, offset_at(offset), count;
    pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t,
        fd, offset_at(offset), count;
    __pread_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t,
        fd, offset_at(offset), count;
    __pread64_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t,
        fd, offset_at(offset), count;
    readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t, fd, ReadPosition::Position, VECTOR_BYTES;
    preadv(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t,
        fd, offset_at(offset), VECTOR_BYTES;
    preadv64(fd: c_int, vector: *const iovec, count: c_int, offset: off_t) -> ssize_t,
        fd, offset_at(offset), VECTOR_BYTES;
    preadv2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t,
        fd, offset_at(offset), flagged(flags);
    preadv64v2(fd: c_int, vector: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t,
        fd, offset_at(offset), flagged(flags);
    splice(fd: c_int, from: *mut off_t, out: c_int, to: *mut off_t, count: size_t, flags: c_uint) -> ssize_t,
        fd, pointed_at(from), count;
    copy_file_range(fd: c_int, from: *mut off_t, out: c_int, to: *mut off_t, count: size_t, flags: c_uint)
        -> ssize_t, fd, pointed_at(from), count;
}

/// Functions that send a file.
macro_rules! sends {
    ($($name:ident)+) => {
        $(hook! {
            $name(out: c_int, fd: c_int, offset: *mut off_t, count: size_t) -> ssize_t, else -1;
            before before_sending(fd, out, pointed_at(offset), count as u64);
            after |timed, result| { after(timed) }
        })+
    };
}

sends! { sendfile sendfile64 }

/// The offset of a call with an explicit one; a negative offset, which the kernel rejects, is out
/// of range. For `preadv2`, -1 means the current position.
fn offset_at(offset: off_t) -> ReadPosition {
    match offset {
        -1 => ReadPosition::Position,
        _ => ReadPosition::Offset(u64::try_from(offset).unwrap_or(u64::MAX)),
    }
}

/// The offset of a call that passes it by pointer.
fn pointed_at(offset: *const off_t) -> ReadPosition {
    match offset.is_null() {
        true => ReadPosition::Position,
        false => ReadPosition::Pointed(offset.expose_provenance()),
    }
}

/// A call that must not wait is passed through.
fn flagged(flags: c_int) -> u64 {
    match flags & libc::RWF_NOWAIT {
        0 => VECTOR_BYTES,
        _ => 0,
    }
}

/// Functions that map a file.
macro_rules! maps {
    ($($name:ident)+) => {
        $(
            // SAFETY: interposes the function of this name on purpose, with its type.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(
                at: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t,
            ) -> *mut c_void {
                // Allocators map memory, also while symbols are being resolved.
                if is_unknown(Symbol::$name) {
                    // SAFETY: the caller's own arguments, as in libc's own function.
                    let mapping = unsafe {
                        libc::syscall(libc::SYS_mmap, at, length, protection, flags, fd, offset)
                    };
                    return mapping as *mut c_void;
                }
                let offset_bytes = u64::try_from(offset).unwrap_or(u64::MAX);
                let is_read = protection & libc::PROT_READ != 0 && flags & libc::MAP_ANONYMOUS == 0;
                let timed = match is_read {
                    true => before_mapping(fd, offset_bytes, length as u64),
                    false => None,
                };
                let original = address(Symbol::$name);
                if original.is_null() {
                    set_errno(libc::ENOSYS);
                    return libc::MAP_FAILED;
                }
                type Original =
                    unsafe extern "C-unwind" fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;
                // SAFETY: the address of the function of this name, which has this type.
                let original: Original = unsafe { transmute(original) };
                // SAFETY: the caller's own arguments, unchanged.
                let mapping = unsafe { original(at, length, protection, flags, fd, offset) };
                after(timed);
                mapping
            }
        )+
    };
}

maps!(mmap mmap64);

/// A newly opened descriptor is not the one that had its number before.
fn forget(fd: c_int) {
    if let Some(entry) = descriptors::entry(fd) {
        entry.forget();
    }
}

/// Functions that return a new descriptor.
macro_rules! opens {
    ($($name:ident($($argument:ident: $type:ty),*);)+) => {
        $(hook! {
            $name($($argument: $type),*) -> c_int, else -1;
            before (); after |_nothing, fd| { forget(fd) }
        })+
    };
}

opens! {
    open(path: *const c_char, flags: c_int, mode: mode_t);
    open64(path: *const c_char, flags: c_int, mode: mode_t);
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t);
    creat(path: *const c_char, mode: mode_t);
    creat64(path: *const c_char, mode: mode_t);
    __open_2(path: *const c_char, flags: c_int);
    __open64_2(path: *const c_char, flags: c_int);
    __openat_2(folder: c_int, path: *const c_char, flags: c_int);
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int);
    dup(fd: c_int);
}

hook! {
    close(fd: c_int) -> c_int, else -1;
    before before_close(fd); after |_is_lost, result| {}
}

hook! {
    dup2(from: c_int, to: c_int) -> c_int, else -1;
    before before_replacing(from, to); after |is_lost, result| {
        if is_lost && result < 0 { not_replaced(to) }
    }
}

hook! {
    dup3(from: c_int, to: c_int, flags: c_int) -> c_int, else -1;
    before before_replacing(from, to); after |is_lost, result| {
        if is_lost && result < 0 { not_replaced(to) }
    }
}

hook! {
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, else -1;
    before match flags {
        0 => before_closing_all(first, last),
        // `CLOSE_RANGE_CLOEXEC` and `CLOSE_RANGE_UNSHARE` leave the descriptors of in-flight calls
        // open.
        _ => descriptors::forget_range(first, last),
    };
    after |_nothing, result| {}
}

hook! {
    closefrom(first: c_int) -> (), else Default::default();
    before before_closing_all(u32::try_from(first).unwrap_or(0), u32::MAX); after |_nothing, _result| {}
}

hook! {
    prctl(option: c_int, a: c_long, b: c_long, c: c_long, d: c_long) -> c_int, else -1;
    before limits_itself(option); after |_nothing, result| {}
}

/// A program about to install a seccomp filter does not expect the system calls of this library:
/// the filter may kill the process for one.
fn limits_itself(option: c_int) {
    if [libc::PR_SET_SECCOMP, libc::PR_SET_NO_NEW_PRIVS].contains(&option) {
        timed_calls::turn_off();
    }
}
