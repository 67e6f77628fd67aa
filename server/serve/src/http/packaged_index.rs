//! Indexes of files that are packaged: headers are read once, as a request of the viewer who needs
//! them first, in bounded memory ([`super::title_indexes`]).

use std::sync::Arc;
use std::time::Duration;

use headlong_engine::{Failure, Refusal};
use headlong_library::FileEntry;
use headlong_package::{HeaderReader, PackageFault, ReadStep, TitleHeaders, Version};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use xxhash_rust::xxh3::Xxh3;

use super::file_lookup::LOOKUP_MAX;
use super::parsed_request::ParsedRequest;
use super::prepared_reply::ReplyError;
use super::range_request::{RangeRequester, part};
use super::state::MediaState;
use super::title_indexes::{IndexKey, IndexOutcome, PackagedTitle};
use headlong_config::EtagTime;

/// Changes if the same file gives other segments than before.
const FORMAT: u64 = 1;

/// The key of a file's index, besides its path.
pub(super) fn index_key(asked: &ParsedRequest, file: &FileEntry) -> IndexKey {
    IndexKey {
        stream: file.stream.id,
        part: file.part,
        segment: asked.settings.package_segment,
        etag: asked.settings.etag,
    }
}

/// The index of a file.
pub(super) async fn index(
    state: &Arc<MediaState>,
    asked: &ParsedRequest,
    path: &str,
    file: &FileEntry,
    asking: &RangeRequester,
) -> Result<IndexOutcome, ReplyError> {
    let settings = &asked.settings;
    let key = index_key(asked, file);
    let within = settings.lookup_timeout.min(LOOKUP_MAX);
    // Requests for one index begin to read it one after another, if none succeeds.
    let until = Instant::now() + within;
    let read = async {
        let turn = state.titles.turn(file.device, until).await;
        let turn = turn.ok_or(ReplyError::Refused(Refusal::Full))?;
        let headers = read_headers(state, asking, file.size, within).await?;
        let (headers, memory) = match headers {
            Ok(headers) => headers,
            Err(fault) => return Ok(Err(fault)),
        };
        let seed = seed(file, key);
        // It goes on if the client leaves.
        let made = tokio::task::spawn_blocking(move || {
            let made = headers.index(key.segment).map(|title| {
                let version = Version(version(seed, title.moov()));
                Arc::new(PackagedTitle { title, version })
            });
            drop((turn, memory));
            made
        });
        made.await
            .map_err(|_| ReplyError::Failed(Failure::NoResources))
    };
    let bytes_max = settings.package_memory;
    state.titles.get(path, key, bytes_max, read).await
}

/// Headers, and the memory that they are counted against.
type HeldHeaders = (TitleHeaders, Option<OwnedSemaphorePermit>);

/// Reads the headers of a file.
async fn read_headers(
    state: &MediaState,
    asking: &RangeRequester,
    size: u64,
    within: Duration,
) -> Result<Result<HeldHeaders, PackageFault>, ReplyError> {
    let mut reader = HeaderReader::new(size);
    let mut step = reader.step(0, &[]);
    let mut memory = None;
    loop {
        let wanted = match step {
            Err(fault) => return Ok(Err(fault)),
            Ok(ReadStep::Ready(headers)) => return Ok(Ok((headers, memory))),
            Ok(ReadStep::Wants(range)) => range,
        };
        let begun = asking.request_from_device(&part(wanted, false)).await;
        let mut reply = begun.map_err(ReplyError::from)?.reply;
        let mut offset = wanted.start;
        let mut gathered = Vec::new();
        step = Ok(ReadStep::Wants(wanted));
        while let Some(piece) = reply.next().await {
            let piece = piece.map_err(ReplyError::Failed)?;
            match memory {
                // A header may begin in one piece and end in the next.
                None => gathered.extend_from_slice(piece.as_ref()),
                Some(_) => step = reader.step(offset, piece.as_ref()),
            }
            offset += piece.as_ref().len() as u64;
        }
        if offset < wanted.end {
            return Err(ReplyError::Failed(Failure::Device));
        }
        if memory.is_none() {
            step = reader.step(wanted.start, &gathered);
            let bytes = reader.memory_bytes();
            if step.is_ok() && bytes > 0 {
                let held = state.titles.reserve(bytes, within).await;
                memory = Some(held.ok_or(ReplyError::Refused(Refusal::Full))?);
            }
        }
    }
}

/// What tells versions of a file apart, besides its headers.
fn seed(file: &FileEntry, key: IndexKey) -> u64 {
    let identity = &file.identity;
    let seconds = identity.mtime_seconds();
    let modified = match key.etag {
        // All files of container images and package stores have the time 0 or 1.
        _ if matches!(seconds, 0 | 1) => 0,
        EtagTime::Seconds => i128::from(seconds),
        EtagTime::Nanoseconds => identity.mtime_ns,
    };
    let mut hash = Xxh3::new();
    hash.update(&FORMAT.to_le_bytes());
    hash.update(&file.size.to_le_bytes());
    hash.update(&modified.to_le_bytes());
    hash.update(&file.distinction.unwrap_or_default().to_le_bytes());
    hash.update(&key.segment.0.to_le_bytes());
    hash.digest()
}

fn version(seed: u64, moov: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(seed);
    hash.update(moov);
    hash.digest()
}
