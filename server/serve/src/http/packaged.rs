//! Playlists, headers and segments that are made from an MP4 file: `/films/film.mp4/master.m3u8`.
//!
//! The rule of the file's path applies. Headers of the file are read once, as a request of the viewer
//! who needs them first; a segment is requested as ranges of the file's own stream, so that its chain
//! and prefetch go on along the file. Names of segments hold the version of the file: a player never
//! gets segments of two.

use std::sync::Arc;
use std::time::Duration;

use headlong_engine::{Failure, Refusal};
use headlong_http::{PlannedBody, Status};
use headlong_library::{FileEntry, composed, os_path};
use headlong_package::{
    HeaderReader, Links, PackageFault, ReadStep, Rendition, Resource, TitleHeaders, Version,
};
use headlong_telemetry::{LimitedKind, Stage};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::file_lookup::{LOOKUP_MAX, resolve};
use super::file_reply::{device_of, requester, with_first_bytes};
use super::listing::hold_text;
use super::parsed_request::ParsedRequest;
use super::prepared_reply::{
    FileMetadata, PreparedReply, ReplyError, VERSIONS_TRIED_MAX, plan_assembled_for,
};
use super::range_request::{RangeRequester, part};
use super::site::TreePath;
use super::state::MediaState;
use super::title_indexes::{IndexKey, IndexOutcome, PackagedTitle};
use headlong_config::EtagTime;

/// Extensions of files that are packaged.
const EXTENSIONS: [&str; 4] = ["mp4", "m4v", "m4a", "mov"];
/// Changes if the same file gives other segments than before.
const FORMAT: u64 = 1;

/// The name of something that is made from a file.
pub(super) struct PackagedName {
    /// The file.
    pub(super) file: TreePath,
    resource: Resource,
}

/// The name at a path, unless files there are not packaged.
pub(super) fn named(
    state: &MediaState,
    asked: &ParsedRequest,
    path: &TreePath,
) -> Option<PackagedName> {
    if !asked.method.is_read() {
        return None;
    }
    let (file, name) = path.split_last()?;
    let resource = Resource::parse(name)?;
    let (_, extension) = file.as_str().rsplit_once('.')?;
    let is_mp4 = EXTENSIONS
        .iter()
        .any(|one| extension.eq_ignore_ascii_case(one));
    let is_packaged = is_mp4
        && asked.settings.access.packages(file.as_str())
        && state.pulls.of(file.as_str()).is_none();
    is_packaged.then_some(PackagedName { file, resource })
}

/// Answers a request for it.
pub(super) async fn answer(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    named: &PackagedName,
) -> Result<PreparedReply, ReplyError> {
    let path = named.file.as_str();
    for tried in 1.. {
        asked.account.turn(Stage::Lookup);
        let found = resolve(state, path, asked.settings.lookup_timeout).await;
        asked.account.turn(Stage::Other);
        let file = found?;
        // The server of `auth_url` judged the path as requested, not another form of it.
        let is_other_form = *file.path != *path
            && composed(&file.path) == composed(path)
            && asked.settings.access.uses_auth_server(path);
        if is_other_form {
            return Err(ReplyError::Status(Status::NotFound, None));
        }
        match reply(state, head, asked, named, &file).await {
            Err(
                ReplyError::Failed(Failure::Changed) | ReplyError::Refused(Refusal::UnknownStream),
            ) if tried < VERSIONS_TRIED_MAX => {
                state.library.distrust(path);
            }
            answer => return answer,
        }
    }
    Err(ReplyError::Failed(Failure::Changed))
}

