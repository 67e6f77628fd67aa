//! Titles as shown on the library page.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use headlong_media::{DeliveryKind, MediaType, Segments, Title, bit_rate, encode_path};
use headlong_units::Duration;
use headlong_units::shown_path;
use serde::Serialize;

use crate::entry::Files;
use crate::kind::{IMAGES, split_name};
use crate::subtitles::{Subtitles, SubtitlesView};

/// Manifest names that do not describe the title: its directory does.
const GENERIC: [&str; 10] = [
    "master",
    "index",
    "playlist",
    "manifest",
    "main",
    "stream",
    "video",
    "prog_index",
    "dash",
    "hls",
];

/// A title that a viewer can select.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TitleView {
    /// Constant while the title has this path, also across restarts.
    pub id: String,
    /// Display name: the stem of the file, or the directory if that is generic.
    pub name: String,
    /// `hls`, `dash` or `file`.
    pub kind: &'static str,
    /// URL path of the master manifest, or of the file.
    pub path: String,
    /// The same as the path in the tree of all roots.
    #[serde(skip)]
    pub tree_path: Arc<str>,
    /// Duration; `None` if unknown. For a plain file that is until its headers were read for a
    /// viewer, in this process or an earlier one.
    pub duration_s: Option<f64>,
    /// Bit rates of its video renditions (or audio, if it has no video), in manifest order.
    pub bit_rates_bps: Vec<u64>,
    /// Total size of its files, each counted once.
    pub bytes: u64,
    /// URL path of a picture beside it: `film.jpg` or `film-poster.jpg` for `film.mp4`, or
    /// `poster.jpg` if the folder has no other title.
    pub poster: Option<String>,
    /// Subtitles beside a plain file.
    pub texts: Vec<SubtitlesView>,
    /// The first warning about it, if there is one.
    pub odd: Option<String>,
}

/// A title as stored between scans.
#[derive(Debug, Clone)]
pub(crate) struct TitleRecord {
    pub(crate) path: Arc<str>,
    kind: DeliveryKind,
    duration: Option<Duration>,
    bit_rates_bps: Vec<u64>,
    bytes: u64,
    texts: Vec<Subtitles>,
    /// Whether its folder has no other title, so that the folder's poster is its own.
    has_own_folder: bool,
}

impl TitleRecord {
    /// The record of a title with a manifest; `None` if none of its segments exists.
    pub(crate) fn of_manifest(
        title: &Title,
        size: &impl Fn(&str) -> Option<u64>,
        measures: &mut SegmentTotalsTable,
    ) -> Option<Self> {
        let has_video = title.renditions.iter().any(|r| r.media == MediaType::Video);
        let mut bit_rates_bps = Vec::new();
        // Each file once: renditions of few files may share them, those of chunks do not.
        let (mut bytes, mut few) = (0_u64, BTreeMap::new());
        for rendition in &title.renditions {
            let measure = measures.of(&rendition.segments, size);
            bytes = bytes.saturating_add(measure.file_bytes);
            few.extend(measure.few.iter().cloned());
            let shown = rendition.media == MediaType::Video
                || (!has_video && rendition.media == MediaType::Audio);
            let rate = bit_rate(
                rendition.average,
                rendition.peak,
                measure.bytes,
                measure.length,
            );
            if let Some(rate) = rate.filter(|_| shown && measure.bytes > 0) {
                bit_rates_bps.push(rate.0);
            }
        }
        let bytes = few
            .values()
            .fold(bytes, |sum, size| sum.saturating_add(*size));
        (bytes > 0).then(|| Self {
            path: Arc::clone(&title.path),
            kind: title.kind,
            duration: title.duration,
            bit_rates_bps,
            bytes,
            texts: Vec::new(),
            has_own_folder: false,
        })
    }

    /// The record of a plain file.
    pub(crate) fn of_file(path: &Arc<str>, bytes: u64, texts: Vec<Subtitles>) -> Self {
        Self {
            path: Arc::clone(path),
            kind: DeliveryKind::File,
            duration: None,
            bit_rates_bps: Vec::new(),
            bytes,
            texts,
            has_own_folder: false,
        }
    }

    /// Its view for the library page; `None` if it was removed since the scan.
    pub(crate) fn view(&self, files: &Files) -> Option<TitleView> {
        let entry = files.get(&self.path)?;
        let (mut bytes, mut duration) = (self.bytes, self.duration);
        let mut bit_rates_bps = self.bit_rates_bps.clone();
        if self.kind == DeliveryKind::File {
            bytes = entry.size;
            let facts = entry.stream.facts();
            let rate = facts.and_then(|facts| facts.bit_rate(bytes));
            // A duration that gives no valid bit rate is ignored.
            duration = facts.filter(|_| rate.is_some()).map(|facts| facts.duration);
            bit_rates_bps.extend(rate.map(|rate| rate.0));
        }
        let texts = self.texts.iter();
        let texts = texts.filter(|text| files.contains_key(&text.path));
        Some(TitleView {
            id: format!("{:016x}", fnv1a(self.path.as_bytes())),
            name: shown_path(&name(&self.path)).into_owned(),
            kind: self.kind.name(),
            path: encode_path(&self.path),
            tree_path: Arc::clone(&self.path),
            duration_s: duration.map(Duration::as_secs_f64),
            bit_rates_bps,
            bytes,
            poster: self.poster(files).map(|path| encode_path(&path)),
            texts: texts.map(Subtitles::view).collect(),
            odd: None,
        })
    }
}

