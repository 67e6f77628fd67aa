//! The objects of a trace, in order of their first use.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use headlong_player::ObjectId;

/// Paths, and the index of each.
#[derive(Default)]
pub(super) struct ObjectTable {
    pub(super) paths: Vec<String>,
    by_path: BTreeMap<String, u32>,
}

impl ObjectTable {
    /// The object of this path.
    pub(super) fn named(&mut self, path: String) -> ObjectId {
        let next = self.paths.len() as u32;
        let id = *self.by_path.entry(path).or_insert_with_key(|path| {
            self.paths.push(path.clone());
            next
        });
        ObjectId(id)
    }

    /// The first of these objects, which must be consecutive in the table. If some were added
    /// before, in another order, all are added again.
    pub(super) fn in_row(&mut self, objects: &[ObjectId]) -> ObjectId {
        let first = objects.first().copied().unwrap_or(ObjectId(0));
        let ones = objects.iter().map(|object| object.0);
        if ones.zip(first.0..).all(|(object, next)| object == next) {
            return first;
        }
        let again = ObjectId(self.paths.len() as u32);
        for object in objects {
            let path = self.paths.get(object.0 as usize).cloned();
            self.paths.extend(path);
        }
        again
    }
}