async fn reply(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    named: &PackagedName,
    file: &Arc<FileEntry>,
) -> Result<PreparedReply, ReplyError> {
    let path = named.file.as_str();
    let device = device_of(state, asked, file)?;
    let asking = requester(state, asked, device, file, false)?;
    asked.account.turn(Stage::Device);
    let indexed = index(state, asked, path, file, &asking).await;
    asked.account.turn(Stage::Other);
    let indexed = indexed?.map_err(|fault| refuse(state, path, fault))?;
    let links = Links::new(&query_of_links(head, asked));
    let made = make(&indexed, named.resource, &links);
    let body = made.map_err(|fault| refuse(state, path, fault))?;
    let body = body.ok_or_else(|| match named.resource.version() {
        Some(version) if version != indexed.version => {
            let detail = "the file has changed since the playlist was made; load that again";
            ReplyError::Status(Status::NotFound, Some(detail.to_owned()))
        }
        _ => ReplyError::Status(Status::NotFound, None),
    })?;
    if body.parts.is_empty() {
        hold_text(state, asked, body.closing.len())?;
    }
    let requested = format!("{path}/{}", named.resource);
    let of_file = FileMetadata::of(path, file, asked.settings.etag);
    let shown = match named.resource.version() {
        Some(_) => FileMetadata {
            path: &requested,
            size: body.length(),
            entity_tag: match file.identity.is_settled {
                true => format!("\"{}\"", named.resource),
                false => format!("W/\"{}\"", named.resource),
            },
            ..of_file
        },
        // A text depends on settings and tokens, too.
        None => FileMetadata {
            path: &requested,
            size: body.length(),
            entity_tag: format!("\"{:016x}\"", xxh3_64(&body.closing)),
            modified: None,
            ..of_file
        },
    };
    let plan = plan_assembled_for(head, asked, &shown, body);
    let Some(first_part) = plan.body.parts.first() else {
        return Ok(PreparedReply::without_bytes(plan));
    };
    asked.account.turn(Stage::Device);
    let begun = asking.request_from_device(first_part).await;
    let begun = begun.map_err(ReplyError::from)?;
    asked.account.record.chain = begun.reply.chain().map(|chain| chain.0);
    with_first_bytes(asking, begun, asked, path, file, plan).await
}

/// Makes a resource of a title; `None` if it has none of this name.
fn make(
    indexed: &PackagedTitle,
    resource: Resource,
    links: &Links,
) -> Result<Option<PlannedBody>, PackageFault> {
    let PackagedTitle { title, version } = indexed;
    if resource.version().is_some_and(|of| of != *version) {
        return Ok(None);
    }
    Ok(match resource {
        Resource::Master => Some(PlannedBody::text(title.hls_master(links))),
        Resource::Manifest => Some(PlannedBody::text(title.dash_manifest(*version, links))),
        Resource::Playlist(rendition) => {
            let playlist = title.hls_media(rendition, *version, links)?;
            playlist.map(PlannedBody::text)
        }
        Resource::Init(rendition, _) => title.init(rendition)?.map(PlannedBody::text),
        Resource::Segment(rendition, _, number) => segment(indexed, rendition, number)?,
    })
}

fn segment(
    indexed: &PackagedTitle,
    rendition: Rendition,
    number: u32,
) -> Result<Option<PlannedBody>, PackageFault> {
    let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    match index < indexed.title.segments() {
        true => indexed.title.segment(rendition, index),
        false => Ok(None),
    }
}

/// The arguments of a request that open the file and identify the viewer: links carry them on.
fn query_of_links(head: &http::request::Parts, asked: &ParsedRequest) -> String {
    let settings = &asked.settings;
    let session = settings.session.query.as_deref();
    let is_kept = |argument: &&str| {
        let name = argument.split('=').next().unwrap_or_default();
        settings.access.is_of_token(name)
            || session.is_some_and(|session| headlong_http::is_same_argument(name, session))
    };
    let query = head.uri.query().unwrap_or_default();
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    kept.join("&")
}

/// The reply for a file that cannot be packaged.
fn refuse(state: &MediaState, path: &str, fault: PackageFault) -> ReplyError {
    let path = os_path(path);
    state.limited_log.write(LimitedKind::Package, |left_out| {
        tracing::warn!(?path, reason = %fault, left_out, "cannot package a file");
    });
    let detail = format!("the file cannot be sent as HLS or DASH: {fault}");
    ReplyError::Status(Status::NotFound, Some(detail))
}

/// The index of a file.
async fn index(
    state: &Arc<MediaState>,
    asked: &ParsedRequest,
    path: &str,
    file: &FileEntry,
    asking: &RangeRequester,
) -> Result<IndexOutcome, ReplyError> {
    let settings = &asked.settings;
    let key = IndexKey {
        stream: file.stream.id,
        part: file.part,
        segment: settings.package_segment,
        etag: settings.etag,
    };
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
