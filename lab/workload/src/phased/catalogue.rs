//! Titles, their files, and the offset of each second in a file.
//!
//! A file's layout is a formula, not a table: segment k ends where a constant bit rate would end
//! it, shifted by a pseudo-random number derived from the title and k. So offsets are computed in
//! constant time, all files of a title vary alike, and a hundred thousand files take almost no
//! memory.

use alloc::vec;
use alloc::vec::Vec;

use headlong_random::Generator;

use super::ContentKind;
use super::specification::{RateSelection, TitleSettings};

/// One title.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasedTitle {
    /// Playing time, s.
    pub duration_s: f64,
    /// Number of segments; the last may be shorter.
    pub segments: u32,
    /// Index of its first file; the others follow, sorted by kind and bit rate.
    pub first_file: u32,
    /// Number of files.
    pub files: u32,
}

/// One file: one bit rate of one kind of one title.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhasedFile {
    /// Its title.
    pub title: u32,
    /// Kind of content.
    pub kind: ContentKind,
    /// Its nominal bit rate.
    pub kbps: u32,
    /// Mean bytes of a second.
    pub bytes_per_s: f64,
    /// Bytes of the table of segments at its start.
    pub table_bytes: u64,
    /// Its size.
    pub size: u64,
    /// The drive that holds it.
    pub disk: u16,
}

/// All titles and files.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasedCatalogue {
    /// Titles by popularity.
    pub titles: Vec<PhasedTitle>,
    /// Files by title, kind and bit rate; a file's number is its index.
    pub files: Vec<PhasedFile>,
    segment_s: f64,
    variation: f64,
    pub(crate) seed: u64,
    /// Cumulative share of sessions, by title.
    popularity: Vec<f64>,
}

impl PhasedCatalogue {
    /// The catalogue of a specification; a pure function of it.
    pub fn of(titles: &TitleSettings) -> Self {
        let root = Generator::new(titles.seed).fork("phased catalogue");
        let popularity = popularity(titles);
        let chosen = PopularTitles::of(titles, &popularity);
        let mut catalogue = Self {
            titles: Vec::with_capacity(titles.count as usize),
            files: Vec::new(),
            segment_s: titles.segment_s,
            variation: titles.segment_variation,
            seed: titles.seed,
            popularity,
        };
        for number in 0..titles.count as u32 {
            catalogue.add(titles, &chosen, number, root.fork_at(u64::from(number)));
        }
        catalogue
    }

    fn add(
        &mut self,
        titles: &TitleSettings,
        chosen: &PopularTitles,
        number: u32,
        mut generator: Generator,
    ) {
        let unit = generator.unit();
        let duration_s = chosen.duration_s(titles, number as usize, unit);
        let segments = libm::ceil(duration_s / titles.segment_s) as u32;
        let factor = 1.0 + titles.rate_variation * (2.0 * generator.unit() - 1.0);
        let table = libm::ceil(titles.table_entry_bytes * f64::from(segments)) as u64;
        // One draw for all kinds: a title produced in high quality has all high bit rates.
        let quality = generator.unit();
        let first_file = self.files.len() as u32;
        for kind in ContentKind::ALL {
            let all = titles.of_kind(kind);
            let only = chosen.only(kind, number as usize);
            for (index, rendition) in all.iter().enumerate() {
                let is_there = match titles.rates {
                    // The lowest bit rate always exists: every viewer can start with it.
                    RateSelection::Several => index == 0 || quality < rendition.titles_share,
                    RateSelection::One => Some(index) == only,
                };
                if !is_there {
                    continue;
                }
                let bytes_per_s = f64::from(rendition.kbps) * 125.0 * factor;
                self.files.push(PhasedFile {
                    title: number,
                    kind,
                    kbps: rendition.kbps,
                    bytes_per_s,
                    table_bytes: table,
                    size: table + libm::ceil(bytes_per_s * duration_s) as u64,
                    disk: generator.below(titles.drives) as u16,
                });
            }
        }
        let files = self.files.len() as u32 - first_file;
        self.titles.push(PhasedTitle {
            duration_s,
            segments,
            first_file,
            files,
        });
    }

    /// Length of a segment, s.
    pub const fn segment_s(&self) -> f64 {
        self.segment_s
    }

    /// Offset of `segment` in a file. The last segment ends at the end of the file.
    pub fn offset(&self, file: u32, segment: u32) -> u64 {
        let Some(file) = self.files.get(file as usize) else {
            return 0;
        };
        let whole = self.titles[file.title as usize].segments;
        if segment == 0 {
            return file.table_bytes;
        }
        if segment >= whole {
            return file.size;
        }
        let moved = self.variation * (2.0 * self.noise(file.title, segment) - 1.0);
        let seconds = (f64::from(segment) + moved) * self.segment_s;
        let at = file.table_bytes + libm::round(file.bytes_per_s * seconds) as u64;
        at.min(file.size)
    }

