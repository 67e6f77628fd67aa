//! Manifests as read from disk, and the titles that they describe together.

use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{self, Read as _};
use std::sync::Arc;

use headlong_media::{
    HlsMaster, HlsMedia, HlsSegment, Mpd, NamedFile, Title, TitleBuilder, TitleNotes, dash_title,
    master_title, media_title, playlists,
};

use crate::catalogue::ScannedFile;
use crate::dash::parse_dash;
use crate::hls::{HlsPlaylist, parse_hls};
use crate::identity::FileIdentity;
use crate::kind::{FileKind, file_kind, split_name};
use crate::normal_form::in_any_form;
use crate::root::Root;
use crate::warning::Warning;

/// Largest manifest read; the longest film in one-second chunks needs a tenth of it.
const MANIFEST_BYTES_MAX: u64 = 8 << 20;

pub(crate) type Manifests = BTreeMap<Arc<str>, Arc<Manifest>>;

/// One version of a manifest, parsed.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) identity: FileIdentity,
    parsed: ParsedManifest,
}

#[derive(Debug)]
enum ParsedManifest {
    Master(HlsMaster),
    Media(HlsMedia),
    Dash(Mpd),
    /// A list of files or stations for music players, which is no title.
    FileList,
    /// With the reason.
    Broken(String),
    /// With the reason; the next attempt may succeed.
    Unread(String),
    /// It exceeds the memory limit; the bytes that it needs.
    TooMuch(u64),
}

/// Bytes of memory for each byte of a manifest's text.
const BYTES_PER_TEXT_BYTE: u64 = 8;
/// Memory for the manifests of a root, and the extra memory for each of its files: a segment of a
/// playlist takes half of that.
const MEMORY_MIN: u64 = 64 << 20;
const MEMORY_PER_FILE: u64 = 512;

/// Memory used by the known manifests of a root.
#[derive(Debug, Default)]
pub(crate) struct ManifestMemory {
    used: u64,
}

impl ManifestMemory {
    /// Whether `bytes` more fit, in a root of `files` files.
    pub(crate) fn has_room(&self, bytes: u64, files: usize) -> bool {
        self.used + bytes <= MEMORY_MIN + MEMORY_PER_FILE * files as u64
    }

    pub(crate) fn take(&mut self, bytes: u64) {
        self.used += bytes;
    }
}

impl Manifest {
    /// Reads and parses a manifest. URLs of `own_hosts` in it are paths of the tree.
    pub(crate) fn read(
        root: &Root,
        path: &str,
        identity: FileIdentity,
        own_hosts: &[String],
    ) -> Self {
        let parsed = read_text(root, path, identity).and_then(|text| {
            let parsed = parse(path, &text.text, own_hosts);
            let mut parsed = parsed.map_err(ParsedManifest::Broken)?;
            if let (true, Some(notes)) = (text.is_latin1, parsed.notes()) {
                notes.push("it is not UTF-8 and is read as Latin-1".to_owned());
            }
            Ok(parsed)
        });
        let parsed = parsed.unwrap_or_else(|reason| reason);
        Self { identity, parsed }
    }

    /// A manifest that is skipped, because it needs too much memory.
    pub(crate) fn too_much(identity: FileIdentity, bytes: u64) -> Self {
        let parsed = ParsedManifest::TooMuch(bytes);
        Self { identity, parsed }
    }

    /// Bytes of memory that it takes, or would take.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.parsed {
            ParsedManifest::Media(media) => {
                let of = |segment: &HlsSegment| size_of::<HlsSegment>() + segment.uri.len() + 32;
                let segments = media.segments.iter().map(of);
                let names = media
                    .imports
                    .iter()
                    .map(|name| size_of::<String>() + name.len());
                let notes = media
                    .notes
                    .iter()
                    .map(|note| size_of::<String>() + note.len());
                segments.chain(names).chain(notes).sum::<usize>() as u64
            }
            ParsedManifest::Master(_) | ParsedManifest::Dash(_) => {
                self.identity.size * BYTES_PER_TEXT_BYTE
            }
            ParsedManifest::Broken(_) | ParsedManifest::Unread(_) | ParsedManifest::FileList => 0,
            ParsedManifest::TooMuch(bytes) => *bytes,
        }
    }

    /// Whether it was skipped.
    pub(crate) fn is_too_much(&self) -> bool {
        matches!(self.parsed, ParsedManifest::TooMuch(_))
    }

    /// Whether it could not be read. The next attempt may succeed.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self.parsed, ParsedManifest::Unread(_))
    }
}

