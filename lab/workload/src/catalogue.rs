//! The catalogue: all titles, their durations, and the files that hold them.
//!
//! A title's number determines its bytes ([`crate::content`]); its path contains the number and,
//! for the file of a segment, the offset in the title. So a client can verify a reply from its URL
//! and range alone, without a list of files ([`locate`]).
//!
//! A work with several renditions is one title for each: consecutive numbers in ascending order of
//! bit rate, with the same rank and duration.
//!
//! Invariants: title numbers count from 0 across all groups; within a group they are sorted by
//! popularity and then by bit rate; the order of creation is drawn independently, so that
//! popularity and position on the disk are not correlated (thesis 3.5.2).

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_random::{Generator, Zipf};
use headlong_units::{ByteRange, Duration};

use crate::TitleForm;
use crate::phased::{ContentKind, PhasedCatalogue};
use crate::specification::{Specification, TitleGroup};

/// Content consists of words of this size.
const WORD_BYTES: u64 = 8;

/// One title, or one rendition of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Title {
    /// Its number, from 0, unique in the catalogue: determines its content and its file's name.
    pub number: u32,
    /// Its group: an index into [`Catalogue::groups`].
    pub group: u32,
    /// Popularity rank within the group; 0 is the most popular. All renditions of a work share it.
    pub rank: u32,
    /// Rendition of its work, from 0; earlier renditions have the preceding numbers.
    pub rendition: u32,
    /// Playing time.
    pub duration: Duration,
    /// Playing time of a segment.
    pub segment_time: Duration,
    /// Bytes of a segment: exact if all are equal, else the mean.
    pub segment_bytes: u64,
    /// End of each segment, from the start of the content; empty if all are equal.
    pub segment_ends: Vec<u64>,
    /// Bytes before the content: the table of segment offsets (thesis 5.1.3).
    pub header_bytes: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Bytes in files: the header, the content and its padding.
    pub file_bytes: u64,
}

impl Title {
    /// Its bit rate, in bits per second.
    pub fn bit_rate(&self) -> f64 {
        self.segment_bytes as f64 * 8.0 / self.segment_time.as_secs_f64()
    }

    /// Number of segments; the last may be shorter.
    pub fn segments(&self) -> u32 {
        let count = match self.segment_ends.len() {
            0 => self.bytes.div_ceil(self.segment_bytes.max(1)),
            count => count as u64,
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Bytes of segment `index` in the title. The last segment includes the padding.
    fn segment(&self, index: u64) -> ByteRange {
        let end = |count: u64| match count.checked_sub(1) {
            None => self.header_bytes,
            Some(_) if count >= u64::from(self.segments()) => self.file_bytes,
            Some(last) => {
                let listed = self.segment_ends.get(last as usize).copied();
                self.header_bytes + listed.unwrap_or(self.segment_bytes.saturating_mul(count))
            }
        };
        ByteRange::new(end(index), end(index + 1))
    }
}

/// A file that holds a title or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueFile {
    /// Path below the root, without a leading slash.
    pub path: String,
    /// The title's number.
    pub title: u32,
    /// Its bytes of the title.
    pub range: ByteRange,
    /// Offset in the title's content at which the file's content sequence starts: that of its first
    /// byte, or for a segment's file that of the word containing it, so that every file consists of
    /// whole words. (The last few bytes of one such file and the first of the next are then equal.)
    pub content_offset: u64,
}

/// All titles and how they are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Catalogue {
    /// Names of groups.
    pub groups: Vec<String>,
    /// Titles by number.
    pub titles: Vec<Title>,
    /// Title numbers in the order in which their files are created.
    pub creation_order: Vec<u32>,
    /// Division of titles into files.
    pub form: TitleForm,
    /// For a workload of phases: its titles, each of which has a file, a [`Title`] above, for every
    /// bit rate.
    pub phased: Option<Arc<PhasedCatalogue>>,
}

