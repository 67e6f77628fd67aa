//! Bit rates of renditions, as playlists state them.

use crate::resource::Rendition;
use crate::title::Title;

/// Bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Bandwidth {
    /// Of the costliest segment. Heads of fragments are included only if the title was cut by an index
    /// of them: the first track then has the bytes that the others, by their rates, leave.
    pub(crate) peak: u64,
    /// Of all segments together.
    pub(crate) average: u64,
}

impl Bandwidth {
    /// The rates of a rendition; zero if there is none. A short segment is not representative.
    pub(crate) fn of(title: &Title, rendition: Rendition) -> Self {
        let Some(tracks) = title.tracks_of(rendition) else {
            return Self::default();
        };
        let Some(timed) = tracks.first() else {
            return Self::default();
        };
        let mut all = Self::default();
        let mut bytes_sum = 0_u64;
        for number in 0..title.segments() {
            let bytes = tracks.iter().map(|of| of.sample_bytes(number)).sum::<u64>();
            bytes_sum = bytes_sum.saturating_add(bytes);
            let time = timed.time(number);
            let length = timed.duration(time.end.saturating_sub(time.start));
            if length >= title.measured_min {
                all.peak = all.peak.max(rate(bytes, length.0));
            }
        }
        let time = timed.whole_time();
        let length = timed.duration(time.end.saturating_sub(time.start));
        all.average = rate(bytes_sum, length.0);
        all.peak = all.peak.max(all.average);
        all
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            peak: self.peak.saturating_add(other.peak),
            average: self.average.saturating_add(other.average),
        }
    }
}

/// Bits per second, at least one; a playlist with zero is refused by players.
fn rate(bytes: u64, ns: u64) -> u64 {
    let bits = u128::from(bytes) * 8 * 1_000_000_000;
    let rate = bits.checked_div(u128::from(ns)).unwrap_or(1);
    u64::try_from(rate).unwrap_or(u64::MAX).max(1)
}
