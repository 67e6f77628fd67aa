//! The whole log, as far as the heads of its pieces tell, and what the sums of its sessions need.

use std::collections::{BTreeMap, BTreeSet};

use headlong_characterise::Merge as _;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::piece::{PieceCounts, PieceHead};
use crate::drop_counts::DropCounts;
use crate::files::{FileHint, FileUse, FilesTable, Interners};
use crate::intake::{
    LogLayout, LogOrigin, LogOrigins, ThreadResults, files_table, finish, is_clock_back,
};
use crate::partitions::first_pass::FirstPass;
use crate::partitions::store::Chunks;
use crate::shards::{LogConstants, ShardError, SplitIdentity, StoredKind, stored};
use crate::{Intake, IntakeError, IntakeResult};

/// Why a log cannot be characterised in pieces.
#[derive(Debug, thiserror::Error)]
pub enum PiecesError {
    /// A piece cannot be read, or its requests cannot be kept.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// Bytes of another version, cut or damaged.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A piece was read twice.
    #[error("{name}: piece {number} is here twice; pass on each piece once")]
    Twice {
        /// The log.
        name: String,
        /// The piece.
        number: u32,
    },
    /// Pieces were read for different numbers of shards.
    #[error(
        "{name}: pieces were read for {one} and for {other} shards; read them all for one number"
    )]
    Shards {
        /// The log.
        name: String,
        /// The number of one piece.
        one: u32,
        /// That of another.
        other: u32,
    },
    /// Requests of a shard are missing or repeated.
    #[error(
        "{name}: {found} requests of {of} are here, of {expected} that the pieces have; the source \
         changed while it was read, or a piece was lost: read it again"
    )]
    Requests {
        /// The log.
        name: String,
        /// Their origin: `shard 3`, or `all shards`.
        of: String,
        /// Number of requests that are here.
        found: u64,
        /// Number of requests that were read.
        expected: u64,
    },
}

/// The facts of a log all of whose pieces were read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogSurvey {
    /// Hash of all heads.
    identity: u128,
    shards: u32,
    name: String,
    format: String,
    unused: Vec<String>,
    files: Vec<(Vec<u8>, FileHint)>,
    devices: Vec<Vec<u8>>,
    disks: Vec<Vec<u8>>,
    counts: PieceCounts,
    span_ms: Option<(i64, i64)>,
    dropped: DropCounts,
    /// Addresses that may have more than half of all requests.
    pub(super) crowded: Vec<Vec<u8>>,
}

impl LogSurvey {
    /// From the heads of all pieces, in any order. `name` is what the log is called.
    ///
    /// # Errors
    /// If a head is of another version, damaged or repeated, or of another number of shards.
    pub fn of<'a>(
        name: &str,
        heads: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, PiecesError> {
        let heads = heads.into_iter();
        let heads = heads.map(|head| StoredKind::Piece.contents::<PieceHead>(name, head));
        let mut heads = heads.collect::<Result<Vec<_>, _>>()?;
        heads.sort_by_key(|head| head.number);
        if let Some(pair) = heads
            .windows(2)
            .find(|pair| pair[0].number == pair[1].number)
        {
            return Err(PiecesError::Twice {
                name: name.to_owned(),
                number: pair[0].number,
            });
        }
        let shards = heads.first().map_or(1, |head| head.shards);
        if let Some(other) = heads.iter().find(|head| head.shards != shards) {
            return Err(PiecesError::Shards {
                name: name.to_owned(),
                one: shards,
                other: other.shards,
            });
        }
        let mut hasher = Xxh3::new();
        for head in &heads {
            hasher.update(&stored(head));
        }
        let mut survey = Self {
            identity: hasher.digest128(),
            shards,
            name: name.to_owned(),
            format: String::new(),
            unused: Vec::new(),
            files: Vec::new(),
            devices: Vec::new(),
            disks: Vec::new(),
            counts: PieceCounts::default(),
            span_ms: None,
            dropped: DropCounts::default(),
            crowded: Vec::new(),
        };
        survey.add(heads);
        Ok(survey)
    }

    /// Adds all heads, in the order of their pieces.
    fn add(&mut self, heads: Vec<PieceHead>) {
        let mut files: BTreeMap<Vec<u8>, FileHint> = BTreeMap::new();
        let mut names: [BTreeSet<Vec<u8>>; 3] = Default::default();
        let mut unused: BTreeSet<String> = BTreeSet::new();
        let (mut lines, mut clock_ms) = (0, i64::MIN);
        for head in heads {
            if self.format.is_empty() {
                self.format = head.format;
            }
            for (file, hint) in head.files {
                files.entry(file).or_default().add(hint);
            }
            names[0].extend(head.devices);
            names[1].extend(head.disks);
            names[2].extend(head.crowded);
            unused.extend(head.unused);
            self.counts.add(head.counts);
            if let Some((first_ms, last_ms)) = head.clock_ms {
                self.counts.clocks_back += u64::from(is_clock_back(clock_ms, first_ms));
                clock_ms = last_ms;
            }
            if let Some((first, last)) = head.span_ms {
                let (ours_first, ours_last) = self.span_ms.unwrap_or((first, last));
                self.span_ms = Some((ours_first.min(first), ours_last.max(last)));
            }
            self.dropped.merge(head.dropped.following(lines));
            lines += head.lines;
        }
        self.files = files.into_iter().collect();
        self.unused = unused.into_iter().collect();
        let [devices, disks, crowded] = names.map(|names| names.into_iter().collect());
        (self.devices, self.disks, self.crowded) = (devices, disks, crowded);
    }