impl Catalogue {
    /// The catalogue of a specification. It depends on the groups' titles, the padding and the
    /// catalogue's seed; not on weights, sessions, or the form of storage.
    pub fn of(specification: &Specification) -> Self {
        if let Some(phases) = &specification.phases {
            return Self::of_phases(PhasedCatalogue::of(&phases.catalogue));
        }
        let root = Generator::new(specification.catalogue_seed).fork("catalogue");
        let mut titles = Vec::new();
        for (index, group) in specification.groups.iter().enumerate() {
            let generator = root.fork(&group.name);
            for rank in 0..group.count {
                let number = titles.len() as u32;
                let pad = specification.storage.pad_bytes;
                let work = draw(group, &generator, (number, index as u32, rank), pad);
                titles.extend(work);
            }
        }
        let mut creation_order: Vec<u32> = (0..titles.len() as u32).collect();
        root.fork(" creation order").shuffle(&mut creation_order);
        Self {
            groups: specification
                .groups
                .iter()
                .map(|group| group.name.clone())
                .collect(),
            titles,
            creation_order,
            form: specification.storage.form,
            phased: None,
        }
    }

    /// The files of a workload of phases: a title for each, in a folder for each kind.
    fn of_phases(phased: PhasedCatalogue) -> Self {
        let ms = |seconds: f64| Duration::from_millis(libm::round(seconds * 1000.0) as u64);
        let segment_s = phased.segment_s();
        let titles = (0..).zip(&phased.files).map(|(number, file)| Title {
            number,
            group: u32::from(file.kind.number()),
            rank: number,
            rendition: 0,
            duration: ms(phased.titles[file.title as usize].duration_s),
            segment_time: ms(segment_s),
            segment_bytes: libm::round(file.bytes_per_s * segment_s).max(1.0) as u64,
            segment_ends: Vec::new(),
            header_bytes: 0,
            bytes: file.size,
            file_bytes: file.size,
        });
        let titles: Vec<Title> = titles.collect();
        let mut creation_order: Vec<u32> = (0..titles.len() as u32).collect();
        Generator::new(phased.seed)
            .fork("creation order")
            .shuffle(&mut creation_order);
        let kinds = ContentKind::ALL.iter();
        Self {
            groups: kinds.map(|kind| kind.name().into()).collect(),
            titles,
            creation_order,
            form: TitleForm::Whole,
            phased: Some(Arc::new(phased)),
        }
    }

    /// The share of the sessions that each title's work has, by number; none for a workload of
    /// phases, whose titles have no fixed popularity.
    pub fn session_shares(&self, specification: &Specification) -> Option<Vec<f64>> {
        if self.phased.is_some() {
            return None;
        }
        let groups = specification.groups.iter();
        let laws: Vec<Zipf> = groups
            .clone()
            .map(|group| Zipf::new(group.count as usize, group.zipf_alpha))
            .collect();
        let weights: f64 = groups.map(|group| group.weight).sum();
        let share = |title: &Title| {
            let group = title.group as usize;
            let weight = specification.groups[group].weight / weights;
            weight * laws[group].probability(title.rank as usize)
        };
        Some(self.titles.iter().map(share).collect())
    }

    /// Bytes of all files.
    pub fn file_bytes(&self) -> u64 {
        self.titles.iter().map(|title| title.file_bytes).sum()
    }

    /// The title and all other renditions of its work, in ascending order of bit rate.
    pub fn renditions(&self, title: &Title) -> &[Title] {
        let first = title.number.saturating_sub(title.rendition) as usize;
        let rest = self.titles.get(first..).unwrap_or_default();
        let is_same = |other: &&Title| (other.group, other.rank) == (title.group, title.rank);
        &rest[..rest.iter().take_while(is_same).count()]
    }

    /// The files of one title, in order.
    pub fn files(&self, title: &Title) -> impl Iterator<Item = CatalogueFile> {
        self.files_of(title, ByteRange::new(0, title.file_bytes))
    }