impl ParsedManifest {
    /// The notes on its text.
    fn notes(&mut self) -> Option<&mut TitleNotes> {
        match self {
            Self::Master(master) => Some(&mut master.notes),
            Self::Media(media) => Some(&mut media.notes),
            Self::Dash(mpd) => Some(&mut mpd.notes),
            _ => None,
        }
    }
}

fn parse(path: &str, text: &str, own_hosts: &[String]) -> Result<ParsedManifest, String> {
    if file_kind(path) == FileKind::Dash {
        return parse_dash(text, own_hosts).map(ParsedManifest::Dash);
    }
    // A media playlist of HLS has at least a target duration.
    let (_, extension) = split_name(path);
    if extension.eq_ignore_ascii_case("m3u") && !text.contains("#EXT-X-") {
        return Ok(ParsedManifest::FileList);
    }
    parse_hls(text, own_hosts).map(|playlist| match playlist {
        HlsPlaylist::Master(master) => ParsedManifest::Master(master),
        HlsPlaylist::Media(media) => ParsedManifest::Media(media),
    })
}

/// The text of a manifest.
struct ManifestText {
    text: String,
    /// Whether it was not UTF-8.
    is_latin1: bool,
}

fn read_text(
    root: &Root,
    path: &str,
    identity: FileIdentity,
) -> Result<ManifestText, ParsedManifest> {
    if identity.size > MANIFEST_BYTES_MAX {
        let reason = format!("it is larger than {MANIFEST_BYTES_MAX} bytes");
        return Err(ParsedManifest::Broken(reason));
    }
    let unread = |error: io::Error| ParsedManifest::Unread(error.to_string());
    let (file, opened) = root.open_file(path).map_err(unread)?;
    if !opened.has_bytes_of(&identity) {
        return Err(ParsedManifest::Unread(
            "it changed while it was read".to_string(),
        ));
    }
    let mut bytes = Vec::new();
    let read = file.take(MANIFEST_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(unread)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => ManifestText {
            text,
            is_latin1: false,
        },
        // Old tools write names of songs and films so.
        Err(error) => ManifestText {
            text: error.as_bytes().iter().copied().map(char::from).collect(),
            is_latin1: true,
        },
    })
}

/// Segments, for all titles together, that may be named although their files are missing or belong
/// to another title; and the extra number for each existing file.
const SEGMENTS_SPARE: u64 = 500_000;
const SEGMENTS_PER_FILE: u64 = 4;
/// Files that are looked up for all titles, and the extra number for each existing one.
const LOOKS_MIN: u64 = 4_000_000;
const LOOKS_PER_FILE: u64 = 16;
/// Most segments of the titles of an out-of-order scan.
const SEGMENTS_AROUND: u64 = 400_000;

/// The titles that the manifests describe, made of the located files, in path order, with warnings.
///
/// A media playlist that a master playlist names is part of that title; any other is a title of its
/// own. An HLS and a DASH manifest over the same segments are two titles, since a player is given
/// one of them.
pub(crate) fn titles(
    manifests: &Manifests,
    located: &HashMap<Arc<str>, ScannedFile>,
) -> (Vec<Title>, Vec<Warning>) {
    // Index of the title that first named a file, by the address of the file's name. Files of an
    // abandoned title are free again.
    let mut claims: HashMap<*const u8, usize> = HashMap::new();
    let given_up: RefCell<HashSet<usize>> = RefCell::default();
    let number = Cell::new(0);
    let mut look = |path: &str| {
        let found = in_any_form(path, |path| located.get_key_value(path));
        let Some((file, _)) = found else {
            return NamedFile::Missing;
        };
        match claims.entry(file.as_ptr()) {
            Entry::Occupied(mut first) if given_up.borrow().contains(first.get()) => {
                first.insert(number.get());
            }
            Entry::Occupied(_) => return NamedFile::Known(Arc::clone(file)),
            Entry::Vacant(first) => {
                first.insert(number.get());
            }
        }
        NamedFile::New(Arc::clone(file))
    };
    let files = located.len() as u64;
    let budget = SEGMENTS_SPARE + SEGMENTS_PER_FILE * files;
    let looks = LOOKS_MIN + LOOKS_PER_FILE * files;
    let builder = TitleBuilder::new(budget, looks, &mut look);
    build_titles(manifests, builder, |is_built| {
        if !is_built {
            given_up.borrow_mut().insert(number.get());
        }
        number.set(number.get() + 1);
    })
}

