//! Titles as a whole: the files that a title consists of, its subtitles, and playlists with all of
//! them.
//!
//! A title is the file at its path or, if there is none, the files beside that path whose names have
//! a number more: `film_480.mp4` and `film_720.mp4` for `film.mp4`. Names are searched in the folder
//! as the library knows it, and only for playlists; segments name their file.

use std::sync::Arc;

use headlong_engine::{Failure, Refusal};
use headlong_http::Status;
use headlong_library::{FileEntry, FolderEntryKind, NameFilter, ResolveError, composed, os_path};
use headlong_package::{
    FILES_MAX, PackageFault, Presentation, Resource, Subtitles, SubtitlesForm, TitleFile,
    is_file_suffix, webvtt,
};
use headlong_telemetry::{LimitedKind, Stage};
use headlong_units::ByteRange;
use tokio::time::Instant;

use super::file_lookup::{LOOKUP_MAX, not_found};
use super::packaged_file::{
    FileOfTitle, file_path, find, indexed, is_outdated, links, refuse, request_bytes,
    split_extension, text_reply,
};
use super::packaged_index::index_key;
use super::parsed_request::ParsedRequest;
use super::prepared_reply::{PreparedReply, ReplyError, VERSIONS_TRIED_MAX};
use super::range_request::part;
use super::state::MediaState;
use super::title_indexes::PackagedOutline;

/// Largest file with subtitles: twenty times that of any film.
const SUBTITLES_BYTES_MAX: u64 = 4 << 20;

/// A name beside a title.
enum NameBeside {
    /// Of a file of the title; what it has more than the name of the title.
    File(String),
    Subtitles(Subtitles),
}

impl NameBeside {
    /// The role of a name for the title of this name and extension, in composed form.
    fn read((title, extension): (&str, &str), name: &str) -> Option<Self> {
        // The other normal form of a name leads to the same file.
        let name = composed(name);
        let rest = name.strip_prefix(title)?;
        if let Some(subtitles) = rest.strip_prefix('.').and_then(Subtitles::of_file) {
            return Some(Self::Subtitles(subtitles));
        }
        let suffix = rest.strip_suffix(extension)?.strip_suffix('.')?;
        is_file_suffix(suffix).then(|| Self::File(suffix.to_owned()))
    }
}

/// The names beside a title.
#[derive(Default)]
struct NamesBeside {
    suffixes: Vec<String>,
    subtitles: Vec<Subtitles>,
}

/// The file of an outline.
struct OutlinedFile {
    suffix: String,
    outlined: Arc<PackagedOutline>,
    file: Arc<FileEntry>,
}

fn absent() -> ReplyError {
    ReplyError::Status(Status::NotFound, None)
}

/// Answers a request for a playlist with all of a title.
pub(super) async fn playlist(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    title: &str,
    resource: Resource,
) -> Result<PreparedReply, ReplyError> {
    let (files, subtitles) = outlined(state, asked, title).await?;
    let presentation = present(state, title, &files, &subtitles);
    let links = links(head, asked);
    let text = match resource {
        Resource::Manifest => presentation.dash_manifest(&links),
        _ => presentation.hls_master(&links),
    };
    let requested = format!("{title}/{resource}");
    let first = files.first().ok_or_else(absent)?;
    text_reply(state, head, asked, &requested, text.into(), &first.file)
}

/// Answers a request for the HLS media playlist of subtitles.
pub(super) async fn subtitles_playlist(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    title: &str,
    subtitles: &Subtitles,
) -> Result<PreparedReply, ReplyError> {
    let (files, listed) = outlined(state, asked, title).await?;
    let first = files.first().filter(|_| listed.contains(subtitles));
    let first = first.ok_or_else(absent)?;
    let length = present(state, title, &files, &listed).length();
    let text = subtitles.hls_media(length, &links(head, asked));
    let requested = format!("{title}/{}", subtitles.name(SubtitlesForm::Playlist));
    text_reply(state, head, asked, &requested, text.into(), &first.file)
}

/// Answers a request for subtitles as WebVTT.
pub(super) async fn subtitles_text(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    title: &str,
    subtitles: &Subtitles,
) -> Result<PreparedReply, ReplyError> {
    let (stem, _) = split_extension(title).ok_or_else(absent)?;
    let path = format!("{stem}.{}", subtitles.suffix());
    let requested = format!("{title}/{}", subtitles.name(SubtitlesForm::Text));
    for tried in 1.. {
        let FileOfTitle { file, .. } = find(state, asked, title, &path).await?;
        match read_subtitles(state, asked, &file).await {
            Err(error) if is_outdated(&error) && tried < VERSIONS_TRIED_MAX => {
                state.library.distrust(&path);
            }
            text => return text_reply(state, head, asked, &requested, text?.into(), &file),
        }
    }
    Err(ReplyError::Failed(Failure::Changed))
}

