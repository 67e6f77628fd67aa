//! Partitions: requests distributed by session, so that each partition fits in memory.
//!
//! A request goes, as a few bytes, to the partition given by the hash of its session's name.
//! Consumers iterate over the partitions, several at a time, and see all requests of some sessions
//! together.
//!
//! Invariants: the assignment of requests to partitions depends on the logs only, not on threads or
//! memory, but their order within one does; a partition too large to load is divided by session,
//! and read once for each division.

pub(crate) mod first_pass;
pub(crate) mod maps;
pub(crate) mod record;
pub(crate) mod store;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use headlong_chains::Request;
use headlong_characterise::SessionSplitter;

use crate::names::{Names, hash_number};
use maps::NumberMaps;
use record::Decoder;
use store::Chunks;

/// Number of partitions.
pub(crate) const PARTS: usize = 256;

/// Memory of a loaded request, including the memory for joining it to chains, bytes.
pub(crate) const REQUEST_BYTES: u64 =
    size_of::<Request>() as u64 + SessionSplitter::BYTES_PER_REQUEST;
/// Limit of requests that are joined at once.
const JOINED_MAX: u64 = u32::MAX as u64 - 1;

/// Why partitions could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum PartitionsError {
    /// The spill file could not be read.
    #[error("cannot read the spill file of requests: {0}; check its folder")]
    Read(#[from] io::Error),
    /// The spill file is corrupt.
    #[error("the spill file of requests is damaged; check the disk that stores it")]
    Damaged,
    /// One session or viewer has more requests than may be loaded.
    #[error(
        "{name}: the requests of this session, or of this address and user agent (~), exceed the \
         {} MiB for loaded requests; allow more memory, use a single thread, or identify sessions \
         by --session-field", allowed >> 20
    )]
    TooMany {
        /// Its number, before viewers were divided.
        session: u32,
        /// Its name.
        name: String,
        /// Memory for the loaded requests of a thread, bytes.
        allowed: u64,
    },
}

impl PartitionsError {
    /// Adds the name of the session; viewers follow sessions in the numbering.
    pub(crate) fn named(mut self, sessions: &Names, viewers: &Names) -> Self {
        if let Self::TooMany { session, name, .. } = &mut self {
            let named = sessions.whole_len() as u32;
            *name = match session.checked_sub(named) {
                Some(viewer) => viewers.get(viewer).to_string(),
                None => sessions.get(*session).to_string(),
            };
        }
        self
    }
}

/// All requests, in partitions.
#[derive(Debug)]
pub struct Partitions {
    chunks: Chunks,
    units: Vec<LoadUnit>,
    pub(crate) maps: NumberMaps,
    load_bytes_max: u64,
}

/// A unit of loading: a partition, or a division of a large one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoadUnit {
    part: usize,
    division: u32,
    of: u32,
    requests_max: u64,
}

impl Partitions {
    /// Partitions of these chunks, of which `load_bytes_max` bytes may be loaded at a time.
    pub(crate) fn new(chunks: Chunks, maps: NumberMaps, load_bytes_max: u64) -> Self {
        let mut units = Vec::new();
        // Eight at a time, or more if they are smaller; independent of the number of threads, or
        // the sums would depend on the machine.
        let unit_max = (load_bytes_max / 8 / REQUEST_BYTES).clamp(1, JOINED_MAX);
        for part in 0..chunks.parts() {
            let count = chunks.count(part);
            let of = count.div_ceil(unit_max) as u32;
            units.extend((0..of).map(|division| LoadUnit {
                part,
                division,
                of,
                requests_max: if of == 1 { count } else { unit_max * 2 },
            }));
        }
        Self {
            chunks,
            units,
            maps,
            load_bytes_max,
        }
    }

    /// The number of non-empty units.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Bytes spilled to a file.
    pub fn spilled_bytes(&self) -> u64 {
        self.chunks.spilled_bytes()
    }

    /// Calls `f` with the number of each unit and all requests of its sessions, in unspecified
    /// order, which depends on threads. `f` may modify the requests. Several units are processed at
    /// a time, on up to `threads` threads, as memory allows. Returns the results in order of units.
    pub fn each_unsorted<T: Send>(
        &self,
        threads: usize,
        f: impl Fn(usize, &mut Vec<Request>) -> T + Sync,
    ) -> Result<Vec<T>, PartitionsError> {
        self.each_awaited(threads, f, || ())
    }

    /// The same, for an `f` that waits for those of earlier units: `give_up` is called if there is
    /// none for one of them, because it cannot be loaded.
    pub(crate) fn each_awaited<T: Send>(
        &self,
        threads: usize,
        f: impl Fn(usize, &mut Vec<Request>) -> T + Sync,
        give_up: impl Fn() + Sync,
    ) -> Result<Vec<T>, PartitionsError> {
        self.each_loaded(threads, |number, loader, unit| {
            let mut on_failure = OnFailure(Some(&give_up));
            loader.load(unit)?;
            let result = f(number, &mut loader.requests);
            on_failure.0 = None;
            Ok(result)
        })
    }