/// The titles of an out-of-order scan: few, with all files that they name, as the existing files
/// are not known yet.
pub(crate) fn titles_around(manifests: &Manifests) -> Vec<Title> {
    let mut look = |path: &str| NamedFile::Known(Arc::from(path));
    let builder = TitleBuilder::new(SEGMENTS_AROUND, u64::MAX, &mut look);
    build_titles(manifests, builder, |_| ()).0
}

fn build_titles(
    manifests: &Manifests,
    mut builder: TitleBuilder<'_>,
    mut ended: impl FnMut(bool),
) -> (Vec<Title>, Vec<Warning>) {
    let mut named: BTreeSet<Arc<str>> = BTreeSet::new();
    for (path, manifest) in manifests {
        if let ParsedManifest::Master(master) = &manifest.parsed {
            let references = playlists(path, master, &mut TitleNotes::default());
            named.extend(references.into_iter().map(|reference| {
                let known = in_any_form(&reference.path, |path| manifests.get_key_value(path));
                known.map_or(reference.path, |(path, _)| Arc::clone(path))
            }));
        }
    }
    let media = |path: &str| {
        let manifest = in_any_form(path, |path| manifests.get(path))?;
        match &manifest.parsed {
            ParsedManifest::Media(media) => Some(media),
            _ => None,
        }
    };
    let (mut titles, mut warnings) = (Vec::new(), Vec::new());
    for (path, manifest) in manifests {
        let title = match &manifest.parsed {
            ParsedManifest::Master(master) => master_title(path, master, media, &mut builder),
            ParsedManifest::Media(media) if !named.contains(path) && !media.i_frames_only => {
                media_title(path, media, &mut builder)
            }
            ParsedManifest::Media(_) | ParsedManifest::FileList => continue,
            ParsedManifest::Dash(mpd) => dash_title(path, mpd, &mut builder),
            ParsedManifest::Broken(reason) | ParsedManifest::Unread(reason) => {
                let what = match manifest.is_unread() {
                    true => "could not be read",
                    false => "is not understood",
                };
                let reason =
                    format!("the manifest {what} ({reason}); it is served as a plain file");
                warnings.push(Warning::new(path, reason));
                continue;
            }
            ParsedManifest::TooMuch(_) => {
                warnings.push(Warning::new(path, TOO_MUCH.to_owned()));
                continue;
            }
        };
        ended(title.is_some());
        let Some(title) = title else {
            warnings.push(Warning::new(path, TOO_MANY.to_owned()));
            continue;
        };
        warnings.extend(title.notes.iter().map(|note| Warning::new(path, note)));
        if title.notes.dropped_count() > 0 {
            let reason = format!("and {} more of the kind", title.notes.dropped_count());
            warnings.push(Warning::new(path, reason));
        }
        titles.push(title);
    }
    (titles, warnings)
}

/// Warning about a title that exceeds the budget.
const TOO_MANY: &str = "it names more files that are missing or belong to other titles than all \
                        manifests together may; it is served as a plain file";
/// Warning about a manifest that exceeds the memory limit.
const TOO_MUCH: &str = "the manifests of this root need more memory than its files allow; it is \
                        served as a plain file";

/// Media playlists that master playlists name and that are not among the manifests.
pub(crate) fn unread(manifests: &Manifests) -> BTreeSet<Arc<str>> {
    let named = manifests
        .iter()
        .flat_map(|(path, manifest)| match &manifest.parsed {
            ParsedManifest::Master(master) => playlists(path, master, &mut TitleNotes::default()),
            _ => Vec::new(),
        });
    let paths = named.map(|reference| reference.path);
    paths.filter(|path| !manifests.contains_key(path)).collect()
}

/// Whether a master playlist or an MPD is among the manifests: these describe a title completely.
pub(crate) fn is_complete(manifests: &Manifests) -> bool {
    let mut manifests = manifests.values().map(|manifest| &manifest.parsed);
    manifests.any(|parsed| matches!(parsed, ParsedManifest::Master(_) | ParsedManifest::Dash(_)))
}

/// Warns about each title that names missing files.
pub(crate) fn missing(titles: &[Title]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for title in titles {
        let (mut named, mut missing, mut first) = (0, 0, None);
        for rendition in &title.renditions {
            named += rendition.segments.files;
            missing += rendition.segments.missing;
            first = first.or(rendition.segments.first_missing.as_ref());
        }
        if let Some(first) = first {
            let verb = if missing == 1 { "is" } else { "are" };
            let reason = format!(
                "{missing} of the {named} files that it names {verb} missing, or only links; \
                 the first is `{first}`"
            );
            warnings.push(Warning::new(&title.path, reason));
        }
    }
    warnings
}
