//! Addresses of the interposed functions: the next definition of each symbol.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Names of C functions, each with the slot for its address.
macro_rules! symbols {
    ($($name:ident),+ $(,)?) => {
        /// A function of libc.
        #[expect(non_camel_case_types, reason = "as libc writes them")]
        #[derive(Debug, Clone, Copy)]
        pub(super) enum Symbol { $($name),+ }

        const NAMES: &[&CStr] = &[$({
            const NAME: &str = concat!(stringify!($name), "\0");
            match CStr::from_bytes_with_nul(NAME.as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name contains no NUL byte"),
            }
        }),+];
    };
}

symbols!(
    read,
    __read_chk,
    pread,
    pread64,
    __pread_chk,
    __pread64_chk,
    readv,
    preadv,
    preadv64,
    preadv2,
    preadv64v2,
    sendfile,
    sendfile64,
    splice,
    copy_file_range,
    mmap,
    mmap64,
    open,
    open64,
    openat,
    openat64,
    creat,
    creat64,
    __open_2,
    __open64_2,
    __openat_2,
    __openat64_2,
    close,
    close_range,
    closefrom,
    dup,
    dup2,
    dup3,
    prctl,
);

static ADDRESSES: [AtomicPtr<c_void>; NAMES.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

/// Resolves all of them, so that no signal handler needs to.
pub(super) fn look_up() {
    for index in 0..NAMES.len() {
        find(index);
    }
}

/// The address; null if the C library has no such function.
#[inline]
pub(super) fn address(symbol: Symbol) -> *mut c_void {
    let index = symbol as usize;
    let known = ADDRESSES[index].load(Ordering::Relaxed);
    match known.is_null() {
        true => find(index),
        false => known,
    }
}

/// Whether the symbol has not been resolved yet.
#[inline]
pub(super) fn is_unknown(symbol: Symbol) -> bool {
    ADDRESSES[symbol as usize].load(Ordering::Relaxed).is_null()
}

#[cold]
fn find(index: usize) -> *mut c_void {
    // SAFETY: the name ends with a NUL byte.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, NAMES[index].as_ptr()) };
    ADDRESSES[index].store(address, Ordering::Relaxed);
    address
}
