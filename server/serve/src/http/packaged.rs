//! Playlists, headers and segments that are made from MP4 files: `/films/film.mp4/master.m3u8`.
//!
//! A title is one file, or several in different bit rates ([`super::packaged_title`]). The rule of
//! the title's path applies, and no file of another rule is part of it. A segment is requested as
//! ranges of the file's own stream, so that its chain and prefetch go on along the file. Names of
//! segments hold the version of the file: a player never gets segments of two.

use std::sync::Arc;

use headlong_engine::Failure;
use headlong_http::{BodyPart, Cmcd, PlannedBody, Status};
use headlong_package::{Links, PackageFault, Resource, Subtitles, SubtitlesForm, is_file_suffix};
use headlong_telemetry::Stage;

use super::access_rules::AccessRules;
use super::file_lookup::LOOKUP_MAX;
use super::file_reply::with_first_bytes;
use super::generated_memory::UNIT_BYTES;
use super::head_cache::CopiedReply;
use super::listing::hold_generated;
use super::packaged_file::{
    FileOfTitle, file_path, find, indexed, is_outdated, is_packaged, links, refuse,
    split_extension, text_reply,
};
use super::packaged_index::{HeldHeaders, segment_heads};
use super::packaged_title;
use super::parsed_request::ParsedRequest;
use super::prepared_reply::{
    FileMetadata, PreparedReply, ReplyError, VERSIONS_TRIED_MAX, plan_assembled_for,
};
use super::range_request::RangeRequester;
use super::site::TreePath;
use super::state::MediaState;
use super::steered;
use super::title_indexes::PackagedTitle;

/// The name of something that is made from a title.
pub(super) struct PackagedName {
    /// The title: its rule applies.
    pub(super) title: TreePath,
    made: MadeResource,
    /// Whether the title was named by a list of its files.
    pub(super) is_alias: bool,
}

/// A path that may be one of a title, by its own name or by a list of its files.
struct PossibleTitle {
    path: TreePath,
    is_alias: bool,
}

impl PossibleTitle {
    fn at(path: TreePath) -> Self {
        match path.title_of_urlset() {
            Some(title) => Self {
                path: title,
                is_alias: true,
            },
            None => Self {
                path,
                is_alias: false,
            },
        }
    }

