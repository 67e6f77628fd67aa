//! Names of what is asked for.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Weak;
use alloc::vec::Vec;

use headlong_player::ObjectId;

/// Names of what is asked for, in order of first use.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) paths: Vec<String>,
    /// What each name stands for.
    pub(super) keys: Vec<(u32, u64)>,
    /// By title and place of the file in it.
    pub(super) ids: BTreeMap<(u32, u64), ObjectId>,
    /// Works that somebody watches with an adaptive player, by their first title's number.
    pub(super) watched: BTreeMap<u32, Weak<headlong_player::Title>>,
}

impl Objects {
    /// The number of a name, which is given one if it has none.
    pub(super) fn id(&mut self, key: (u32, u64), path: String) -> ObjectId {
        *self.ids.entry(key).or_insert_with(|| {
            self.paths.push(path);
            self.keys.push(key);
            ObjectId(self.paths.len() as u32 - 1)
        })
    }
}