/// Renditions of up to this many files may share files with others.
const FEW_FILES: usize = 16;

/// Totals of the segments of a rendition.
struct SegmentTotals {
    /// Bytes and duration of the existing segments.
    bytes: u64,
    length: Duration,
    /// Bytes of its files, each once; zero for few files.
    file_bytes: u64,
    /// Its files with their sizes, if they are few.
    few: Vec<(Arc<str>, u64)>,
}

/// Totals of segments, which titles may share.
#[derive(Default)]
pub(crate) struct SegmentTotalsTable(HashMap<*const Segments, SegmentTotals>);

impl SegmentTotalsTable {
    fn of(
        &mut self,
        segments: &Arc<Segments>,
        size: &impl Fn(&str) -> Option<u64>,
    ) -> &SegmentTotals {
        let known = self.0.entry(Arc::as_ptr(segments));
        known.or_insert_with(|| SegmentTotals::of(segments, size))
    }
}

impl SegmentTotals {
    fn of(segments: &Segments, size: &impl Fn(&str) -> Option<u64>) -> Self {
        let (mut bytes, mut length, mut files) = (0_u64, Duration::ZERO, Vec::new());
        for segment in &segments.list {
            let Some(whole) = size(&segment.path) else {
                continue;
            };
            bytes = bytes.saturating_add(segment.range.map_or(whole, |range| range.len()));
            length += segment.duration;
            files.push((Arc::clone(&segment.path), whole));
        }
        files.sort_unstable();
        files.dedup();
        let are_few = files.len() <= FEW_FILES;
        let file_bytes = files.iter().map(|(_, size)| *size);
        let file_bytes = file_bytes.fold(0_u64, u64::saturating_add);
        Self {
            bytes,
            length,
            file_bytes: if are_few { 0 } else { file_bytes },
            few: if are_few { files } else { Vec::new() },
        }
    }
}

/// FNV-1a: stable across runs, unlike the standard library's hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn name(path: &str) -> String {
    named_by(path).replace('_', " ")
}

/// The part of a path that names the title.
fn named_by(path: &str) -> &str {
    let (stem, _) = split_name(path);
    let directory = path.rsplit('/').nth(1);
    let generic = GENERIC.iter().any(|word| word.eq_ignore_ascii_case(stem));
    directory.filter(|_| generic).unwrap_or(stem)
}

fn folder_of(path: &str) -> &str {
    &path[..path.rfind('/').map_or(0, |slash| slash + 1)]
}

/// Records which titles own the poster of their folder: those of a folder in which all titles have
/// one name, such as an HLS and a DASH manifest of one film.
pub(crate) fn assign_folder_posters(titles: &mut [TitleRecord]) {
    let mut names: HashMap<&str, Option<&str>> = HashMap::new();
    for title in &*titles {
        let name = named_by(&title.path);
        let known = names.entry(folder_of(&title.path)).or_insert(Some(name));
        *known = known.filter(|known| *known == name);
    }
    let is_own = |title: &TitleRecord| {
        names
            .get(folder_of(&title.path))
            .is_some_and(Option::is_some)
    };
    let own: Vec<bool> = titles.iter().map(is_own).collect();
    for (title, has_own_folder) in titles.iter_mut().zip(own) {
        title.has_own_folder = has_own_folder;
    }
}

impl TitleRecord {
    fn poster(&self, files: &Files) -> Option<String> {
        let (stem, _) = split_name(&self.path);
        let of_folder = self.has_own_folder.then_some(["poster", ""]);
        let mut candidate = String::with_capacity(self.path.len() + "-poster.jpeg".len());
        for stem in [[stem, ""], [stem, "-poster"]].into_iter().chain(of_folder) {
            for extension in IMAGES {
                candidate.clear();
                candidate.push_str(folder_of(&self.path));
                candidate.extend(stem);
                candidate.extend([".", extension]);
                if files.contains_key(candidate.as_str()) {
                    return Some(candidate);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_with_generic_file_is_named_after_directory() {
        assert_eq!(name("films/Big_Buck_Bunny/master.m3u8"), "Big Buck Bunny");
        assert_eq!(name("films/Sintel.mp4"), "Sintel");
        assert_eq!(name("master.m3u8"), "master");
    }
}
