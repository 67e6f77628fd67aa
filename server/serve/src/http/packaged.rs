//! Playlists, headers and segments that are made from MP4 files: `/films/film.mp4/master.m3u8`.
//!
//! A title is one file, or several in different bit rates ([`super::packaged_title`]). The rule of
//! the title's path applies, and no file of another rule is part of it. A segment is requested as
//! ranges of the file's own stream, so that its chain and prefetch go on along the file. Names of
//! segments hold the version of the file: a player never gets segments of two.

use std::sync::Arc;

use headlong_engine::Failure;
use headlong_http::{PlannedBody, Status};
use headlong_package::{
    Links, PackageFault, Rendition, Resource, Subtitles, SubtitlesForm, is_file_suffix,
};
use headlong_telemetry::Stage;

use super::file_reply::with_first_bytes;
use super::listing::hold_text;
use super::packaged_file::{
    FileOfTitle, file_path, find, indexed, is_outdated, is_packaged, links, refuse,
    split_extension, text_reply,
};
use super::packaged_title;
use super::parsed_request::ParsedRequest;
use super::prepared_reply::{
    FileMetadata, PreparedReply, ReplyError, VERSIONS_TRIED_MAX, plan_assembled_for,
};
use super::site::TreePath;
use super::state::MediaState;
use super::title_indexes::PackagedTitle;

/// The name of something that is made from a title.
pub(super) struct PackagedName {
    /// The title: its rule applies.
    pub(super) title: TreePath,
    made: MadeResource,
}

/// The resource to make.
enum MadeResource {
    /// From one file, by what its name has after that of the title before the extension: empty for
    /// the title's own file.
    OfFile(String, Resource),
    /// A playlist of the whole title.
    OfTitle(Resource),
    Subtitles(Subtitles, SubtitlesForm),
}

impl MadeResource {
    /// A resource directly below the path of the title.
    fn of_title(resource: Resource) -> Self {
        match resource {
            Resource::Master | Resource::Manifest => Self::OfTitle(resource),
            of_file => Self::OfFile(String::new(), of_file),
        }
    }

    /// A resource of one file of several.
    fn of_file(suffix: &str, resource: Resource) -> Option<Self> {
        match resource {
            Resource::Master | Resource::Manifest => None,
            of_file => Some(Self::OfFile(suffix.to_owned(), of_file)),
        }
    }
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
    let (above, name) = path.split_last()?;
    let named = if split_extension(above.as_str()).is_some() {
        let made = match Subtitles::parse(name) {
            Some((subtitles, form)) => MadeResource::Subtitles(subtitles, form),
            None => MadeResource::of_title(Resource::parse(name)?),
        };
        PackagedName { title: above, made }
    } else {
        let (title, suffix) = above.split_last()?;
        let is_of_file = is_file_suffix(suffix)
            && split_extension(title.as_str()).is_some()
            // A folder that is named like a title keeps its files.
            && state.library.remember(path.as_str()).is_none();
        let resource = Resource::parse(name).filter(|_| is_of_file)?;
        let made = MadeResource::of_file(suffix, resource)?;
        PackagedName { title, made }
    };
    is_packaged(state, &asked.settings, named.title.as_str()).then_some(named)
}

/// Answers a request for it.
pub(super) async fn answer(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    named: &PackagedName,
) -> Result<PreparedReply, ReplyError> {
    let title = named.title.as_str();
    let (suffix, resource) = match &named.made {
        MadeResource::OfFile(suffix, resource) => (suffix, *resource),
        MadeResource::OfTitle(resource) => {
            return packaged_title::playlist(state, head, asked, title, *resource).await;
        }
        MadeResource::Subtitles(subtitles, SubtitlesForm::Playlist) => {
            return packaged_title::subtitles_playlist(state, head, asked, title, subtitles).await;
        }
        MadeResource::Subtitles(subtitles, SubtitlesForm::Text) => {
            return packaged_title::subtitles_text(state, head, asked, title, subtitles).await;
        }
    };
    let path = file_path(title, suffix);
    for tried in 1.. {
        let of_title = find(state, asked, title, &path).await?;
        match reply(state, head, asked, &of_title, resource).await {
            Err(error) if is_outdated(&error) && tried < VERSIONS_TRIED_MAX => {
                state.library.distrust(&path);
            }
            answer => return answer,
        }
    }
    Err(ReplyError::Failed(Failure::Changed))
}

/// The reply with something that is made from one file.
async fn reply(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    of_title: &FileOfTitle<'_>,
    resource: Resource,
) -> Result<PreparedReply, ReplyError> {
    let FileOfTitle { title, path, file } = of_title;
    let (indexed, mut asking) = indexed(state, asked, of_title).await?;
    let indexed = indexed.map_err(|fault| refuse(state, path, fault))?;
    let links = links(head, asked);
    let made = make(&indexed, resource, &links);
    let body = made.map_err(|fault| refuse(state, path, fault))?;
    let body = body.ok_or_else(|| match resource.version() {
        Some(version) if version != indexed.version => {
            let detail = "the file has changed since the playlist was made; load that again";
            ReplyError::Status(Status::NotFound, Some(detail.to_owned()))
        }
        _ => ReplyError::Status(Status::NotFound, None),
    })?;
    let requested = format!("{title}/{resource}");
    if resource.version().is_none() {
        return text_reply(state, head, asked, &requested, body.closing, file);
    }
    if body.parts.is_empty() {
        hold_text(state, asked, body.closing.len())?;
    }
    let shown = FileMetadata {
        path: &requested,
        size: body.length(),
        entity_tag: match file.identity.is_settled {
            true => format!("\"{resource}\""),
            false => format!("W/\"{resource}\""),
        },
        ..FileMetadata::of(path, file, asked.settings.etag)
    };
    let start = body.parts.first().map(|part| part.range.start);
    let plan = plan_assembled_for(head, asked, &shown, body);
    let Some(first_part) = plan.body.parts.first() else {
        return Ok(PreparedReply::without_bytes(plan));
    };
    if start == Some(first_part.range.start) {
        let end_before = end_of_segment_before(&indexed, resource);
        asking.request.overlap_bytes = end_before.saturating_sub(first_part.range.start);
    }
    asked.account.turn(Stage::Device);
    let begun = asking.request_from_device(first_part).await;
    let begun = begun.map_err(ReplyError::from)?;
    asking.request.overlap_bytes = 0;
    asked.account.record.chain = begun.reply.chain().map(|chain| chain.0);
    with_first_bytes(asking, begun, asked, title, file, plan).await
}

/// Makes a resource of a file; `None` if it has none of this name.
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
        // Of a title, not of a file.
        Resource::Master | Resource::Manifest => None,
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

/// Where the bytes of the segment end that a viewer requests before this one.
fn end_of_segment_before(indexed: &PackagedTitle, resource: Resource) -> u64 {
    match resource {
        Resource::Segment(rendition, _, number @ 2..) => {
            let before = usize::try_from(number - 2).unwrap_or(usize::MAX);
            indexed.title.segment_end(rendition, before)
        }
        _ => 0,
    }
}
