//! Shards: files that each hold some sessions of a log, in final numbers.
//!
//! ```text
//! first line | chunks of records | packed index | length of the index, 8 bytes | checksum, 8 bytes
//! ```

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use headlong_chains::Request;
use headlong_report::Output;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::constants::LogConstants;
use super::error::ShardError;
use super::framing::{CHECKSUM_BYTES, LINE_BYTES_MAX, StoredKind, packed, stored, unpacked};
use crate::names::hash_number;
use crate::ordered_turns::OrderedTurns;
use crate::partitions::maps::NumberMaps;
use crate::partitions::record::{Encoder, Record};
use crate::partitions::store::Chunks;
use crate::spill::{SpilledBytes, StoredBytes};
use crate::{IntakeResult, Partitions};

/// Most shards: each is an open file during the split.
pub const SHARDS_MAX: u32 = 512;

/// Bytes of the length of the index and of the checksum.
const END_BYTES: usize = 8 + CHECKSUM_BYTES;

/// How a log is split.
#[derive(Debug, Clone)]
pub struct SplitSettings {
    /// An existing folder for the shards.
    pub folder: PathBuf,
    /// Their number, 1 to [`SHARDS_MAX`].
    pub shards: u32,
    /// Threads.
    pub threads: usize,
    /// The words of a command line that reads the log alike without a split, for the merged report.
    pub words: Vec<String>,
}

/// Identity of a split: parts with the same one are of the same log, read with the same options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SplitIdentity {
    /// Hash of the constants and of all shards.
    pub(crate) log: u128,
    /// Number of shards.
    pub(crate) shards: u32,
}

impl SplitIdentity {
    /// A log that was not split.
    pub(super) fn whole(constants: &LogConstants) -> Self {
        let mut hasher = Xxh3::new();
        hasher.update(&stored(constants));
        Self {
            log: hasher.digest128(),
            shards: 1,
        }
    }
}

/// The end of a shard.
#[derive(Debug, Serialize, Deserialize)]
struct ShardIndex {
    constants: LogConstants,
    split: SplitIdentity,
    number: u32,
    chunks: Vec<ChunkPlace>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct ChunkPlace {
    /// Number of records.
    count: u32,
    bytes: u64,
}

/// The shard of a session. Partitions too large to load are divided by the lower bits of the hash.
fn shard_of(session: u32, shards: u32) -> u32 {
    ((hash_number(u64::from(session)) >> 32) % u64::from(shards.max(1))) as u32
}

/// A shard being written.
struct ShardWriter {
    path: PathBuf,
    output: Output,
    hasher: Xxh3,
    chunks: Vec<ChunkPlace>,
}

impl ShardWriter {
    fn create(settings: &SplitSettings, number: u32) -> Result<Self, ShardError> {
        let path = settings.folder.join(format!("shard-{number:03}"));
        let output = Output::begin(&path).map_err(|source| ShardError::Write {
            path: path.clone(),
            source,
        })?;
        let mut shard = Self {
            path,
            output,
            hasher: Xxh3::new(),
            chunks: Vec::new(),
        };
        shard.put(StoredKind::Shard.line().as_bytes())?;
        Ok(shard)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), ShardError> {
        self.hasher.update(bytes);
        let written = self.output.file().write_all(bytes);
        written.map_err(|source| ShardError::Write {
            path: self.path.clone(),
            source,
        })
    }

    fn put_chunk(&mut self, bytes: &[u8], count: u32) -> Result<(), ShardError> {
        self.chunks.push(ChunkPlace {
            count,
            bytes: bytes.len() as u64,
        });
        self.put(bytes)
    }

    fn finish(mut self, index: &ShardIndex) -> Result<PathBuf, ShardError> {
        let index = packed(index);
        self.put(&index)?;
        self.put(&(index.len() as u64).to_le_bytes())?;
        let sum = self.hasher.digest();
        self.put(&sum.to_le_bytes())?;
        let path = self.path;
        match self.output.finish() {
            Ok(()) => Ok(path),
            Err(source) => Err(ShardError::Write { path, source }),
        }
    }
}

/// Divides a log into shards by session, `shard-000` to `shard-NNN` in a folder, and returns their
/// paths. The same log and options give the same files, byte for byte. `done` is called with the
/// number of requests processed so far.
///
/// # Errors
/// If requests cannot be read back, or a shard cannot be written.
pub fn split(
    taken: &IntakeResult,
    settings: &SplitSettings,
    done: impl Fn(u64) + Sync,
) -> Result<Vec<PathBuf>, ShardError> {
    let of = settings.shards;
    if !(1..=SHARDS_MAX).contains(&of) {
        return Err(ShardError::Count {
            count: of,
            most: SHARDS_MAX,
        });
    }
    let not_read = |source| ShardError::Parts {
        name: "the log".to_owned(),
        source,
    };
    let mut constants = LogConstants::of(taken, settings.threads).map_err(not_read)?;
    constants.words.clone_from(&settings.words);
    let writers = (0..of).map(|number| ShardWriter::create(settings, number));
    let writers = writers.collect::<Result<Vec<_>, _>>()?;
    let writers = OrderedTurns::new((writers, 0));
    let put = |unit, requests: &mut Vec<Request>| {
        requests.sort_unstable_by_key(|r| (r.session, r.received_ms, r.line));
        let count = requests.len() as u64;
        let encoded = encoded_by_shard(requests, of);
        writers.take(unit, |(writers, so_far)| {
            *so_far += count;
            done(*so_far);
            let mut pairs = writers.iter_mut().zip(encoded);
            pairs.try_for_each(|(writer, mut records)| match records.take() {
                (_, 0) => Ok(()),
                (bytes, count) => writer.put_chunk(&bytes, count),
            })
        })
    };
    let give_up = || writers.give_up();
    let outcomes = taken.parts.each_awaited(settings.threads, put, give_up);
    outcomes
        .map_err(not_read)?
        .into_iter()
        .collect::<Result<(), ShardError>>()?;
    let (writers, _) = writers.into_inner();
    let mut hasher = Xxh3::new();
    hasher.update(&stored(&constants));
    for writer in &writers {
        hasher.update(&writer.hasher.digest128().to_le_bytes());
    }
    let identity = SplitIdentity {
        log: hasher.digest128(),
        shards: of,
    };
    let mut index = ShardIndex {
        constants,
        split: identity,
        number: 0,
        chunks: Vec::new(),
    };
    let mut paths = Vec::new();
    for (number, mut writer) in (0..of).zip(writers) {
        index.number = number;
        index.chunks = std::mem::take(&mut writer.chunks);
        paths.push(writer.finish(&index)?);
    }
    Ok(paths)
}

/// The records of each shard.
fn encoded_by_shard(requests: &[Request], of: u32) -> Vec<Encoder> {
    let mut all: Vec<Encoder> = (0..of).map(|_| Encoder::default()).collect();
    for request in requests {
        all[shard_of(request.session, of) as usize].push(&Record {
            request: *request,
            disk: u32::from(request.disk),
            device: u32::from(request.device),
        });
    }
    all
}

/// A shard, ready to be summed.
#[derive(Debug)]
pub struct Shard {
    name: String,
    constants: LogConstants,
    split: SplitIdentity,
    number: u32,
    requests: u64,
    parts: Partitions,
}

impl Shard {
    /// Whether a file starts like a shard, of any version. A pipe, which can be read only once, is
    /// not inspected.
    pub fn is_one(path: &Path) -> bool {
        if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
            return false;
        }
        let mut head = [0; 15];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
        read.is_ok() && head == *b"headlong shard "
    }

