//! Titles as a whole: the files that a title consists of, its subtitles, and playlists with all of
//! them.
//!
//! A title is the file at its path or, if there is none, the files beside that path whose names have
//! a number more: `film_480.mp4` and `film_720.mp4` for `film.mp4`. Names are searched in the folder
//! as the library knows it, and only for playlists; segments name their file.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
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
use super::lookup::FolderNames;
use super::packaged_file::{
    FileOfTitle, file_path, find, is_outdated, links, refuse, request_bytes, split_extension,
    text_reply,
};
use super::packaged_index::{RequestShare, index, index_key};
use super::parsed_request::ParsedRequest;
use super::prepared_reply::{PreparedReply, ReplyError, VERSIONS_TRIED_MAX};
use super::range_request::{RangeRequester, part};
use super::state::MediaState;
use super::steered;
use super::title_indexes::PackagedOutline;

/// Largest file with subtitles: twenty times that of any film.
const SUBTITLES_BYTES_MAX: u64 = 4 << 20;

/// Indexes of one title that are read at a time; further ones bound the memory of their outlines.
const INDEXES_AT_ONCE: usize = 4;

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
    /// The error of a root that may have more.
    unanswered: Option<ReplyError>,
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
    let links = steered::links(state, head, asked, title);
    let text = match resource {
        Resource::Manifest => presentation.dash_manifest(&links),
        _ => presentation.hls_master(&links),
    };
    let requested = format!("{title}/{resource}");
    let first = files.first().ok_or_else(absent)?;
    text_reply(state, head, asked, &requested, text.into(), &first.file).await
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
    text_reply(state, head, asked, &requested, text.into(), &first.file).await
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
            text => {
                return text_reply(state, head, asked, &requested, text?.into(), &file).await;
            }
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
/// unless all are. A root that does not answer matters only if no other has files of the title.
async fn outlined(
    state: &Arc<MediaState>,
    asked: &mut ParsedRequest,
    title: &str,
) -> Result<(Vec<OutlinedFile>, Vec<Subtitles>), ReplyError> {
    let own = outline_all(state, asked, title, vec![String::new()]).await?;
    if let Some(file) = own.files.first() {
        // A film without its subtitles is better than none.
        let names = names_beside(state, asked, title, Some(file.file.device)).await;
        let names = names.unwrap_or_default();
        return Ok((own.files, names.subtitles));
    }
    if let Some(refused) = own.refused {
        return Err(refused);
    }
    let names = names_beside(state, asked, title, None).await;
    let names = match (names, own.unanswered) {
        (Err(_), Some(unanswered)) => return Err(unanswered),
        (names, unanswered) => {
            let names = names?;
            NamesBeside {
                unanswered: unanswered.or(names.unanswered),
                ..names
            }
        }
    };
    if names.suffixes.len() > FILES_MAX {
        return Err(refuse(state, title, PackageFault::TooMany("files")));
    }
    let all = outline_all(state, asked, title, names.suffixes).await?;
    // A playlist without a file that is known to exist would be another one.
    if let Some(unanswered) = all.unanswered {
        return Err(unanswered);
    }
    match all.files.is_empty() {
        true => Err(names.unanswered.or(all.refused).unwrap_or_else(absent)),
        false => Ok((all.files, names.subtitles)),
    }
}

/// The outlines of those files of a title that exist. Their indexes are requested from the device
/// together, so that it can read them in its own order.
async fn outline_all(
    state: &Arc<MediaState>,
    asked: &mut ParsedRequest,
    title: &str,
    suffixes: Vec<String>,
) -> Result<FileOutlines, ReplyError> {
    let mut all = FileOutlines::default();
    let mut left = suffixes;
    for tried in 1.. {
        let mut found = Vec::with_capacity(left.len());
        for suffix in left {
            match FoundFile::find(state, asked, title, suffix).await {
                Ok(file) => found.extend(file),
                Err(error) if is_unanswered(&error) => all.unanswered = Some(error),
                Err(error) => return Err(error),
            }
        }
        let mut outdated = Vec::new();
        let share = RequestShare::new(asked.account.held.take());
        asked.account.turn(Stage::Device);
        let shared = &*asked;
        let outlines: Vec<_> = found
            .into_iter()
            .map(|file| file.outline(state, shared, &share))
            .collect();
        let mut outlines = stream::iter(outlines).buffered(INDEXES_AT_ONCE);
        while let Some((
            FoundFile {
                suffix, path, file, ..
            },
            outcome,
        )) = outlines.next().await
        {
            match outcome {
                Ok(Ok(outlined)) => all.files.push(OutlinedFile {
                    suffix,
                    outlined,
                    file,
                }),
                Ok(Err(fault)) => all.refused = Some(refuse(state, &path, fault)),
                Err(error) if is_outdated(&error) && tried < VERSIONS_TRIED_MAX => {
                    state.library.distrust(&path);
                    outdated.push(suffix);
                }
                Err(error) if is_outdated(&error) => {
                    return Err(ReplyError::Failed(Failure::Changed));
                }
                Err(error) if is_absent(&error, &suffix) => {}
                Err(error) => return Err(error),
            }
            if all.memory_bytes() > shared.settings.package_memory {
                return Err(refuse(state, title, PackageFault::TooMany("segments")));
            }
        }
        drop(outlines);
        asked.account.turn(Stage::Other);
        // All readings have ended, or were none of this request.
        asked.account.held = Arc::into_inner(share).flatten();
        if outdated.is_empty() {
            break;
        }
        left = outdated;
    }
    sort_by_suffix(&mut all.files, |file| file.suffix.as_str());
    Ok(all)
}

