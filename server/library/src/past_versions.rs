//! Versions that were served before, so that another version with the same size and modification
//! time does not get their entity tag.
//!
//! Only versions that were replaced or removed are kept, the last one of each path, and at most
//! [`PAST_MAX`] of them, the most recent ones. A restart forgets them.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::identity::FileIdentity;

/// Most versions kept: 64 bytes each.
const PAST_MAX: usize = 65_536;

#[derive(Debug, Clone, Copy)]
struct PastVersion {
    identity: FileIdentity,
    distinction: Option<u64>,
}

/// By hash of the path.
#[derive(Debug, Default)]
struct Generations {
    new: HashMap<u64, PastVersion>,
    old: HashMap<u64, PastVersion>,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct PastVersions(Mutex<Generations>);

impl PastVersions {
    /// A version at a path, with this distinction in its tag, is about to be replaced or removed.
    pub(crate) fn note(&self, path: &str, identity: FileIdentity, distinction: Option<u64>) {
        // The tag of an unsettled version is weak and unique.
        if !identity.is_settled {
            return;
        }
        let mut table = self.lock();
        if table.new.len() >= PAST_MAX / 2 {
            table.old = mem::take(&mut table.new);
        }
        let past = PastVersion {
            identity,
            distinction,
        };
        table.new.insert(xxh3_64(path.as_bytes()), past);
    }

    /// The input of a version's tag besides size and modification time.
    pub(crate) fn distinction(&self, path: &str, identity: &FileIdentity) -> Option<u64> {
        let table = self.lock();
        if table.new.is_empty() && table.old.is_empty() {
            return None;
        }
        let hash = xxh3_64(path.as_bytes());
        let past = table.new.get(&hash).or_else(|| table.old.get(&hash))?;
        let tag = |of: &FileIdentity| (of.size, of.mtime_seconds());
        if tag(&past.identity) != tag(identity) {
            return None;
        }
        let is_other =
            identity.ino != past.identity.ino || identity.may_be_rewritten(&past.identity);
        match is_other {
            true => Some(identity.distinction()),
            false => past.distinction,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        // Every change under the lock leaves a valid table.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
