//! State of the titles of one path: their versions by name and by key, and the space they use.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use headlong_pull::{NegativeCache, SliceCache, SliceKey};
use tokio::sync::watch;

use super::title::OriginTitle;
use super::version::{QueryOutcome, SlicePart, Version};

/// Upper limit of remembered titles without slices.
pub(super) const TITLES_MAX: usize = 65_536;

/// The complete state, under one lock.
pub(super) struct PullState {
    pub(super) titles: HashMap<Arc<str>, OriginTitle>,
    pub(super) by_key: HashMap<u128, Arc<Version>>,
    pub(super) space: SliceCache,
    /// Disk usage of the slices being written.
    pub(super) coming_bytes: u64,
    /// Slices and pieces in memory that could not be stored, oldest first, and their size in bytes.
    pub(super) unstored: VecDeque<(Arc<Version>, SlicePart)>,
    pub(super) unstored_bytes: u64,
    pub(super) negative: NegativeCache,
    pub(super) looked: usize,
}

impl PullState {
    /// Forgets titles without slices if there are many. Returns the folders of their versions,
    /// which the caller removes.
    pub(super) fn make_room(&mut self) -> Vec<PathBuf> {
        self.looked += 1;
        if self.looked < TITLES_MAX {
            return Vec::new();
        }
        self.looked = 0;
        let by_key = &mut self.by_key;
        let mut folders = Vec::new();
        self.titles.retain(|_, title| {
            // The table of versions holds another reference.
            if let Some((version, _)) = &title.version
                && !version.table().present.contains(&true)
            {
                by_key.remove(&version.key);
            }
            let is_idle = title.is_idle();
            match (is_idle, &title.version) {
                (false, Some((version, _))) => {
                    by_key.insert(version.key, Arc::clone(version));
                }
                (true, Some((version, _))) => folders.push(version.folder.clone()),
                (_, None) => {}
            }
            !is_idle
        });
        folders
    }

    /// Cancels the query about an unknown title if no request waits for it any more, and forgets
    /// the title. Returns whether the query is cancelled. One receiver is held by the table.
    pub(super) fn gives_up(&mut self, path: &str, say: &watch::Sender<QueryOutcome>) -> bool {
        let title = self.titles.get(path);
        let is_known = title.is_some_and(|title| title.version.is_some());
        let gives_up = !is_known && say.receiver_count() <= 1;
        if gives_up {
            self.titles.remove(path);
        }
        gives_up
    }

    /// Keeps bytes that could not be stored in memory, at most `bytes_max` in all.
    pub(super) fn add_unstored(&mut self, version: &Arc<Version>, part: SlicePart, bytes_max: u64) {
        self.unstored_bytes += part.range(version.slices).len();
        self.unstored.push_back((Arc::clone(version), part));
        while self.unstored_bytes > bytes_max
            && let Some((version, part)) = self.unstored.pop_front()
        {
            self.unstored_bytes -= part.range(version.slices).len();
            version.table().coming.remove(&part);
        }
    }

    /// Forgets the bytes of these versions that could not be stored.
    pub(super) fn forget_unstored(&mut self, is_meant: impl Fn(&Version) -> bool) {
        let mut forgotten_bytes = 0;
        self.unstored.retain(|(version, part)| {
            let is_meant = is_meant(version);
            if is_meant {
                forgotten_bytes += part.range(version.slices).len();
                version.table().coming.remove(part);
            }
            !is_meant
        });
        self.unstored_bytes -= forgotten_bytes;
    }

    /// Whether a reply uses a slice.
    pub(super) fn is_pinned(&self, key: SliceKey) -> bool {
        let version = self.by_key.get(&key.version);
        version.is_some_and(|version| version.table().pins.contains_key(&key.index))
    }

    /// The version with this key, if a path refers to it.
    pub(super) fn version(&self, key: u128) -> Option<&Arc<Version>> {
        self.by_key.get(&key)
    }
}