/// Reads a file with subtitles; as many at a time as headers of files.
async fn read_subtitles(
    state: &Arc<MediaState>,
    asked: &mut ParsedRequest,
    file: &Arc<FileEntry>,
) -> Result<String, ReplyError> {
    if file.size > SUBTITLES_BYTES_MAX {
        let detail = "the file is larger than subtitles may be, 4 MiB";
        return Err(ReplyError::Status(
            Status::NotFound,
            Some(detail.to_owned()),
        ));
    }
    let within = asked.settings.lookup_timeout.min(LOOKUP_MAX);
    let turn = state.titles.turn(file.device, Instant::now() + within);
    let turn = turn.await;
    let turn = turn.ok_or(ReplyError::Refused(Refusal::Full))?;
    let mut bytes = Vec::new();
    if file.size > 0 {
        let asking = request_bytes(state, asked, file)?;
        asked.account.turn(Stage::Device);
        let whole = part(ByteRange::new(0, file.size), false);
        let begun = asking.request_from_device(&whole).await;
        let mut reply = begun.map_err(ReplyError::from)?.reply;
        while let Some(piece) = reply.next().await {
            bytes.extend_from_slice(piece.map_err(ReplyError::Failed)?.as_ref());
        }
        asked.account.turn(Stage::Other);
    }
    if bytes.len() as u64 != file.size {
        return Err(ReplyError::Failed(Failure::Device));
    }
    let text = tokio::task::spawn_blocking(move || webvtt(&bytes)).await;
    drop(turn);
    text.map_err(|_| ReplyError::Failed(Failure::NoResources))
}

/// The presentation of files and subtitles. Files that are left out are logged.
fn present<'a>(
    state: &MediaState,
    title: &str,
    files: &'a [OutlinedFile],
    subtitles: &'a [Subtitles],
) -> Presentation<'a> {
    let of_title = |file: &'a OutlinedFile| TitleFile {
        suffix: &file.suffix,
        outline: &file.outlined.outline,
        version: file.outlined.version,
    };
    let presentation = Presentation::new(files.iter().map(of_title).collect(), subtitles);
    let without = presentation.left_out();
    if !without.is_empty() {
        let path = os_path(title);
        let remedy = "encode all files of a title with key frames at the same times";
        let kind = LimitedKind::PackageKeyFrames;
        state.limited_log.write(kind, |left_out| {
            tracing::warn!(
                ?path,
                files = ?without,
                remedy,
                left_out,
                "files are left out of a title: their key frames are at other times"
            );
        });
    }
    presentation
}

/// The files of a title, and its subtitles. Files that cannot be packaged are logged and left out,
/// unless all are.
async fn outlined(
    state: &Arc<MediaState>,
    asked: &mut ParsedRequest,
    title: &str,
) -> Result<(Vec<OutlinedFile>, Vec<Subtitles>), ReplyError> {
    match outline_of(state, asked, title, String::new()).await {
        Err(ReplyError::Status(Status::NotFound, _)) => {}
        own => {
            let own = own?.map_err(|fault| refuse(state, title, fault))?;
            // A film without its subtitles is better than none.
            let names = names_beside(state, asked, title, Some(own.file.device)).await;
            let names = names.unwrap_or_default();
            return Ok((vec![own], names.subtitles));
        }
    }
    let names = names_beside(state, asked, title, None).await?;
    if names.suffixes.len() > FILES_MAX {
        return Err(refuse(state, title, PackageFault::TooMany("files")));
    }
    let mut files: Vec<OutlinedFile> = Vec::with_capacity(names.suffixes.len());
    let mut refused = None;
    let mut memory_bytes = 0;
    for suffix in names.suffixes {
        let path = file_path(title, &suffix);
        match outline_of(state, asked, title, suffix).await {
            Ok(Ok(file)) => {
                memory_bytes += file.outlined.outline.memory_bytes() as u64;
                files.push(file);
            }
            Ok(Err(fault)) => refused = Some(refuse(state, &path, fault)),
            // It was removed meanwhile, has another rule, or may not be read.
            Err(ReplyError::Status(Status::NotFound | Status::Forbidden, _)) => {}
            Err(error) => return Err(error),
        }
        if memory_bytes > asked.settings.package_memory {
            return Err(refuse(state, title, PackageFault::TooMany("segments")));
        }
    }
    match files.is_empty() {
        true => Err(refused.unwrap_or_else(absent)),
        false => Ok((files, names.subtitles)),
    }
}

