//! What happens when the library is loaded, when the process forks, and when it ends.

use super::{original, shared, sys};
use crate::{before, client, resident, settings};

#[used]
// SAFETY: the dynamic loader calls what is in this section once, before the program begins.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

#[used]
// SAFETY: the C library calls what is in this section once, when the process exits.
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_load() {
    let _errno = sys::SavedErrno::save();
    original::look_up();
    shared::map();
    // Who would be filtered out for an unusual call makes none.
    if sys::is_filtered() {
        resident::be_careful();
    }
    sys::set_address();
    // SAFETY: a function that allocates nothing and takes no lock, as a child of a fork may.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // From now on calls are looked at.
    settings::read();
}

extern "C" fn in_child() {
    client::after_fork();
}

extern "C" fn at_exit() {
    let _errno = sys::SavedErrno::save();
    before::at_exit();
}