    /// The files that overlap `range` of a title, in order.
    pub fn files_of(&self, title: &Title, range: ByteRange) -> impl Iterator<Item = CatalogueFile> {
        let range = range.intersection(ByteRange::new(0, title.file_bytes));
        let places = match range.is_empty() {
            true => 0..0,
            false => self.place_of(title, range.start)..self.place_of(title, range.end - 1) + 1,
        };
        places.map(move |place| self.file(title, place))
    }

    /// The byte range of each file of a title, in order.
    pub fn ranges(&self, title: &Title) -> impl Iterator<Item = ByteRange> {
        (0..self.file_count(title)).map(|place| self.file_range(title, place))
    }

    /// Number of files of a title.
    pub fn file_count(&self, title: &Title) -> u64 {
        match self.form {
            TitleForm::Whole => 1,
            TitleForm::Chunks(bytes) => title.file_bytes.div_ceil(bytes.max(1)),
            TitleForm::Segments => u64::from(title.header_bytes > 0) + u64::from(title.segments()),
        }
    }

    /// File `place` of a title.
    fn file(&self, title: &Title, place: u64) -> CatalogueFile {
        let (number, group) = (title.number, self.groups.get(title.group as usize));
        let group = group.map_or("", String::as_str);
        let range = self.file_range(title, place);
        let content_offset = match self.form {
            TitleForm::Segments => range.start / WORD_BYTES * WORD_BYTES,
            TitleForm::Whole | TitleForm::Chunks(_) => range.start,
        };
        CatalogueFile {
            path: match self.form {
                TitleForm::Whole => format!("{group}/{number:06}.bin"),
                TitleForm::Chunks(_) => format!("{group}/{number:06}/{place:05}.bin"),
                TitleForm::Segments => {
                    format!("{group}/{number:06}/{place:05}-{content_offset}.bin")
                }
            },
            title: number,
            range,
            content_offset,
        }
    }

    fn file_range(&self, title: &Title, place: u64) -> ByteRange {
        let whole = ByteRange::new(0, title.file_bytes);
        match self.form {
            TitleForm::Whole => whole,
            TitleForm::Chunks(bytes) => {
                let bytes = bytes.max(1);
                ByteRange::new(place * bytes, (place + 1) * bytes).intersection(whole)
            }
            TitleForm::Segments if title.header_bytes > 0 && place == 0 => {
                ByteRange::new(0, title.header_bytes)
            }
            TitleForm::Segments => title.segment(place - u64::from(title.header_bytes > 0)),
        }
    }

    /// Index, from 0, of the title's file that holds the byte at `offset`; the last file if it is
    /// beyond.
    pub fn place_of(&self, title: &Title, offset: u64) -> u64 {
        let (mut below, mut above) = (0, self.file_count(title));
        while below + 1 < above {
            let middle = below + (above - below) / 2;
            match self.file_range(title, middle).start <= offset {
                true => below = middle,
                false => above = middle,
            }
        }
        below
    }

    /// A hash of the titles and the order of creation, independent of the form of storage.
    pub fn fingerprint(&self) -> u64 {
        // FNV-1a over words: detects differences, without security against forgery.
        let mix = |hash: u64, word: u64| {
            let bytes = word.to_le_bytes();
            bytes.iter().fold(hash, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            })
        };
        let mut hash = 0xcbf2_9ce4_8422_2325;
        for title in &self.titles {
            hash = mix(mix(hash, u64::from(title.group)), title.bytes);
            hash = mix(mix(hash, title.file_bytes), title.segment_bytes);
        }
        for group in &self.groups {
            hash = group
                .bytes()
                .fold(hash, |hash, byte| mix(hash, u64::from(byte)));
        }
        self.creation_order
            .iter()
            .fold(hash, |hash, number| mix(hash, u64::from(*number)))
    }
}

