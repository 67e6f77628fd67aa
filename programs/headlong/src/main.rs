//! See the library. Here is only the allocator, which a program selects and not a library.

#![allow(unsafe_code)]

use tikv_jemallocator::Jemalloc;

/// glibc's allocator keeps what was freed in the middle of its arenas: ten floods of 64,000
/// requests over HTTP/2 left a fifth of the process's size behind. With this one and these options
/// it is a twentieth, and seconds after a flood instead of a minute.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Free pages return to the kernel after a second, also while the process is idle (a thread of the
/// allocator does that). A cache of each thread would hold a flood's allocations indefinitely.
// SAFETY: jemalloc reads a symbol of this name as `const char *`; the string ends with a zero byte
// and lives as long as the process. No other object defines the name.
#[unsafe(export_name = "_rjem_malloc_conf")]
static OPTIONS: Option<&'static std::ffi::c_char> =
    // SAFETY: the pointer is to the first byte of a string that is never freed.
    Some(unsafe {
        &*c"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,tcache:false".as_ptr()
    });

fn main() -> std::process::ExitCode {
    headlong::main()
}