    fn each_loaded<'s, T: Send>(
        &'s self,
        threads: usize,
        f: impl Fn(usize, &mut Loader<'s>, LoadUnit) -> Result<T, PartitionsError> + Sync,
    ) -> Result<Vec<T>, PartitionsError> {
        let largest = self.units.iter().map(|unit| unit.requests_max).max();
        let fitting = self.load_bytes_max / (largest.unwrap_or(1).max(1) * REQUEST_BYTES);
        let threads = threads
            .min(fitting.max(1) as usize)
            .clamp(1, self.units.len().max(1));
        // The share of a thread, so that all together stay within the limit.
        let share = self.load_bytes_max / REQUEST_BYTES / threads as u64;
        let share = share.clamp(1, JOINED_MAX) as usize;
        let next = AtomicUsize::new(0);
        let outcomes: Mutex<Vec<Option<T>>> = Mutex::new(self.units.iter().map(|_| None).collect());
        let work = || -> Result<(), PartitionsError> {
            let mut loader = Loader::new(self, share);
            loop {
                let number = next.fetch_add(1, Relaxed);
                let Some(unit) = self.units.get(number) else {
                    return Ok(());
                };
                let outcome = f(number, &mut loader, *unit).inspect_err(|_| {
                    next.store(self.units.len(), Relaxed);
                })?;
                outcomes.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(outcome);
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut result = work();
            for worker in workers {
                match worker.join() {
                    Ok(outcome) => result = result.and(outcome),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            result
        })?;
        let outcomes = outcomes.into_inner();
        let outcomes = outcomes.unwrap_or_else(PoisonError::into_inner);
        Ok(outcomes.into_iter().flatten().collect())
    }
}

/// Calls a function when it is dropped, also by a panic.
struct OnFailure<'a, F: Fn()>(Option<&'a F>);

impl<F: Fn()> Drop for OnFailure<'_, F> {
    fn drop(&mut self) {
        if let Some(give_up) = self.0 {
            give_up();
        }
    }
}

/// Loads units one at a time, reusing its memory.
struct Loader<'a> {
    parts: &'a Partitions,
    buffer: Vec<u8>,
    requests: Vec<Request>,
    /// Limit of their number.
    requests_max: usize,
}

impl<'a> Loader<'a> {
    fn new(parts: &'a Partitions, requests_max: usize) -> Self {
        Self {
            parts,
            requests_max,
            buffer: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Loads a unit: final numbers, divided sessions, no duplicates.
    fn load(&mut self, unit: LoadUnit) -> Result<(), PartitionsError> {
        self.decode(unit)?;
        let maps = &self.parts.maps;
        if maps.drop_repeated {
            maps::drop_repeated(&mut self.requests, |_| {});
        }
        if let Some(bases) = &maps.bases {
            maps::divide(&mut self.requests, maps, |request, key, number| {
                request.session = bases.get(key as usize).map_or(0, |base| base + number);
            });
        }
        Ok(())
    }

    /// Loads a unit with final numbers; sessions are undivided, and the order is unspecified.
    fn decode(&mut self, unit: LoadUnit) -> Result<(), PartitionsError> {
        let (maps, requests) = (&self.parts.maps, &mut self.requests);
        let requests_max = self.requests_max;
        requests.clear();
        requests.reserve((unit.requests_max as usize).min(requests_max));
        self.parts
            .chunks
            .read(unit.part, &mut self.buffer, |bytes| {
                let mut decoder = Decoder::new(bytes);
                while let Some(record) = decoder.next().map_err(|_| PartitionsError::Damaged)? {
                    let request = maps.settled(&record).ok_or(PartitionsError::Damaged)?;
                    let hash = hash_number(u64::from(request.session));
                    if unit.of == 1 || hash % u64::from(unit.of) == u64::from(unit.division) {
                        if requests.len() == requests_max {
                            return Err(too_many(requests));
                        }
                        requests.push(request);
                    }
                }
                Ok::<_, PartitionsError>(())
            })
    }
}

/// The error for too many requests, naming the session with the most.
fn too_many(requests: &mut [Request]) -> PartitionsError {
    requests.sort_unstable_by_key(|request| request.session);
    let sessions = requests.chunk_by(|one, other| one.session == other.session);
    let largest = sessions.max_by_key(|session| session.len());
    let session = largest.map_or(0, |session| session[0].session);
    PartitionsError::TooMany {
        session,
        name: format!("session number {session}"),
        allowed: requests.len() as u64 * REQUEST_BYTES,
    }
}

#[cfg(test)]
#[path = "partitions_tests.rs"]
mod tests;
