//! Files that a search did not look at, and that stay known.
//!
//! The one idea: a directory that is as it was has the files that it had. Others were found when
//! somebody asked for them, in folders that may be entered and not read, that are deeper than searches
//! go, or that are hidden and have links to them: as long as they are as they were they stay what they
//! are, with what of them is in memory.

use std::sync::Arc;

use crate::catalogue::{Catalogue, Located};
use crate::identity::{Identity, is_regular};
use crate::state::{FILES_PER_LOCK, State};
use crate::walk::{Listing, Listings};

/// More are found anew when they are asked for.
const UNLISTED_MAX: usize = 65_536;

impl State {
    /// The files of a directory that is as it was: as they are known, or as they are if they are not.
    pub(crate) fn unchanged(
        &self,
        root: usize,
        listing: &Listing,
        now_ns: u64,
    ) -> Vec<(Arc<str>, Located)> {
        let known = |catalogue: &Catalogue, path: &Arc<str>| {
            let entry = catalogue
                .files
                .get(path)
                .filter(|entry| entry.root == root)?;
            Some((entry.identity, entry.checked_ns()))
        };
        let mut files = Vec::with_capacity(listing.files.len());
        for some in listing.files.chunks(FILES_PER_LOCK) {
            files.extend(self.read(|catalogue| {
                let with_known = some.iter().map(|path| (path, known(catalogue, path)));
                with_known.collect::<Vec<_>>()
            }));
        }
        // Another root's file of the same name may have hidden it, and be gone.
        let look = |path: &str| {
            let stat = self.roots()[root].stat(path).ok();
            let stat = stat.filter(is_regular)?;
            let identity = Identity::of(&stat).settling(self.options.settle_file);
            Some((identity, now_ns))
        };
        let located = files.into_iter().filter_map(|(path, known)| {
            let (identity, checked_ns) = known.or_else(|| look(path))?;
            let located = Located {
                root,
                identity,
                checked_ns,
            };
            Some((Arc::clone(path), located))
        });
        located.collect()
    }

    /// The files of a root that the catalogue has in no folder of `listings`. It asks the disk.
    pub(crate) fn unlisted(
        &self,
        root: usize,
        listings: &Listings,
        now_ns: u64,
    ) -> Vec<(Arc<str>, Located)> {
        let folder = |path: &str| path.rsplit_once('/').map_or(0, |(folder, _)| folder.len());
        let known = self.read(|catalogue| {
            let files = catalogue.files.iter();
            let unlisted = files.filter(|(path, entry)| {
                entry.root == root && !listings.contains_key(&path[..folder(path)])
            });
            let unlisted = unlisted.take(UNLISTED_MAX);
            let unlisted = unlisted.map(|(path, entry)| (Arc::clone(path), entry.identity));
            unlisted.collect::<Vec<_>>()
        });
        let as_it_was = |(path, identity): (Arc<str>, Identity)| {
            let stat = self.roots()[root].stat(&path).ok().filter(is_regular)?;
            let is_same = Identity::of(&stat).settling(self.options.settle_file) == identity;
            let located = Located {
                root,
                identity,
                checked_ns: now_ns,
            };
            is_same.then_some((path, located))
        };
        known.into_iter().filter_map(as_it_was).collect()
    }
}
