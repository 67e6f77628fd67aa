//! Core dumps are off: memory holds keys, tokens and the titles that viewers watch.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Smaller than any dump, and not 0: a limit of 0 does not apply to dumps that the kernel pipes to
/// a crash handler (core(5)), while with a limit of 1 it starts no handler (`fs/coredump.c`).
const LIMIT_BYTES: u64 = 1;

/// Disables core dumps of this process and of the processes that it starts. Debuggers can still be
/// attached, which `PR_SET_DUMPABLE` would prevent.
pub(crate) fn disable() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Core);
    // A service manager may have set 0, and only root may raise it.
    let limit = Some(maximum.map_or(LIMIT_BYTES, |bytes| bytes.min(LIMIT_BYTES)));
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    if let Err(error) = setrlimit(Resource::Core, limit) {
        tracing::warn!(
            %error,
            "cannot disable core dumps, which would contain keys; run `ulimit -c 0` before the start"
        );
    }
}