    /// Whether its rule permits this name of it: the server of `auth_url` judges the path as
    /// requested, not the title that a list of files leads to.
    fn may_be_named_so(&self, access: &AccessRules) -> bool {
        !self.is_alias || !access.uses_auth_server(self.path.as_str())
    }
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
            Resource::Master | Resource::Manifest | Resource::Steering => Self::OfTitle(resource),
            of_file => Self::OfFile(String::new(), of_file),
        }
    }

    /// A resource of one file of several.
    fn of_file(suffix: &str, resource: Resource) -> Option<Self> {
        match resource {
            Resource::Master | Resource::Manifest | Resource::Steering => None,
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
    let above = PossibleTitle::at(above);
    let (title, made) = if split_extension(above.path.as_str()).is_some() {
        let made = match Subtitles::parse(name) {
            Some((subtitles, form)) => MadeResource::Subtitles(subtitles, form),
            None => MadeResource::of_title(Resource::parse(name)?),
        };
        (above, made)
    } else {
        let (of_file, suffix) = above.path.split_last()?;
        let title = PossibleTitle::at(of_file);
        let is_of_file = is_file_suffix(suffix)
            && split_extension(title.path.as_str()).is_some()
            // A folder that is named like a title keeps its files.
            && state.library.remember(path.as_str()).is_none();
        let resource = Resource::parse(name).filter(|_| is_of_file)?;
        let made = MadeResource::of_file(suffix, resource)?;
        (title, made)
    };
    let is_steering = matches!(made, MadeResource::OfTitle(Resource::Steering));
    if is_steering && (!steered::is_on(asked) || state.library.remember(path.as_str()).is_some()) {
        return None;
    }
    let is_named = title.may_be_named_so(&asked.settings.access)
        && is_packaged(state, &asked.settings, title.path.as_str());
    is_named.then_some(PackagedName {
        title: title.path,
        made,
        is_alias: title.is_alias,
    })
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
        MadeResource::OfTitle(Resource::Steering) => {
            let answer = steered::manifest(state, head, asked, title);
            return answer.ok_or(ReplyError::Status(Status::NotFound, None));
        }
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
    let heads = heads(state, asked, &asking, &indexed, resource).await?;
    let read_to = match &heads {
        Ok(Some(heads)) => heads.read_to,
        _ => end_of_segment_before(&indexed, resource),
    };
    let made = heads.and_then(|heads| make(&indexed, resource, &links, heads.as_ref()));
    if shows_wrong_index(&made) && indexed.title.is_cut_by_own_index() {
        state.titles.distrust(file.stream.id);
    }
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
        return text_reply(state, head, asked, &requested, body.closing, file).await;
    }
    let of_parts = body
        .parts
        .iter()
        .map(|part| size_of::<BodyPart>() + part.preamble.len());
    let generated = body.closing.len() + of_parts.sum::<usize>();
    let within = asked.settings.lookup_timeout.min(LOOKUP_MAX);
    hold_generated(state, asked, generated, within).await?;
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
    if let Some(held) = &mut asked.account.generated {
        held.sent_at = generated_end(&plan.body);
    }
    let Some(first_part) = plan.body.parts.first() else {
        return Ok(PreparedReply::without_bytes(plan));
    };
    if start == Some(first_part.range.start) {
        asking.request.overlap_bytes = read_to.saturating_sub(first_part.range.start);
    }
    asked.account.turn(Stage::Device);
    let begun = asking.request_from_device(first_part).await;
    let begun = begun.map_err(ReplyError::from)?;
    asking.request.overlap_bytes = 0;
    asked.account.record.chain = begun.reply.chain().map(|chain| chain.0);
    let is_of_copies = begun.reply.is_of_copies() && asked.cmcd == Cmcd::default();
    let mut answer = with_first_bytes(asking, begun, asked, title, file, plan).await?;
    if is_of_copies {
        let copied = CopiedReply::of(&answer.plan, path, file);
        answer.of_copies = copied.map(CopiedReply::made);
    }
    Ok(answer)
}

/// What is made of a file; `None` if there is none of this name.
type MadeBody = Result<Option<PlannedBody>, PackageFault>;

/// Whether the file's own index of its fragments contradicts them. Other faults are no evidence: a
/// client causes them, too, by what its links carry on.
fn shows_wrong_index(made: &MadeBody) -> bool {
    matches!(made, Err(PackageFault::FragmentIndex))
}

/// Bytes of a reply after which its generated ones were sent, and their memory is released; `None` at
/// its end. So slow clients hold little memory for a segment whose bytes of the file follow its head.
fn generated_end(body: &PlannedBody) -> Option<u64> {
    let (first, others) = body.parts.split_first()?;
    let parts_bytes = body.parts.len() * size_of::<BodyPart>();
    let is_head = others.iter().all(|part| part.preamble.is_empty()) && body.closing.is_empty();
    (is_head && parts_bytes <= UNIT_BYTES).then_some(first.preamble.len() as u64)
}

/// Makes a resource of a file; `None` if it has none of this name.
fn make(
    indexed: &PackagedTitle,
    resource: Resource,
    links: &Links,
    heads: Option<&HeldHeaders>,
) -> MadeBody {
    let PackagedTitle { title, version } = indexed;
    if resource.version().is_some_and(|of| of != *version) {
        return Ok(None);
    }
    Ok(match resource {
        // Of a title, not of a file.
        Resource::Master | Resource::Manifest | Resource::Steering => None,
        Resource::Playlist(rendition) => {
            let playlist = title.hls_media(rendition, *version, links)?;
            playlist.map(PlannedBody::text)
        }
        Resource::Init(rendition, _) => title.init(rendition)?.map(PlannedBody::text),
        Resource::Segment(rendition, ..) => match (segment_index(indexed, resource), heads) {
            (None, _) => None,
            (Some(number), None) => title.segment(rendition, number)?,
            (Some(number), Some(heads)) => {
                title.segment_by_heads(rendition, number, &heads.headers)?
            }
        },
    })
}

