//! Files of titles that are packaged: their paths, look-up and index, and the replies that all that
//! is made from them has in common.
//!
//! Invariant: a file is part of a title only if the rule of the title's path applies to it, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use headlong_engine::{Failure, Refusal};
use headlong_http::{PlannedBody, Status};
use headlong_library::{FileEntry, composed, os_path};
use headlong_package::{Links, PackageFault};
use headlong_telemetry::{LimitedKind, Stage};
use xxhash_rust::xxh3::xxh3_64;

use super::file_lookup::{LOOKUP_MAX, resolve};
use super::file_reply::{device_of, requester};
use super::listing::hold_generated;
use super::packaged_index::{RequestShare, index};
use super::parsed_request::ParsedRequest;
use super::prepared_reply::{FileMetadata, PreparedReply, ReplyError, plan_assembled_for};
use super::range_request::RangeRequester;
use super::state::{HttpSettings, MediaState};
use super::title_indexes::IndexOutcome;

/// Extensions of files that are packaged.
const EXTENSIONS: [&str; 4] = ["mp4", "m4v", "m4a", "mov"];

/// The path of a title without its extension, and that; `None` if it is not one of a file that is
/// packaged.
pub(crate) fn split_extension(title: &str) -> Option<(&str, &str)> {
    let (stem, extension) = title.rsplit_once('.')?;
    let mut known = EXTENSIONS.iter();
    let is_known = known.any(|one| extension.eq_ignore_ascii_case(one));
    (is_known && !stem.is_empty() && !stem.ends_with('/')).then_some((stem, extension))
}

/// Whether HLS and DASH are made from the title at a path.
pub(crate) fn is_packaged(state: &MediaState, settings: &HttpSettings, title: &str) -> bool {
    split_extension(title).is_some()
        && settings.access.packages(title)
        && state.pulls.of(title).is_none()
}

/// Files that cannot be packaged, and why, by path: those that were requested of late, in their current
/// version.
pub(crate) fn refused(state: &MediaState) -> BTreeMap<String, String> {
    let refused = state.titles.refused().into_iter();
    let current = refused.filter(|(path, stream, _)| {
        let known = state.library.remember(path);
        known.is_some_and(|file| file.stream.id == *stream)
    });
    let reasons = current.map(|(path, _, fault)| (path, not_packaged(fault)));
    reasons.collect()
}

fn not_packaged(fault: PackageFault) -> String {
    format!("the file cannot be sent as HLS or DASH: {fault}")
}

/// The path of a file of a title.
pub(super) fn file_path(title: &str, suffix: &str) -> String {
    match split_extension(title) {
        Some((stem, extension)) => format!("{stem}{suffix}.{extension}"),
        None => title.to_owned(),
    }
}

/// A file of a title.
pub(super) struct FileOfTitle<'a> {
    /// The path of the title.
    pub(super) title: &'a str,
    /// The path that it is looked up by.
    pub(super) path: &'a str,
    pub(super) file: Arc<FileEntry>,
}

/// Whether a file may have another version than the one it was looked up with.
pub(super) fn is_outdated(error: &ReplyError) -> bool {
    matches!(
        error,
        ReplyError::Failed(Failure::Changed) | ReplyError::Refused(Refusal::UnknownStream)
    )
}

/// The file at the path of a title, or another file of it, whose rule must be the same: the request
/// was checked by the rule of the title.
pub(super) async fn find<'a>(
    state: &Arc<MediaState>,
    asked: &mut ParsedRequest,
    title: &'a str,
    path: &'a str,
) -> Result<FileOfTitle<'a>, ReplyError> {
    let absent = || ReplyError::Status(Status::NotFound, None);
    let access = &asked.settings.access;
    if !access.have_same_rule(title, path) || state.pulls.of(path).is_some() {
        return Err(absent());
    }
    asked.account.turn(Stage::Lookup);
    let found = resolve(state, path, asked.settings.lookup_timeout).await;
    asked.account.turn(Stage::Other);
    let file = found?;
    // The server of `auth_url` judged the path as requested, not another form of it.
    let is_other_form = *file.path != *path
        && composed(&file.path) == composed(path)
        && asked.settings.access.uses_auth_server(path);
    match is_other_form {
        true => Err(absent()),
        false => Ok(FileOfTitle { title, path, file }),
    }
}

/// The index of a file of a title, and requests for its bytes.
pub(super) async fn indexed(
    state: &Arc<MediaState>,
    asked: &mut ParsedRequest,
    of_title: &FileOfTitle<'_>,
) -> Result<(IndexOutcome, RangeRequester), ReplyError> {
    let FileOfTitle { path, file, .. } = of_title;
    let asking = request_bytes(state, asked, file)?;
    let share = RequestShare::new(asked.account.held.take());
    asked.account.turn(Stage::Device);
    let indexed = index(state, asked, path, file, &asking, &share).await;
    asked.account.turn(Stage::Other);
    // The reading has ended, or was none of this request.
    asked.account.held = Arc::into_inner(share).flatten();
    Ok((indexed?, asking))
}

/// Requests for bytes of a file.
pub(super) fn request_bytes(
    state: &Arc<MediaState>,
    asked: &mut ParsedRequest,
    file: &Arc<FileEntry>,
) -> Result<RangeRequester, ReplyError> {
    let device = device_of(state, asked, file)?;
    requester(state, asked, device, file, false)
}

/// The reply with a generated text, whose media type and rule are those of a requested path. It
/// depends on settings and tokens, too, so its tag is a hash of its bytes.
pub(super) async fn text_reply(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    requested: &str,
    text: Vec<u8>,
    file: &FileEntry,
) -> Result<PreparedReply, ReplyError> {
    let within = asked.settings.lookup_timeout.min(LOOKUP_MAX);
    hold_generated(state, asked, text.len(), within).await?;
    let shown = FileMetadata {
        path: requested,
        size: text.len() as u64,
        entity_tag: format!("\"{:016x}\"", xxh3_64(&text)),
        modified: None,
        ..FileMetadata::of(requested, file, asked.settings.etag)
    };
    let plan = plan_assembled_for(head, asked, &shown, PlannedBody::text(text));
    Ok(PreparedReply::without_bytes(plan))
}

/// Links with the arguments of a request that open the title and identify the viewer.
pub(super) fn links(head: &http::request::Parts, asked: &ParsedRequest) -> Links {
    let settings = &asked.settings;
    let session = settings.session.query.as_deref();
    let is_kept = |argument: &&str| {
        let name = argument.split('=').next().unwrap_or_default();
        settings.access.is_of_token(name)
            || session.is_some_and(|session| headlong_http::is_same_argument(name, session))
    };
    let query = head.uri.query().unwrap_or_default();
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    Links::new(&kept.join("&"))
}

/// The reply for a file that cannot be packaged.
pub(super) fn refuse(state: &MediaState, path: &str, fault: PackageFault) -> ReplyError {
    let path = os_path(path);
    state.limited_log.write(LimitedKind::Package, |left_out| {
        tracing::warn!(?path, reason = %fault, left_out, "cannot package a file");
    });
    ReplyError::Status(Status::NotFound, Some(not_packaged(fault)))
}
