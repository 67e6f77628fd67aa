//! Entry points at load, in the child of a fork, and at exit.

use super::{original, shared, sys};
use crate::{client, resident, settings, timed_calls};

#[used]
// SAFETY: the dynamic loader calls the entries of this section once, before `main`.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

#[used]
// SAFETY: the C library calls the entries of this section once, at exit.
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_load() {
    let _errno = sys::SavedErrno::save();
    original::look_up();
    shared::map();
    // Under a seccomp filter, use only common system calls.
    if sys::is_filtered() {
        resident::be_careful();
    }
    sys::set_address();
    // SAFETY: the handler allocates nothing and takes no lock, as a child of a fork requires.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // Calls are intercepted from here on.
    settings::read();
}

extern "C" fn in_child() {
    client::after_fork();
}

extern "C" fn at_exit() {
    let _errno = sys::SavedErrno::save();
    timed_calls::at_exit();
}