/// The number of a segment, from zero; `None` if there is none of this name.
fn segment_index(indexed: &PackagedTitle, resource: Resource) -> Option<usize> {
    let Resource::Segment(_, version, number) = resource else {
        return None;
    };
    let index = usize::try_from(number.checked_sub(1)?).ok()?;
    (version == indexed.version && index < indexed.title.segments()).then_some(index)
}

/// The heads of a segment's fragments, if it cannot be made without.
async fn heads(
    state: &MediaState,
    asked: &mut ParsedRequest,
    asking: &RangeRequester,
    indexed: &PackagedTitle,
    resource: Resource,
) -> Result<Result<Option<HeldHeaders>, PackageFault>, ReplyError> {
    let Some(number) = segment_index(indexed, resource) else {
        return Ok(Ok(None));
    };
    asked.account.turn(Stage::Device);
    let heads = segment_heads(state, asked, asking, (&indexed.title, number)).await;
    asked.account.turn(Stage::Other);
    // The index led there, whatever is wrong with them.
    Ok(heads?.map_err(|_| PackageFault::FragmentIndex))
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use headlong_config::{Config, Flags};
    use headlong_units::ByteRange;

    use super::*;

    #[test]
    fn only_contradiction_of_fragments_shows_wrong_index() {
        let overlong = PackageFault::TooMany("segments for links of this length");
        assert!(!shows_wrong_index(&Err(overlong)));
        assert!(!shows_wrong_index(&Ok(None)));
        assert!(shows_wrong_index(&Err(PackageFault::FragmentIndex)));
    }

    #[test]
    fn list_of_files_names_no_title_of_an_auth_server() {
        let text = "roots = [\"/srv\"]\n[path.\"/asked/\"]\naccess = \"auth-request\"\n\
                    auth_url = \"http://127.0.0.1:9/\"\n[path.\"/asked/free/\"]\n";
        let config = Config::from_text(Path::new("/x.toml"), text, &Flags::default());
        let access = AccessRules::new(&config.expect("right"));
        for (target, title, expected) in [
            ("/asked/film_,480,720,.mp4.urlset", "asked/film.mp4", false),
            ("/asked/film.mp4", "asked/film.mp4", true),
            (
                "/asked/free/film_,480,720,.mp4.urlset",
                "asked/free/film.mp4",
                true,
            ),
            ("/film_,480,720,.mp4.urlset", "film.mp4", true),
        ] {
            let path = TreePath::parse("", target).expect("a path");
            let named = PossibleTitle::at(path);
            assert_eq!(named.path.as_str(), title);
            assert_eq!(named.may_be_named_so(&access), expected, "{target}");
        }
    }

    #[test]
    fn memory_of_head_is_released_unless_more_is_generated_later() {
        let part = |preamble: usize| BodyPart {
            preamble: vec![0; preamble],
            range: ByteRange::new(0, 100),
            open_ended: false,
        };
        let end = |preambles: &[usize], closing: usize| {
            generated_end(&PlannedBody {
                parts: preambles.iter().map(|bytes| part(*bytes)).collect(),
                closing: vec![0; closing],
            })
        };
        assert_eq!(end(&[5000, 0, 0], 0), Some(5000));
        assert_eq!(end(&[5000, 1], 0), None);
        assert_eq!(end(&[5000], 1), None);
        assert_eq!(end(&[0; 1000], 0), None);
        assert_eq!(end(&[], 0), None);
    }
}
