//! Manifests as read from disk, and the titles they describe together.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, Read as _};
use std::sync::Arc;

use headlong_media::{
    HlsMaster, HlsMedia, Mpd, Notes, Title, dash_title, master_title, media_title, playlists,
};

use crate::dash::parse_dash;
use crate::hls::{HlsPlaylist, parse_hls};
use crate::identity::Identity;
use crate::kind::{FileKind, file_kind};
use crate::root::Root;
use crate::warning::Warning;

/// Largest manifest read; the longest film in one-second chunks needs a tenth of it.
const MANIFEST_BYTES_MAX: u64 = 8 << 20;

pub(crate) type Manifests = BTreeMap<Arc<str>, Arc<Manifest>>;

/// One version of a manifest, parsed.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) identity: Identity,
    parsed: Parsed,
}

#[derive(Debug)]
enum Parsed {
    Master(HlsMaster),
    Media(HlsMedia),
    Dash(Mpd),
    /// And why.
    Broken(String),
    /// Why it could not be read; it may be the next time.
    Unread(String),
}

impl Manifest {
    /// Reads and parses.
    pub(crate) fn read(root: &Root, path: &str, identity: Identity) -> Self {
        let parsed = read_text(root, path, identity)
            .and_then(|text| {
                let parsed = match file_kind(path) {
                    FileKind::Dash => parse_dash(&text).map(Parsed::Dash),
                    _ => parse_hls(&text).map(|playlist| match playlist {
                        HlsPlaylist::Master(master) => Parsed::Master(master),
                        HlsPlaylist::Media(media) => Parsed::Media(media),
                    }),
                };
                parsed.map_err(Parsed::Broken)
            })
            .unwrap_or_else(|reason| reason);
        Self { identity, parsed }
    }

    /// Whether it could not be read. That says nothing of the next time.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self.parsed, Parsed::Unread(_))
    }
}

fn read_text(root: &Root, path: &str, identity: Identity) -> Result<String, Parsed> {
    if identity.size > MANIFEST_BYTES_MAX {
        let reason = format!("it is larger than {MANIFEST_BYTES_MAX} bytes");
        return Err(Parsed::Broken(reason));
    }
    let unread = |error: io::Error| Parsed::Unread(error.to_string());
    let (file, opened) = root.open_file(path).map_err(unread)?;
    if !opened.has_bytes_of(&identity) {
        return Err(Parsed::Unread("it changed while it was read".to_string()));
    }
    let mut text = String::new();
    let read = file.take(MANIFEST_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Parsed::Broken(error.to_string()),
        _ => unread(error),
    })?;
    Ok(text)
}

/// The titles that the manifests describe, in path order, and what is odd about them.
///
/// A media playlist that a master playlist names is part of that title; one that none names is a
/// title of its own. An HLS and a DASH manifest over the same segments are two titles, since a
/// player is given one of them.
pub(crate) fn titles(manifests: &Manifests) -> (Vec<Title>, Vec<Warning>) {
    let mut named: BTreeSet<Arc<str>> = BTreeSet::new();
    for (path, manifest) in manifests {
        if let Parsed::Master(master) = &manifest.parsed {
            let references = playlists(path, master, &mut Notes::default());
            named.extend(references.into_iter().map(|reference| reference.path));
        }
    }
    let media = |path: &str| match manifests.get(path).map(|manifest| &manifest.parsed) {
        Some(Parsed::Media(media)) => Some(media),
        _ => None,
    };
    let (mut titles, mut warnings) = (Vec::new(), Vec::new());
    for (path, manifest) in manifests {
        let title = match &manifest.parsed {
            Parsed::Master(master) => master_title(path, master, media),
            Parsed::Media(media) if !named.contains(path) && !media.i_frames_only => {
                media_title(path, media)
            }
            Parsed::Media(_) => continue,
            Parsed::Dash(mpd) => dash_title(path, mpd),
            Parsed::Broken(reason) | Parsed::Unread(reason) => {
                let what = match manifest.is_unread() {
                    true => "could not be read",
                    false => "is not understood",
                };
                let reason =
                    format!("the manifest {what} ({reason}); it is served as a plain file");
                warnings.push(Warning::new(path, reason));
                continue;
            }
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

/// Media playlists that master playlists name and that are not among the manifests.
pub(crate) fn unread(manifests: &Manifests) -> BTreeSet<Arc<str>> {
    let named = manifests
        .iter()
        .flat_map(|(path, manifest)| match &manifest.parsed {
            Parsed::Master(master) => playlists(path, master, &mut Notes::default()),
            _ => Vec::new(),
        });
    let paths = named.map(|reference| reference.path);
    paths.filter(|path| !manifests.contains_key(path)).collect()
}

/// Whether a master playlist or an MPD is among the manifests: they say what all of a title is.
pub(crate) fn is_complete(manifests: &Manifests) -> bool {
    let mut manifests = manifests.values().map(|manifest| &manifest.parsed);
    manifests.any(|parsed| matches!(parsed, Parsed::Master(_) | Parsed::Dash(_)))
}

/// Says of each title which files it names that are nowhere.
pub(crate) fn missing(titles: &[Title], is_here: impl Fn(&str) -> bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for title in titles {
        let renditions = title.renditions.iter();
        let segments = renditions.flat_map(|rendition| &rendition.segments);
        let (mut named, mut missing, mut first) = (HashSet::new(), 0u64, None);
        for segment in segments {
            if named.insert(&*segment.path) && !is_here(&segment.path) {
                missing += 1;
                first.get_or_insert(&*segment.path);
            }
        }
        if let Some(first) = first {
            let verb = if missing == 1 { "is" } else { "are" };
            let reason = format!(
                "{missing} of the {} files that it names {verb} not there, or only as links; \
                 the first is `{first}`",
                named.len()
            );
            warnings.push(Warning::new(&title.path, reason));
        }
    }
    warnings
}