/// The outline of a file of a title, or why it cannot be packaged.
async fn outline_of(
    state: &Arc<MediaState>,
    asked: &mut ParsedRequest,
    title: &str,
    suffix: String,
) -> Result<Result<OutlinedFile, PackageFault>, ReplyError> {
    let path = file_path(title, &suffix);
    for tried in 1.. {
        let of_title = find(state, asked, title, &path).await?;
        let known = state
            .titles
            .outline(&path, index_key(asked, &of_title.file));
        let outcome = match known {
            Some(outlined) => Ok(Ok(outlined)),
            None => {
                let indexed = indexed(state, asked, &of_title).await;
                indexed.map(|(outcome, _)| outcome.map(|index| index.outline()))
            }
        };
        match outcome {
            Err(error) if is_outdated(&error) && tried < VERSIONS_TRIED_MAX => {
                state.library.distrust(&path);
            }
            Err(error) => return Err(error),
            Ok(outcome) => {
                return Ok(outcome.map(|outlined| OutlinedFile {
                    suffix,
                    outlined,
                    file: of_title.file,
                }));
            }
        }
    }
    Err(ReplyError::Failed(Failure::Changed))
}

/// The names beside a title that belong to it. If its own file is known, by the device of that, a
/// disk that does not answer holds up no titles of others.
async fn names_beside(
    state: &Arc<MediaState>,
    asked: &mut ParsedRequest,
    title: &str,
    device: Option<usize>,
) -> Result<NamesBeside, ReplyError> {
    let (stem, extension) = split_extension(title).ok_or_else(absent)?;
    let (folder, name) = stem.split_at(stem.rfind('/').map_or(0, |at| at + 1));
    let of = (composed(name).into_owned(), extension.to_owned());
    let wanted: Arc<NameFilter> = {
        let of = of.clone();
        Arc::new(move |name: &str| NameBeside::read((&of.0, &of.1), name).is_some())
    };
    let within = asked.settings.lookup_timeout.min(LOOKUP_MAX);
    let turn = match device {
        Some(device) => state.titles.turn(device, Instant::now() + within).await,
        None => state.listings.make(within).await,
    };
    let turn = turn.ok_or(ReplyError::Refused(Refusal::Full))?;
    asked.account.turn(Stage::Lookup);
    let found = state.lookups.list(folder, Some(wanted), within).await;
    asked.account.turn(Stage::Other);
    drop(turn);
    let entries = found.map_err(|error| match error {
        ResolveError::FolderTooLarge(_) => {
            let detail = "the folder has more than 10,000 names, and has changed since the server \
                          scanned it; try again after the next scan";
            ReplyError::Status(Status::NotFound, Some(detail.to_owned()))
        }
        error => not_found(state, error),
    })?;
    let mut names = NamesBeside::default();
    for entry in entries {
        if !matches!(entry.kind, FolderEntryKind::File(_)) {
            continue;
        }
        match NameBeside::read((&of.0, &of.1), &entry.name) {
            Some(NameBeside::File(suffix)) => names.suffixes.push(suffix),
            Some(NameBeside::Subtitles(subtitles)) => {
                let path = format!("{stem}.{}", subtitles.suffix());
                if asked.settings.access.have_same_rule(title, &path) {
                    names.subtitles.push(subtitles);
                }
            }
            None => {}
        }
    }
    names.suffixes.sort();
    names.suffixes.dedup();
    names.subtitles = Subtitles::listed(names.subtitles);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_title_belong_to_it() {
        let read = |name: &str| match NameBeside::read(("film", "mp4"), name) {
            Some(NameBeside::File(suffix)) => suffix,
            Some(NameBeside::Subtitles(subtitles)) => format!("subtitles {}", subtitles.suffix()),
            None => String::new(),
        };
        for (name, expected) in [
            ("film_480.mp4", "_480"),
            ("film-720p.mp4", "-720p"),
            ("film.vtt", "subtitles vtt"),
            ("film.pt-BR.srt", "subtitles pt-BR.srt"),
            ("film.mp4", ""),
            ("film_480.mov", ""),
            ("film_480.MP4", ""),
            ("film_480.mp4.part", ""),
            ("film2_480.mp4", ""),
            ("film_trailer.mp4", ""),
            ("film.chapters.vtt", ""),
            ("other_480.mp4", ""),
        ] {
            assert_eq!(read(name), expected, "{name}");
        }
    }
}