/// One work: its title, or a title for each of its renditions.
fn draw(group: &TitleGroup, generator: &Generator, place: (u32, u32, u32), pad: u64) -> Vec<Title> {
    let (number, group_index, rank) = place;
    let mut generator = generator.fork_at(u64::from(rank));
    let unit = generator.unit();
    let share = if rank < group.median_durations {
        0.5
    } else {
        unit
    };
    let seconds = group.durations.law.quantile(share);
    // Whole milliseconds, and at least one: a title without bytes cannot be requested.
    let duration = Duration::from_millis(libm::round(seconds * 1000.0).max(1.0) as u64);
    let title =
        |rendition: u32, duration: Duration, segment_bytes: u64, mut generator: Generator| {
            let constant = u128::from(duration.0) * u128::from(segment_bytes)
                / u128::from(group.segment_time.0.max(1));
            let constant = u64::try_from(constant).unwrap_or(u64::MAX).max(1);
            let variation = group.segment_variation;
            let segment_ends = match variation > 0.0 {
                true => vary(&mut generator, variation, segment_bytes, constant),
                false => Vec::new(),
            };
            let mut title = Title {
                number: number + rendition,
                group: group_index,
                rank,
                rendition,
                duration,
                segment_time: group.segment_time,
                segment_bytes,
                bytes: segment_ends.last().copied().unwrap_or(constant),
                segment_ends,
                header_bytes: 0,
                file_bytes: 0,
            };
            title.header_bytes = group.table_entry_bytes * u64::from(title.segments());
            let bytes = title.header_bytes.saturating_add(title.bytes);
            title.file_bytes = bytes.div_ceil(pad.max(1)).saturating_mul(pad.max(1));
            title
        };
    if group.renditions.is_empty() {
        let segment_bytes = pick(&group.segment_bytes, generator.unit());
        return alloc::vec![title(0, duration, segment_bytes, generator)];
    }
    // Whole segments: all renditions have the same segment boundaries.
    let segments = libm::round(duration.as_secs_f64() / group.segment_time.as_secs_f64()).max(1.0);
    let duration = group.segment_time.times(segments as u64);
    // All renditions use the same draws: complex scenes are large in every rendition.
    let sizes = (0..).zip(group.segment_sizes());
    sizes
        .map(|(rendition, bytes)| title(rendition, duration, bytes, generator.clone()))
        .collect()
}

/// The item of a mix selected by `unit`, a number from 0 to 1.
fn pick(mix: &[(u64, f64)], unit: f64) -> u64 {
    let mut sum = 0.0;
    let found = mix.iter().find(|(_, share)| {
        sum += share;
        unit < sum
    });
    found.or(mix.last()).map_or(1, |(bytes, _)| *bytes)
}

/// Segment ends with a mean size of `segment_bytes` and a total of about `bytes`.
fn vary(generator: &mut Generator, variation: f64, segment_bytes: u64, bytes: u64) -> Vec<u64> {
    let (mut ends, mut left, mut end) = (Vec::new(), bytes, 0);
    while left > 0 {
        let mean = left.min(segment_bytes);
        let factor = 1.0 + variation * (2.0 * generator.unit() - 1.0);
        end += libm::round(mean as f64 * factor).max(1.0) as u64;
        ends.push(end);
        left -= mean;
    }
    ends
}

/// The title named by a path, and the offset in its content at which the file begins. Leading
/// slashes and folders above the group's are ignored. `chunk_bytes` is the chunk file size in the
/// trace; without it, chunk files cannot be located. Names of segment files contain their offset.
pub fn locate(path: &str, chunk_bytes: Option<u64>) -> Option<(u64, u64)> {
    let mut parts = path.rsplit('/');
    let stem = parts.next()?.strip_suffix(".bin")?;
    let folder = parts.next().filter(|folder| !folder.is_empty())?;
    let Some(title) = number(folder, 6) else {
        return Some((number(stem, 6)?, 0));
    };
    parts.next().filter(|group| !group.is_empty())?;
    if let Some((place, offset)) = stem.split_once('-') {
        number(place, 5)?;
        return Some((title, number(offset, 1)?));
    }
    Some((title, number(stem, 5)?.checked_mul(chunk_bytes?)?))
}

/// A decimal number of at least `digits` digits, as in file names.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() >= digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
