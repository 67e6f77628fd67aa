//! The files of one disk: names, inodes, and the history of their versions.

use std::collections::BTreeMap;

use headlong_units::Instant;

use crate::content::ContentKey;

/// An inode, independent of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode(pub(crate) u64);

/// The content of a file from some time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileVersion {
    pub(crate) since: Instant,
    pub(crate) key: ContentKey,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
}

/// The result of `stat`, as `library::Identity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StatIdentity {
    pub(crate) inode: Inode,
    pub(crate) size: u64,
    pub(crate) mtime_ns: i64,
}

/// The file system of one disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileSystemModel {
    inodes: BTreeMap<Inode, Vec<FileVersion>>,
    /// History of the inode of each name.
    names: BTreeMap<String, Vec<(Instant, Option<Inode>)>>,
    /// Inodes of a disk that was replaced: reads of them fail.
    dead: Vec<Inode>,
    seed: u64,
    next: u64,
    tick_ns: u64,
}

impl FileSystemModel {
    pub(crate) fn new(seed: u64, tick_ns: u64) -> Self {
        Self {
            seed,
            tick_ns,
            ..Self::default()
        }
    }

    /// Creates a file under this name, written at wall-clock time `wall_ns`.
    pub(crate) fn create(&mut self, now: Instant, wall_ns: i64, path: &str, size: u64) {
        self.next += 1;
        let inode = Inode(self.next);
        let version = self.version(now, wall_ns, size);
        self.inodes.insert(inode, vec![version]);
        self.point(now, path, Some(inode));
    }

    fn version(&mut self, since: Instant, wall_ns: i64, size: u64) -> FileVersion {
        self.next += 1;
        let tick = self.tick_ns as i64;
        FileVersion {
            since,
            key: ContentKey::of(self.seed, self.next),
            size,
            mtime_ns: wall_ns.div_euclid(tick) * tick,
        }
    }

    fn point(&mut self, now: Instant, path: &str, inode: Option<Inode>) {
        self.names
            .entry(path.to_owned())
            .or_default()
            .push((now, inode));
    }

    /// Other bytes in place; with `size`, the same content truncated or extended.
    pub(crate) fn write(&mut self, now: Instant, wall_ns: i64, path: &str, size: Option<u64>) {
        let Some(inode) = self.lookup(path) else {
            return;
        };
        let Some(before) = self.current(inode) else {
            return;
        };
        let mut version = self.version(now, wall_ns, size.unwrap_or(before.size));
        if size.is_some() {
            version.key = before.key;
        }
        if let Some(versions) = self.inodes.get_mut(&inode) {
            versions.push(version);
        }
    }

    pub(crate) fn remove(&mut self, now: Instant, path: &str) {
        self.point(now, path, None);
    }

    /// Replaces all files, partly with other sizes, under the same names.
    pub(crate) fn change_all(&mut self, now: Instant, wall_ns: i64) {
        self.dead.extend(self.inodes.keys());
        let names: Vec<String> = self.names.keys().cloned().collect();
        for (index, path) in names.iter().enumerate() {
            let size = self
                .lookup(path)
                .and_then(|inode| self.current(inode))
                .map_or(100, |of| of.size);
            match index % 3 {
                0 => self.create(now, wall_ns, path, size),
                1 => self.create(now, wall_ns, path, size / 2 + 1),
                _ => self.remove(now, path),
            }
        }
    }

    /// The current inode of a name.
    pub(crate) fn lookup(&self, path: &str) -> Option<Inode> {
        self.names.get(path)?.last()?.1
    }

    pub(crate) fn is_dead(&self, inode: Inode) -> bool {
        self.dead.contains(&inode)
    }

    pub(crate) fn current(&self, inode: Inode) -> Option<FileVersion> {
        self.inodes.get(&inode)?.last().copied()
    }

    pub(crate) fn identity(&self, inode: Inode) -> Option<StatIdentity> {
        let FileVersion { size, mtime_ns, .. } = self.current(inode)?;
        Some(StatIdentity {
            inode,
            size,
            mtime_ns,
        })
    }

    /// The version at a time.
    pub(crate) fn at(&self, inode: Inode, time: Instant) -> Option<FileVersion> {
        let versions = self.inodes.get(&inode)?.iter().rev();
        versions.into_iter().find(|of| of.since <= time).copied()
    }

    /// Keys of the versions with this identity; more than one if versions are indistinguishable.
    pub(crate) fn keys_of(&self, identity: StatIdentity) -> Vec<ContentKey> {
        let versions = self.inodes.get(&identity.inode).into_iter().flatten();
        let is_it =
            |of: &&FileVersion| (of.size, of.mtime_ns) == (identity.size, identity.mtime_ns);
        let mut keys: Vec<ContentKey> = versions.filter(is_it).map(|of| of.key).collect();
        keys.dedup();
        keys
    }

    /// Whether bytes match any version of any file that had this name.
    pub(crate) fn is_of_other_version(&self, path: &str, offset: u64, bytes: &[u8]) -> bool {
        let inodes = self
            .names
            .get(path)
            .into_iter()
            .flatten()
            .filter_map(|(_, inode)| *inode);
        let mut versions = inodes.filter_map(|inode| self.inodes.get(&inode)).flatten();
        versions.any(|of| of.key.first_difference(offset, bytes).is_none())
    }

    /// Whether the name led to a file of this identity at some time in `from..=to`.
    pub(crate) fn was_there(
        &self,
        path: &str,
        identity: StatIdentity,
        from: Instant,
        to: Instant,
    ) -> bool {
        let Some(names) = self.names.get(path) else {
            return false;
        };
        names.iter().enumerate().any(|(index, (since, inode))| {
            let until = names.get(index + 1).map_or(Instant::NEVER, |next| next.0);
            *inode == Some(identity.inode)
                && *since <= to
                && until >= from
                && self.has_identity(identity, from.max(*since), to.min(until))
        })
    }

    fn has_identity(&self, identity: StatIdentity, from: Instant, to: Instant) -> bool {
        let Some(versions) = self.inodes.get(&identity.inode) else {
            return false;
        };
        versions.iter().enumerate().any(|(index, of)| {
            let until = versions
                .get(index + 1)
                .map_or(Instant::NEVER, |next| next.since);
            (of.size, of.mtime_ns) == (identity.size, identity.mtime_ns)
                && of.since <= to
                && until >= from
        })
    }
}
