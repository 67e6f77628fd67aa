//! Look-ups, a model of `headlong-library`: the file version of a path, and how long the answer is
//! valid.

use std::collections::BTreeMap;
use std::rc::Rc;

use headlong_engine::{Extent, PartSpec, StreamId, StreamSpec};
use headlong_flash::FileKey;
use headlong_mutants::{Mutant, is_active};
use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::files::{FileSystemModel, StatIdentity};
use crate::machine::{DiskPlan, TitlePlan};
use crate::resources::StreamSource;
use crate::session::path;

/// How long after a write a file may be written again with the same timestamp
/// (`LibraryOptions::settle_file`).
const SETTLE_NS: u64 = 2_000_000_000;

/// One version of a file.
#[derive(Debug, Clone)]
pub(crate) struct FileEntry {
    pub(crate) path: String,
    pub(crate) title: usize,
    pub(crate) identity: StatIdentity,
    pub(crate) is_settled: bool,
    pub(crate) stream: StreamId,
    pub(crate) part: u32,
    checked: Option<Instant>,
}

/// The known files of one disk.
#[derive(Debug, Default)]
pub(crate) struct DiskLibrary {
    entries: BTreeMap<String, FileEntry>,
    streams: BTreeMap<StreamId, (Rc<StreamSource>, Vec<bool>)>,
    next: u64,
}

impl DiskLibrary {
    /// The file, if it was checked recently.
    pub(crate) fn recall(
        &self,
        now: Instant,
        path: &str,
        revalidate: Duration,
    ) -> Option<FileEntry> {
        let entry = self.entries.get(path)?;
        if is_active(Mutant::LookUpBelieved) {
            return Some(entry.clone());
        }
        let is_fresh = entry.checked.is_some_and(|at| now.since(at) < revalidate);
        is_fresh.then(|| entry.clone())
    }

    /// The file as of the latest look-up.
    pub(crate) fn remember(&self, path: &str) -> Option<FileEntry> {
        self.entries.get(path).cloned()
    }

    pub(crate) fn distrust(&mut self, path: &str) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.checked = None;
        }
    }

    /// Looks a file up on the disk. Returns the file if it exists, and its previous stream if that
    /// has changed.
    pub(crate) fn look(
        &mut self,
        (now, wall_ns): (Instant, i64),
        (disk, plan): (usize, &DiskPlan),
        files: &FileSystemModel,
        name: &str,
    ) -> (Option<FileEntry>, Option<StreamId>) {
        let found = files.lookup(name).and_then(|inode| files.identity(inode));
        let before = self.entries.get(name).cloned();
        let Some(identity) = found else {
            self.entries.remove(name);
            return (None, before.map(|of| of.stream));
        };
        let is_settled = settled(identity, wall_ns);
        if let Some(entry) = self.entries.get_mut(name)
            && (entry.identity, entry.is_settled) == (identity, is_settled)
        {
            entry.checked = Some(now);
            return (Some(entry.clone()), None);
        }
        let Some((title, part)) = place(disk, plan, name) else {
            return (None, None);
        };
        self.take_in(
            (now, wall_ns),
            (disk, title, &plan.titles[title]),
            files,
            part,
        );
        let gone = before.map(|of| of.stream);
        (self.entries.get(name).cloned(), gone)
    }

    /// Looks up all files of a title; together they form a stream, if none is missing.
    fn take_in(
        &mut self,
        (now, wall_ns): (Instant, i64),
        (disk, title, plan): (usize, usize, &TitlePlan),
        files: &FileSystemModel,
        part: usize,
    ) {
        let look = |part: usize| {
            let name = path(disk, title, part);
            let identity = files
                .lookup(&name)
                .and_then(|inode| files.identity(inode))?;
            Some((name, identity))
        };
        let all: Option<Vec<_>> = (0..plan.sizes.len()).map(look).collect();
        let parts = all.or_else(|| Some(vec![look(part)?])).unwrap_or_default();
        let is_settled: Vec<bool> = parts.iter().map(|(_, of)| settled(*of, wall_ns)).collect();
        let of = (Rc::new(StreamSource { parts }), is_settled);
        let known = self
            .streams
            .iter()
            .find(|(_, known)| **known == of)
            .map(|(id, _)| *id);
        let stream = known.unwrap_or_else(|| {
            self.next += 1;
            StreamId((disk as u64 + 1) << 32 | self.next)
        });
        for (index, ((path, identity), is_settled)) in of.0.parts.iter().zip(&of.1).enumerate() {
            let entry = FileEntry {
                path: path.clone(),
                title,
                identity: *identity,
                is_settled: *is_settled,
                stream,
                part: index as u32,
                checked: Some(now),
            };
            self.entries.insert(path.clone(), entry);
        }
        self.streams.insert(stream, of);
    }

    /// The engine's specification of a stream.
    pub(crate) fn spec(
        &self,
        stream: StreamId,
        plan: &TitlePlan,
        disk: usize,
    ) -> Option<(StreamSpec, Rc<StreamSource>)> {
        let (source, is_settled) = self.streams.get(&stream)?;
        let parts = source
            .parts
            .iter()
            .zip(is_settled)
            .map(|((path, identity), is_settled)| {
                let extent = Extent {
                    offset: 0,
                    physical: identity.inode.0 << 24,
                    length: identity.size,
                };
                PartSpec {
                    size_bytes: identity.size,
                    extents: if plan.is_placed {
                        vec![extent]
                    } else {
                        Vec::new()
                    },
                    flash_key: is_settled.then(|| key(disk, path, *identity)),
                    is_absent: false,
                }
            });
        let spec = StreamSpec {
            id: stream,
            parts: parts.collect(),
            bit_rate: plan.bit_rate,
        };
        Some((spec, Rc::clone(source)))
    }
}

fn settled(identity: StatIdentity, wall_ns: i64) -> bool {
    wall_ns.abs_diff(identity.mtime_ns) >= SETTLE_NS
}

/// The title and the part of a path.
fn place(disk: usize, plan: &DiskPlan, name: &str) -> Option<(usize, usize)> {
    let titles = plan.titles.iter().enumerate();
    let mut all = titles.flat_map(|(title, of)| (0..of.sizes.len()).map(move |part| (title, part)));
    all.find(|(title, part)| path(disk, *title, *part) == name)
}

/// A key of a file version that is stable across processes.
fn key(disk: usize, path: &str, identity: StatIdentity) -> FileKey {
    let named = Generator::new(disk as u64).fork(path);
    let StatIdentity {
        inode,
        size,
        mtime_ns,
    } = identity;
    let mut versioned = named
        .fork_at(inode.0)
        .fork_at(size)
        .fork_at(mtime_ns as u64);
    let mut named = named;
    match is_active(Mutant::KeyWithoutVersion) {
        true => FileKey(u128::from(named.bits())),
        false => FileKey(u128::from(versioned.bits()) << 64 | u128::from(versioned.bits())),
    }
}