    /// A pseudo-random number from 0 to 1 derived from title and segment: complex scenes are large
    /// in every file.
    fn noise(&self, title: u32, segment: u32) -> f64 {
        let word = self.seed ^ (u64::from(title) << 32 | u64::from(segment));
        // The mixing function of splitmix64.
        let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The title that a number from 0 to 1 selects by popularity.
    pub fn pick(&self, unit: f64) -> u32 {
        let rank = self.popularity.partition_point(|share| *share <= unit);
        rank.min(self.popularity.len().saturating_sub(1)) as u32
    }

    /// Numbers of a title's files of one kind, in ascending order of bit rate.
    pub fn files_of(&self, title: u32, kind: ContentKind) -> impl Iterator<Item = u32> + '_ {
        let title = &self.titles[title as usize];
        let all = title.first_file..title.first_file + title.files;
        all.filter(move |file| self.files[*file as usize].kind == kind)
    }
}

/// Values that are not drawn independently for each title: a few popular titles account for a large
/// share of the sessions, so with independent draws chance would determine the mean length and
/// bytes of sessions.
struct PopularTitles {
    /// For each title, its group by duration; empty if durations are drawn.
    parts: Vec<usize>,
    count: usize,
    /// For each title and kind, the index of its only bit rate; empty if it has several.
    rates: [Vec<usize>; 3],
}

impl PopularTitles {
    fn of(titles: &TitleSettings, popularity: &[f64]) -> Self {
        let before = core::iter::once(0.0).chain(popularity.iter().copied());
        let sessions: Vec<f64> = before
            .zip(popularity)
            .map(|(before, share)| share - before)
            .collect();
        let count = titles.duration_weights.len();
        let parts = match count {
            0 | 1 => Vec::new(),
            _ => assign(&sessions, &vec![1.0; count], &titles.duration_weights),
        };
        let mut chosen = Self {
            parts,
            count,
            rates: [Vec::new(), Vec::new(), Vec::new()],
        };
        if titles.rates == RateSelection::Several {
            return chosen;
        }
        // Estimate so far: without groups, all titles have the same length.
        let time =
            |(number, sessions): (usize, &f64)| sessions * chosen.duration_s(titles, number, 0.5);
        let watched: Vec<f64> = sessions.iter().enumerate().map(time).collect();
        let rates = ContentKind::ALL.map(|kind| {
            let all = titles.of_kind(kind);
            let shares: Vec<f64> = all.iter().map(|one| one.titles_share).collect();
            let weights: Vec<f64> = all.iter().map(|one| one.weight).collect();
            assign(&watched, &shares, &weights)
        });
        for (kind, rates) in ContentKind::ALL.into_iter().zip(rates) {
            chosen.rates[kind.number() as usize] = rates;
        }
        chosen
    }

    /// Duration of a title; `unit` draws from its group.
    fn duration_s(&self, titles: &TitleSettings, number: usize, unit: f64) -> f64 {
        let share = match self.parts.get(number) {
            Some(part) => (*part as f64 + unit) / self.count as f64,
            None => unit,
        };
        libm::fmax(titles.durations.quantile(share), titles.segment_s)
    }

    fn only(&self, kind: ContentKind, number: usize) -> Option<usize> {
        self.rates[kind.number() as usize].get(number).copied()
    }
}

/// Assigns a class to each title, such that each class gets a share of titles by `shares` and a
/// share of the total watching by `weights` (by `shares` if those are all 0). Titles are assigned
/// in descending order of watching, each to the class with the most remaining watching per
/// remaining title.
fn assign(watched: &[f64], shares: &[f64], weights: &[f64]) -> Vec<usize> {
    let sum = |all: &[f64]| all.iter().sum::<f64>();
    let shares = match sum(shares) > 0.0 {
        true => shares,
        false => &vec![1.0; shares.len()],
    };
    let weights = if sum(weights) > 0.0 { weights } else { shares };
    let parts = |all: &[f64], whole: f64| -> Vec<f64> {
        let factor = whole / sum(all);
        all.iter().map(|one| one * factor).collect()
    };
    let mut titles_left = parts(shares, watched.len() as f64);
    let mut watched_left = parts(weights, sum(watched));
    let mut order: Vec<usize> = (0..watched.len()).collect();
    order.sort_by(|one, other| watched[*other].total_cmp(&watched[*one]));
    let mut classes = vec![0; watched.len()];
    for title in order {
        // A class with less than one title left is not preferred for that.
        let need = |class: &usize| watched_left[*class] / libm::fmax(titles_left[*class], 1.0);
        let open = (0..shares.len()).filter(|class| titles_left[*class] > 1e-9);
        let Some(class) = open.max_by(|one, other| need(one).total_cmp(&need(other))) else {
            continue;
        };
        classes[title] = class;
        titles_left[class] -= 1.0;
        watched_left[class] -= watched[title];
    }
    classes
}

pub(super) fn popularity(titles: &TitleSettings) -> Vec<f64> {
    let mut sum = 0.0;
    let weights = (0..titles.count).map(|rank| {
        let head = if rank < titles.head_titles {
            titles.head_factor
        } else {
            1.0
        };
        sum += head * libm::pow(rank as f64 + 1.0, -titles.zipf_alpha);
        sum
    });
    let mut cumulative: Vec<f64> = weights.collect();
    if sum > 0.0 {
        cumulative.iter_mut().for_each(|share| *share /= sum);
    }
    cumulative
}