/// Sorts files as [`names_beside`] does: outdated ones were found again after the others.
fn sort_by_suffix<T>(files: &mut [T], suffix: impl Fn(&T) -> &str) {
    files.sort_by(|one, other| suffix(one).cmp(suffix(other)));
}

/// Whether a file of a title is not there: it does not exist, was removed meanwhile, has another rule,
/// or may not be read. The title's own file, whose suffix is empty, is there if it may not be read.
fn is_absent(error: &ReplyError, suffix: &str) -> bool {
    match error {
        ReplyError::Status(Status::NotFound, _) => true,
        ReplyError::Status(Status::Forbidden, _) => !suffix.is_empty(),
        _ => false,
    }
}

/// Whether a root that may have the file did not answer.
fn is_unanswered(error: &ReplyError) -> bool {
    matches!(
        error,
        ReplyError::Failed(Failure::TimedOut | Failure::Device)
    )
}

/// The outlines of files, and why the last of the others cannot be packaged.
#[derive(Default)]
struct FileOutlines {
    files: Vec<OutlinedFile>,
    refused: Option<ReplyError>,
    /// The error of a root that may have another of the files.
    unanswered: Option<ReplyError>,
}

impl FileOutlines {
    fn memory_bytes(&self) -> u64 {
        let bytes = self
            .files
            .iter()
            .map(|file| file.outlined.outline.memory_bytes() as u64);
        bytes.sum()
    }
}

/// An outline, or why the file cannot be packaged.
type OutlineOutcome = Result<Result<Arc<PackagedOutline>, PackageFault>, ReplyError>;

/// A file of a title, and its outline or the means to read it.
struct FoundFile {
    suffix: String,
    path: String,
    file: Arc<FileEntry>,
    outline: Result<Arc<PackagedOutline>, RangeRequester>,
}

impl FoundFile {
    /// The file with this suffix; `None` if it is not there.
    async fn find(
        state: &Arc<MediaState>,
        asked: &mut ParsedRequest,
        title: &str,
        suffix: String,
    ) -> Result<Option<Self>, ReplyError> {
        let path = file_path(title, &suffix);
        let file = match find(state, asked, title, &path).await {
            Ok(of_title) => of_title.file,
            Err(error) if is_absent(&error, &suffix) => return Ok(None),
            Err(error) => return Err(error),
        };
        let outline = match state.titles.outline(&path, index_key(state, asked, &file)) {
            Some(known) => Ok(known),
            None => Err(request_bytes(state, asked, &file)?),
        };
        Ok(Some(Self {
            suffix,
            path,
            file,
            outline,
        }))
    }

    /// The file with its outline, or why it cannot be packaged.
    async fn outline(
        self,
        state: &Arc<MediaState>,
        asked: &ParsedRequest,
        share: &RequestShare,
    ) -> (Self, OutlineOutcome) {
        let outcome = match &self.outline {
            Ok(known) => Ok(Ok(Arc::clone(known))),
            Err(asking) => {
                let indexed = index(state, asked, &self.path, &self.file, asking, share).await;
                indexed.map(|outcome| outcome.map(|index| index.outline()))
            }
        };
        (self, outcome)
    }
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
        None => state.generated.make(within).await,
    };
    let turn = turn.ok_or(ReplyError::Refused(Refusal::Full))?;
    asked.account.turn(Stage::Lookup);
    let found = state.lookups.list(folder, Some(wanted), within).await;
    asked.account.turn(Stage::Other);
    drop(turn);
    let found = found.map_err(|error| match error {
        ResolveError::FolderTooLarge(_) => {
            let detail = "the folder has more than 10,000 names, and has changed since the server \
                          scanned it; try again after the next scan";
            ReplyError::Status(Status::NotFound, Some(detail.to_owned()))
        }
        error => not_found(state, error),
    })?;
    let FolderNames {
        entries,
        unanswered,
    } = found;
    let mut names = NamesBeside {
        unanswered: unanswered.map(|error| not_found(state, error)),
        ..NamesBeside::default()
    };
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
    fn file_that_was_found_again_keeps_its_place() {
        let mut files = ["_1080", "_720", "", "_480"];
        sort_by_suffix(&mut files, |suffix| suffix);
        assert_eq!(files, ["", "_1080", "_480", "_720"]);
    }

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
