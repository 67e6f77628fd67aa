//! The requests of a shard of sessions, from all pieces of a log.

use headlong_chains::ChainRules;

use super::piece::PieceRequests;
use super::survey::{LogSurvey, PiecesError, ShardUsage, SumPlan};
use crate::files::Interners;
use crate::intake::{LogLayout, PART_BUFFER_BYTES, address_of, part_of};
use crate::names::Interner;
use crate::partitions::PARTS;
use crate::partitions::record::{DISK_UNKNOWN, Decoder, Encoder, Record, VIEWER};
use crate::partitions::store::ChunkStore;
use crate::shards::{StoredKind, sessions_by_device, sum_sessions};
use crate::{Intake, IntakeError, PartialSums, PartitionsError};

/// The requests of a shard.
#[derive(Debug)]
pub struct ShardRequests<'s> {
    survey: &'s LogSurvey,
    intake: &'s Intake,
    layout: LogLayout,
    number: u32,
    requests: u64,
}

impl<'s> ShardRequests<'s> {
    /// The shard of this number, from the parts that all pieces have of it, in any order. `intake`
    /// is that of the pieces; its logs are not read.
    ///
    /// # Errors
    /// If a part is of another version or damaged, the files table cannot be read, or memory or the
    /// disk for spilled data runs out.
    pub fn of<'p>(
        survey: &'s LogSurvey,
        intake: &'s Intake,
        number: u32,
        parts: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<Self, PiecesError> {
        let memory = intake.memory_bound()?;
        let (names, table, told) = survey.read(intake)?;
        let folder = intake.spill.clone().unwrap_or_else(std::env::temp_dir);
        let store = ChunkStore::new(PARTS, memory.kept, folder.clone());
        let not_stored = |source| IntakeError::Spill {
            folder: folder.clone(),
            source,
        };
        let mut encoders: Vec<Encoder> = (0..PARTS).map(|_| Encoder::default()).collect();
        let mut requests = 0;
        for part in parts {
            let part: PieceRequests = StoredKind::Piece.contents(survey.name(), part)?;
            requests += u64::from(part.count);
            let numbers = PartNumbers::of(&part, &names);
            if names.bytes() > memory.names / 2 {
                let allowed = memory.names;
                return Err(IntakeError::Names { allowed }.into());
            }
            let mut decoder = Decoder::new(&part.records);
            while let Some(record) = decoder.next().map_err(|_| damaged())? {
                let (record, to) = numbers.record(record).ok_or_else(damaged)?;
                encoders[to].push(&record);
                if encoders[to].len() >= PART_BUFFER_BYTES {
                    let (bytes, count) = encoders[to].take();
                    store.add(to, bytes, count).map_err(not_stored)?;
                }
            }
        }
        for (to, mut encoder) in encoders.into_iter().enumerate() {
            let (bytes, count) = encoder.take();
            if count > 0 {
                store.add(to, bytes, count).map_err(not_stored)?;
            }
        }
        let chunks = store.finish();
        Ok(Self {
            survey,
            intake,
            layout: LogLayout::of(intake, memory.loaded, (names, &table, chunks), &told)?,
            number,
            requests,
        })
    }

    /// How its sessions use files, for [`LogSurvey::plan`].
    ///
    /// # Errors
    /// If requests cannot be read back.
    pub fn usage(mut self) -> Result<Vec<u8>, PiecesError> {
        let threads = self.intake.threads;
        let layout = &mut self.layout;
        let first_pass = layout.first_pass(threads, layout.has_estimates(self.intake))?;
        let sessions_named = layout.parts.maps.sessions_named;
        let viewers = (0..layout.viewers.whole_len() as u32).filter_map(|viewer| {
            let name = layout.viewers.bytes(viewer);
            let is_crowded = |address: &Vec<u8>| *address == address_of(&name);
            let requests = first_pass.viewer_requests.get(&(sessions_named + viewer));
            let is_wanted = self.survey.crowded.iter().any(is_crowded);
            is_wanted.then(|| (name.into_owned(), requests.copied().unwrap_or(0)))
        });
        let viewers = viewers.collect();
        layout.divide(&first_pass);
        let device_sessions = sessions_by_device(&layout.parts, layout.devices.len(), threads);
        let usage = ShardUsage {
            number: self.number,
            requests: self.requests,
            files: first_pass.files.into_iter().collect(),
            viewers,
            device_sessions: device_sessions.map_err(IntakeError::from)?,
        };
        Ok(StoredKind::Piece.framed(&usage))
    }

    /// Sums its sessions.
    ///
    /// # Errors
    /// If requests cannot be read back, or some of those that the plan counts are missing.
    pub fn sums(mut self, plan: &SumPlan, rules: ChainRules) -> Result<PartialSums, PiecesError> {
        let expected = plan.requests.get(self.number as usize).copied();
        let of = format!("shard {}", self.number);
        self.survey
            .check(&of, self.requests, expected.unwrap_or(0))?;
        let threads = self.intake.threads;
        let first_pass = self.layout.first_pass(threads, false)?;
        self.layout.divide(&first_pass);
        let log = plan.constants.context();
        let parts = &self.layout.parts;
        let waits_for_none = (|_, _: &mut _, _: &mut [_]| Ok(()), || ());
        let how = (rules, threads);
        let sums = sum_sessions::<IntakeError>(parts, &log, how, waits_for_none, |_| {})?;
        let shard = (plan.split, self.number);
        Ok(PartialSums::of_shard(
            plan.constants.clone(),
            shard,
            rules,
            sums,
        ))
    }
}

fn damaged() -> IntakeError {
    PartitionsError::Damaged.into()
}

/// Provisional numbers of the names of a part.
struct PartNumbers {
    /// With their partitions.
    sessions: Vec<(u32, usize)>,
    viewers: Vec<(u32, usize)>,
    files: Vec<u32>,
    devices: Vec<u32>,
    disks: Vec<u32>,
}

impl PartNumbers {
    fn of(part: &PieceRequests, names: &Interners) -> Self {
        let numbers = |all: &[Vec<u8>], interner: &Interner| -> Vec<u32> {
            all.iter().map(|name| interner.intern(name).0).collect()
        };
        let parted = |all: &[Vec<u8>], interner: &Interner, flag: u32| -> Vec<(u32, usize)> {
            let interned = all.iter().map(|name| interner.intern(name));
            let parted = interned.map(|(number, hash)| (number | flag, part_of(hash)));
            parted.collect()
        };
        Self {
            sessions: parted(&part.sessions, &names.sessions, 0),
            viewers: parted(&part.viewers, &names.viewers, VIEWER),
            files: numbers(&part.files, &names.files),
            devices: numbers(&part.devices, &names.devices),
            disks: numbers(&part.disks, &names.disks),
        }
    }

    /// The record in provisional numbers, and its partition; `None` if it has no such name.
    fn record(&self, mut record: Record) -> Option<(Record, usize)> {
        let request = &mut record.request;
        let place = (request.session & !VIEWER) as usize;
        let (session, part) = match request.session & VIEWER {
            0 => *self.sessions.get(place)?,
            _ => *self.viewers.get(place)?,
        };
        request.session = session;
        request.file = *self.files.get(request.file as usize)?;
        record.device = *self.devices.get(record.device as usize)?;
        if record.disk != DISK_UNKNOWN {
            record.disk = *self.disks.get(record.disk as usize)?;
        }
        Some((record, part))
    }
}