    /// Opens a shard and checks all of it. Up to `load_bytes_max` bytes of requests are loaded at a
    /// time.
    ///
    /// # Errors
    /// If it cannot be read, is of another version, cut or damaged.
    pub fn open(path: &Path, load_bytes_max: u64) -> Result<Self, ShardError> {
        let name = path.display().to_string();
        let read = |source| ShardError::Read {
            name: name.clone(),
            source,
        };
        let damaged = || StoredKind::Shard.damaged(&name);
        let mut file = File::open(path).map_err(read)?;
        let mut head = Vec::new();
        let head_bytes = LINE_BYTES_MAX as u64;
        (&file)
            .take(head_bytes)
            .read_to_end(&mut head)
            .map_err(read)?;
        let start = StoredKind::Shard.check(&name, &head)? as u64;
        let size = file.metadata().map_err(read)?.len();
        let end = size
            .checked_sub(END_BYTES as u64)
            .filter(|end| *end >= start);
        let end = end.ok_or_else(damaged)?;
        let whole = SpilledBytes::of_file(file.try_clone().map_err(read)?, size);
        let mut tail = [0; END_BYTES];
        read_all(&whole, &mut tail, end).map_err(read)?;
        let (index_bytes, sum) = tail.split_at(8);
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .rev()
                .fold(0, |sum, b| sum << 8 | u64::from(*b))
        };
        if hash_of(&mut file, size - CHECKSUM_BYTES as u64).map_err(read)? != number(sum) {
            return Err(damaged());
        }
        let index_start = end
            .checked_sub(number(index_bytes))
            .filter(|at| *at >= start);
        let index_start = index_start.ok_or_else(damaged)?;
        let mut index = vec![0; (end - index_start) as usize];
        read_all(&whole, &mut index, index_start).map_err(read)?;
        let index: ShardIndex = unpacked(&index).ok_or_else(damaged)?;
        let mut offset = start;
        let mut requests = 0;
        let chunks: Vec<_> = index
            .chunks
            .iter()
            .map(|chunk| {
                let place = StoredBytes::Spilled {
                    offset,
                    bytes: chunk.bytes,
                };
                offset = offset.saturating_add(chunk.bytes);
                requests += u64::from(chunk.count);
                (chunk.count, place)
            })
            .collect();
        let is_whole = offset == index_start && index.number < index.split.shards;
        if !is_whole || !index.constants.are_possible() {
            return Err(damaged());
        }
        let chunks = Chunks::of_file(whole, chunks);
        Ok(Self {
            parts: Partitions::new(chunks, NumberMaps::settled_already(), load_bytes_max),
            name,
            constants: index.constants,
            split: index.split,
            number: index.number,
            requests,
        })
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Its number, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn constants(&self) -> &LogConstants {
        &self.constants
    }

    pub(super) fn split(&self) -> SplitIdentity {
        self.split
    }

    pub(super) fn parts(&self) -> &Partitions {
        &self.parts
    }

    /// Checks that all sessions of these requests belong to the shard.
    pub(super) fn check(&self, requests: &[Request]) -> Result<(), ShardError> {
        let of = self.split.shards;
        let belongs = |request: &Request| shard_of(request.session, of);
        match requests
            .iter()
            .find(|request| belongs(request) != self.number)
        {
            None => Ok(()),
            Some(request) => Err(ShardError::Session {
                name: self.name.clone(),
                session: request.session,
                belongs: belongs(request),
                shard: self.number,
                of,
            }),
        }
    }
}

fn read_all(file: &SpilledBytes, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
        }
    }
    Ok(())
}

/// The checksum of the first bytes of a file.
fn hash_of(file: &mut File, bytes: u64) -> io::Result<u64> {
    use std::io::Seek as _;
    file.rewind()?;
    let mut hasher = Xxh3::new();
    let mut left = file.take(bytes);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match left.read(&mut buffer)? {
            0 => return Ok(hasher.digest()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