    /// Name of the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lines that are no requests, by reason.
    #[cfg(test)]
    pub(super) fn dropped(&self) -> &DropCounts {
        &self.dropped
    }

    /// Number of shards.
    pub fn shards(&self) -> u32 {
        self.shards
    }

    /// Bytes for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        StoredKind::Piece.framed(self)
    }

    /// Reads such bytes.
    ///
    /// # Errors
    /// If they are of another version or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ShardError> {
        StoredKind::Piece.contents("the survey of a log", bytes)
    }

    /// The intake of one process, without the requests.
    pub(super) fn read(
        &self,
        intake: &Intake,
    ) -> Result<(Interners, FilesTable, ThreadResults), IntakeError> {
        let (names, table, dropped) = files_table(intake)?;
        let PieceCounts {
            requests,
            bytes,
            unnamed,
            untimed,
            unplaced,
            unended,
            clocks_back,
        } = self.counts;
        let mut told = ThreadResults {
            dropped: self.dropped.clone(),
            requests,
            bytes,
            unnamed,
            untimed,
            unplaced,
            unended,
            clocks_back,
            ..ThreadResults::default()
        };
        told.dropped.merge(dropped);
        if let Some((first, last)) = self.span_ms {
            told.logs.insert(0, (requests, first, last));
        }
        for (name, hint) in &self.files {
            let file = names.files.intern(name).0;
            if *hint != FileHint::default() {
                told.hints.insert(file, *hint);
            }
        }
        for name in &self.devices {
            names.devices.intern(name);
        }
        for name in &self.disks {
            names.disks.intern(name);
        }
        Ok((names, table, told))
    }

    /// The input of the sums, from the usage by all shards, and the log as one process would have
    /// taken it in, without requests and names of sessions. A shard without a request has no usage.
    ///
    /// # Errors
    /// If the files table cannot be read, a usage is damaged, or requests are missing.
    pub fn plan<'a>(
        &self,
        intake: &Intake,
        usages: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(SumPlan, IntakeResult), PiecesError> {
        let memory = intake.memory_bound()?;
        let (names, table, told) = self.read(intake)?;
        let mut first_pass = FirstPass::default();
        let mut viewers: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        let mut device_sessions: Vec<u64> = Vec::new();
        let mut requests = vec![0; self.shards as usize];
        for bytes in usages {
            let usage: ShardUsage = StoredKind::Piece.contents(&self.name, bytes)?;
            for (file, used) in usage.files {
                first_pass.files.entry(file).or_default().add(used);
            }
            for (viewer, count) in usage.viewers {
                *viewers.entry(viewer).or_default() += count;
            }
            device_sessions.merge(usage.device_sessions);
            if let Some(requests) = requests.get_mut(usage.number as usize) {
                *requests += usage.requests;
            }
        }
        self.check("all shards", requests.iter().sum(), self.counts.requests)?;
        for viewer in viewers.keys() {
            names.viewers.intern(viewer);
        }
        let chunks = Chunks::default();
        let layout = LogLayout::of(intake, memory.loaded, (names, &table, chunks), &told)?;
        let sessions_named = layout.parts.maps.sessions_named;
        first_pass.viewer_requests = (sessions_named..).zip(viewers.into_values()).collect();
        let logs = LogOrigins {
            logs: vec![LogOrigin {
                name: self.name.clone(),
                number: 0,
                format: self.format.clone(),
                unused: self.unused.clone(),
            }],
            left_out: Vec::new(),
        };
        let counts = (told, Vec::new());
        let taken = finish(intake, memory, logs, (layout, &first_pass), counts);
        let constants = LogConstants::new(&taken, device_sessions);
        let mut hasher = Xxh3::new();
        hasher.update(&self.identity.to_le_bytes());
        hasher.update(&stored(&constants));
        let split = SplitIdentity {
            log: hasher.digest128(),
            shards: self.shards,
        };
        let plan = SumPlan {
            constants,
            split,
            requests,
        };
        Ok((plan, taken))
    }

    /// Checks that no request is missing.
    pub(super) fn check(&self, of: &str, found: u64, expected: u64) -> Result<(), PiecesError> {
        match found == expected {
            true => Ok(()),
            false => Err(PiecesError::Requests {
                name: self.name.clone(),
                of: of.to_owned(),
                found,
                expected,
            }),
        }
    }
}

/// How the sessions of a shard use files, and what else the whole log needs of them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ShardUsage {
    pub(super) number: u32,
    pub(super) requests: u64,
    pub(super) files: Vec<(u32, FileUse)>,
    /// Requests of each viewer with one of the addresses that may have most.
    pub(super) viewers: Vec<(Vec<u8>, u64)>,
    /// By device, if there are too many devices to be counted separately.
    pub(super) device_sessions: Vec<u64>,
}

/// The facts of the whole log that the sums of all shards need.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SumPlan {
    pub(super) constants: LogConstants,
    pub(super) split: SplitIdentity,
    /// Number of requests, by shard.
    pub(super) requests: Vec<u64>,
}

impl SumPlan {
    /// Bytes for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        StoredKind::Piece.framed(self)
    }

    /// Reads such bytes.
    ///
    /// # Errors
    /// If they are of another version or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ShardError> {
        StoredKind::Piece.contents("the plan of the sums", bytes)
    }
}
