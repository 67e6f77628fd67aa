//! Ids of requested objects.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Weak;
use alloc::vec::Vec;

use headlong_player::ObjectId;

/// Ids of requested objects, in order of first use.
#[derive(Default)]
pub(super) struct RequestedObjects {
    pub(super) paths: Vec<String>,
    /// Title and file index of each id.
    pub(super) keys: Vec<(u32, u64)>,
    /// Ids by title and file index.
    pub(super) ids: BTreeMap<(u32, u64), ObjectId>,
    /// Works that are being watched with an adaptive player, by their first title's number.
    pub(super) watched: BTreeMap<u32, Weak<headlong_player::Title>>,
}

impl RequestedObjects {
    /// The id of an object; assigns a new one at its first use.
    pub(super) fn id(&mut self, key: (u32, u64), path: String) -> ObjectId {
        *self.ids.entry(key).or_insert_with(|| {
            self.paths.push(path);
            self.keys.push(key);
            ObjectId(self.paths.len() as u32 - 1)
        })
    }
}
