//! Where a title is cut into segments: at sync samples near a target duration, and the other tracks
//! at the same times.

use alloc::vec::Vec;
use core::cmp::Ordering;

use headlong_units::Duration;

use crate::fault::PackageFault;
use crate::sample_table::{Cursor, Sample};
use crate::track::Track;

/// Longest segment: a player waits for all of it after a seek.
const SEGMENT_MAX_SECONDS: i64 = 60;

/// The beginning of a segment of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) cursor: Cursor,
    /// Time in the title at which it is presented, in ticks of the track.
    pub(crate) presented: i64,
}

/// What the samples of the track that decides show.
pub(crate) struct LeaderSamples {
    /// The least composition time, if it is negative.
    pub(crate) least_composition: i32,
    /// Whether samples are presented before the sync sample that they follow: they may depend on those
    /// of the segment before.
    pub(crate) has_leading_samples: bool,
    /// When the last sync sample is presented.
    sync_presented: i64,
}

impl Default for LeaderSamples {
    fn default() -> Self {
        Self {
            least_composition: 0,
            has_leading_samples: false,
            sync_presented: i64::MIN,
        }
    }
}

impl LeaderSamples {
    /// Takes note of the next sample.
    pub(crate) fn observe(&mut self, sample: &Sample) {
        self.least_composition = sample.composition.min(self.least_composition);
        match sample.is_sync {
            true => self.sync_presented = sample.presented(),
            false => self.has_leading_samples |= sample.presented() < self.sync_presented,
        }
    }

    /// The next samples count their time from zero again.
    pub(crate) fn begin_again(&mut self) {
        self.sync_presented = i64::MIN;
    }
}

/// The time of a cut, in ticks of the track that was cut first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boundary {
    ticks: i64,
    timescale: u32,
}

impl Boundary {
    pub(crate) fn new(ticks: i64, timescale: u32) -> Self {
        Self { ticks, timescale }
    }

    /// This time compared with ticks of a track.
    fn compare(self, ticks: i64, timescale: u32) -> Ordering {
        let here = i128::from(self.ticks) * i128::from(timescale);
        here.cmp(&(i128::from(ticks) * i128::from(self.timescale)))
    }
}

/// Cuts the track that decides: each segment begins at the sync sample nearest to the target after
/// the beginning of the one before. The last cut is the end.
pub(crate) fn cut_leader(
    moov: &[u8],
    track: &Track,
    target: Duration,
    cuts_max: usize,
) -> Result<(Vec<Cut>, LeaderSamples), PackageFault> {
    let mut cutter = Cutter::new(track, target, cuts_max);
    let mut cursor = Cursor::default();
    let mut first_composition = 0;
    let mut seen = LeaderSamples::default();
    loop {
        let here = cursor;
        let Some(sample) = track.table.next(moov, &mut cursor).transpose()? else {
            break;
        };
        seen.observe(&sample);
        let cut = Cut {
            cursor: here,
            presented: track.title_time(sample.presented()),
        };
        if here.sample == 0 {
            first_composition = i64::from(sample.composition);
            cutter.push(cut)?;
        } else if sample.is_sync {
            cutter.offer(cut)?;
        }
    }
    let end = end_of(cursor).saturating_add(first_composition);
    let cuts = cutter.end(Cut {
        cursor,
        presented: track.title_time(end),
    })?;
    Ok((cuts, seen))
}

/// Cuts a track at some of its sync samples.
pub(crate) struct Cutter<'a> {
    track: &'a Track,
    /// In ticks.
    target: i64,
    cuts_max: usize,
    cuts: Vec<Cut>,
    /// The last sync sample before the target, unless it is near the beginning.
    before: Option<Cut>,
}

impl<'a> Cutter<'a> {
    pub(crate) fn new(track: &'a Track, target: Duration, cuts_max: usize) -> Self {
        let target = u128::from(target.0) * u128::from(track.timescale) / 1_000_000_000;
        Self {
            track,
            target: i64::try_from(target).unwrap_or(i64::MAX).max(1),
            cuts_max,
            cuts: Vec::new(),
            before: None,
        }
    }

    /// The cuts, of which the last is the end of the track.
    pub(crate) fn end(mut self, end: Cut) -> Result<Vec<Cut>, PackageFault> {
        self.cut_before(end)?;
        self.push(end)?;
        Ok(self.cuts)
    }

    /// Ticks since the last cut.
    fn passed(&self, cut: Cut) -> i64 {
        let start = self.cuts.last().map_or(cut.presented, |cut| cut.presented);
        cut.presented.saturating_sub(start)
    }

    /// A sync sample, at which a segment may begin.
    pub(crate) fn offer(&mut self, cut: Cut) -> Result<(), PackageFault> {
        self.cut_before(cut)?;
        let passed = self.passed(cut);
        if passed >= self.target {
            self.push(cut)?;
        } else if passed >= (self.target / 2).max(1) {
            self.before = Some(cut);
        }
        Ok(())
    }

    /// Cuts at the sync sample before the target, if it is nearer to that than the next one.
    fn cut_before(&mut self, next: Cut) -> Result<(), PackageFault> {
        let too_late = self.passed(next).saturating_sub(self.target);
        match self.before {
            Some(near) if too_late > self.target - self.passed(near) => self.push(near),
            _ => Ok(()),
        }
    }

    /// Ends a segment with the next one's beginning, or with the end of the track.
    pub(crate) fn push(&mut self, cut: Cut) -> Result<(), PackageFault> {
        if self.cuts.len() >= self.cuts_max {
            return Err(PackageFault::TooMany("segments"));
        }
        check_length(self.track, self.cuts.last(), &cut)?;
        self.cuts.push(cut);
        self.before = None;
        Ok(())
    }
}

/// Checks that a segment is not too long.
fn check_length(track: &Track, start: Option<&Cut>, end: &Cut) -> Result<(), PackageFault> {
    let Some(start) = start else {
        return Ok(());
    };
    let timescale = i64::from(track.timescale);
    if end.presented.saturating_sub(start.presented) > SEGMENT_MAX_SECONDS * timescale {
        let second = u64::try_from(start.presented / timescale);
        return Err(PackageFault::Gap(second.unwrap_or(0)));
    }
    Ok(())
}

/// Cuts another track at the boundaries: a sample is in the segment in which it begins; the first
/// segment has all before, too, and the last one all after.
pub(crate) fn cut_follower(
    moov: &[u8],
    track: &Track,
    boundaries: &[Boundary],
) -> Result<Vec<Cut>, PackageFault> {
    let mut cuts: Vec<Cut> = Vec::with_capacity(boundaries.len() + 1);
    let mut cursor = Cursor::default();
    loop {
        let here = cursor;
        let sample = track.table.next(moov, &mut cursor).transpose()?;
        let media = sample
            .as_ref()
            .map_or_else(|| end_of(here), Sample::presented);
        let cut = Cut {
            cursor: here,
            presented: track.title_time(media),
        };
        if cuts.is_empty() {
            cuts.push(cut);
        }
        while let Some(next) = boundaries.get(cuts.len())
            && (sample.is_none() || next.compare(cut.presented, track.timescale).is_le())
        {
            check_length(track, cuts.last(), &cut)?;
            cuts.push(cut);
        }
        if sample.is_none() {
            check_length(track, cuts.last(), &cut)?;
            cuts.push(cut);
            return Ok(cuts);
        }
    }
}

fn end_of(cursor: Cursor) -> i64 {
    i64::try_from(cursor.time).unwrap_or(i64::MAX)
}
