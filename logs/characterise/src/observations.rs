//! Measurements of a log, from which a specification is fitted and by which it is judged.
//!
//! This is the interface between the measurement of logs and their generation: plain values; every
//! field defines its measurement, so that two implementations give the same numbers for one log.
//!
//! Terms: *chain*, *short* (up to 40 s), *long*, *cluster*, *stable* and *inactive* are those of
//! thesis 5.3 and 5.4, by their default (literal) rules. *Content* is everything but audio-only
//! files: video and combined files. A *header* chain starts at offset 0 and is shorter than 1 MiB.
//! *Nominal seconds* are bytes * 8 / (kbps * 1000). A distribution is a list of points `(value,
//! share at or below it)`, linearly interpolated, as [`headlong_random::Empirical`] takes it;
//! [`distribution`] makes one from measured values. An empty list means that nothing was measured.

use alloc::string::String;
use alloc::vec::Vec;

/// Points `(value, share of values at or below it)`, from share 0 to share 1.
pub type DistributionPoints = Vec<(f64, f64)>;

/// All measurements. Fields with default values were not measured: the fit then keeps the values of
/// the default specification.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observations {
    /// Name of the specification.
    pub name: String,
    /// From the first arrival to the last completion, s.
    pub length_s: f64,
    /// Sessions in the log.
    pub sessions: u64,
    /// Sessions on which everything except [`arrivals`](Self::arrivals) is measured: without those
    /// that still run at the end of a long log (A16).
    pub sessions_kept: u64,
    /// Sessions by the interval in which their first request arrived: equal intervals of
    /// [`length_s`](Self::length_s), usually hours.
    pub arrivals: Vec<u64>,
    /// Titles and files.
    pub titles: TitleObservations,
    /// Encodings, one entry for each kind and bit rate.
    pub renditions: Vec<RenditionObservations>,
    /// Behaviour of viewers.
    pub viewing: ViewingObservations,
    /// Devices, one entry for each type.
    pub devices: Vec<DeviceObservations>,
    /// Phases of thesis 5.4.
    pub phases: PhaseObservations,
    /// Chains of thesis 5.3: a fit is judged by them, but not derived from them.
    pub chains: ChainObservations,
}

/// Titles and files (thesis 5.2.1).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TitleObservations {
    /// Titles in the files table, requested or not; 0 without a table.
    pub listed: u64,
    /// Titles requested at least once.
    pub requested: u64,
    /// Files requested at least once.
    pub files_requested: u64,
    /// Drives that store files.
    pub drives: u16,
    /// Distribution of sessions over titles: [`Popularity::of`] of the sessions of each title.
    pub popularity: Popularity,
    /// Durations of the requested titles, s, each title once (Figure 5.3).
    pub durations_s: DistributionPoints,
    /// Shares of sessions by [`DURATION_PARTS`] equal groups of those titles, shortest first:
    /// whether long or short titles are popular. Empty with fewer titles than groups.
    pub duration_shares: Vec<f64>,
}

/// Groups of titles by duration, for which sessions are counted.
pub const DURATION_PARTS: usize = 10;

/// Zipf's law with a head (thesis Figure 5.4: "an unusual peak in the number of sessions that
/// access the 20 most popular titles").
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Popularity {
    /// Beyond the head, the sessions of the title of rank r fall as 1 / r^slope.
    pub slope: f64,
    /// The number of titles in the head ...
    pub head_titles: u64,
    /// ... and the factor by which their sessions exceed the slope; 1 without a head.
    pub head_factor: f64,
}

/// One bit rate of one kind (thesis Figure 5.2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RenditionObservations {
    /// Contents of such files.
    pub kind: headlong_chains::ContentKind,
    /// Its nominal bit rate.
    pub kbps: u32,
    /// Share of titles with such a file: of the listed titles, otherwise of the requested ones.
    pub titles_share: f64,
    /// Bytes sent from such files.
    pub bytes: u64,
    /// Nominal seconds sent in long chains, or in all chains for audio.
    pub seconds: f64,
}

/// Behaviour of viewers (thesis 5.2.2). All positions are those of content, not of audio.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ViewingObservations {
    /// Position where a session starts: offset of its first content read that is not a header,
    /// divided by the file size (Figure 5.7, rule A18).
    pub start_share: DistributionPoints,
    /// From the first arrival of a session to its last completion, s.
    pub session_s: DistributionPoints,
    /// Sessions of at most 40 s, as a share of all (5.4.3: about 33 %).
    pub glance_share: f64,
    /// Their lengths, s.
    pub glance_s: DistributionPoints,
    /// For the other sessions: (length - inactive time) / (duration of the title * (1 - start)), at
    /// most 1.2. Near 1 for viewers that watch to the end.
    pub stay_share: DistributionPoints,
    /// Nominal content seconds of a session over the duration of its title (Figure 5.5).
    pub fraction_downloaded: DistributionPoints,
    /// Skips per hour of activity (session length minus inactive time, summed): clusters after the
    /// first whose first content read lies more than 30 s of title time from the end of the
    /// previous content read, whatever the break.
    pub skips_per_hour: f64,
    /// Distance of skips in seconds of title time, backwards negative.
    pub skip_s: DistributionPoints,
    /// Inactive phases per hour of activity, without those of a session's first minute.
    pub pauses_per_hour: f64,
    /// Share of sessions with an inactive phase that begins in their first minute.
    pub pause_at_start: f64,
    /// Lengths of inactive phases, s, none below 40.
    pub pause_s: DistributionPoints,
    /// Adaptations: clusters after the first that are not at a skip and do not begin within 10 s
    /// after an inactive phase, per hour of activity.
    pub changes_per_hour: f64,
    /// Share of the clusters between two stable phases after which the bit rate is higher (5.4.3:
    /// 29 %).
    pub up_share: f64,
    /// The same for a lower bit rate (17 %).
    pub down_share: f64,
}

/// Request behaviour of one type of device (thesis 5.2.4).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceObservations {
    /// Its name in the log.
    pub name: String,
    /// Sessions on it.
    pub sessions: u64,
    /// Share of them that read separate video files, not combined ones.
    pub separate_share: f64,
    /// Share of its content chains whose first request is open-ended.
    pub open_content_share: f64,
    /// The same for audio.
    pub open_audio_share: f64,
    /// Share of its sessions with content chains of both types (5.2.4: about 10 % of all).
    pub both_share: f64,
    /// Highest bit rate with more than 0.1 % of its stable content, kbps.
    pub kbps_max: u32,
    /// Nominal seconds of a content chunk request in a long chain: 95 % quantile.
    pub request_s: f64,
    /// Bytes of such a request: 95 % quantile.
    pub request_bytes: f64,
    /// Most concurrent requests of this type for one file: median over long chains.
    pub connections: u32,
    /// Nominal seconds of an audio chunk request that is not a header: median.
    pub audio_request_s: f64,
    /// Longest gap between arrivals of successive requests in the second half of a long content
    /// chunk chain, s: median over chains.
    pub spacing_s: f64,
    /// Nominal seconds minus duration of a session's first long content chain, if that is longer
    /// than 200 s: median. The contents of a full buffer.
    pub ahead_s: f64,
    /// The same for audio.
    pub audio_ahead_s: f64,
    /// Bytes of a header chain of chunk requests per two seconds of the title: median. The segment
    /// table at the start of a file has one entry for each segment.
    pub header_bytes_per_segment: f64,
    /// Content chains in a session's first cluster, without headers, if a stable phase follows:
    /// mean.
    pub probes_first: f64,
    /// The same for later clusters.
    pub probes_next: f64,
    /// Nominal seconds of such chains: mean.
    pub probe_s: f64,
    /// Audio chains of a session, without headers, per stretch between skips and inactive phases:
    /// mean.
    pub audio_chains: f64,
    /// Bandwidth of a session divided by the bit rate of its first stable phase. Bandwidth is the
    /// maximum, over its chunk requests of at least 64 KiB or its short open-ended chains, of bytes
    /// sent in a whole second of completions. Only sessions with a stable phase.
    pub headroom: DistributionPoints,
}

/// Phases (thesis 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PhaseObservations {
    /// Clusters of short content chains.
    pub clusters: u64,
    /// Long content chains.
    pub stable: u64,
    /// Mean duration of a long chain of content, s (5.4.4: 8.5 min).
    pub stable_s_mean: f64,
    /// Clusters and long chains of all files, including audio.
    pub clusters_all: u64,
    /// See [`clusters_all`](Self::clusters_all).
    pub stable_all: u64,
    /// See [`clusters_all`](Self::clusters_all); s.
    pub stable_all_s_mean: f64,
    /// Sessions with a long chain of content, as a share of all (5.4.3: 56 %).
    pub sessions_with_stable: f64,
    /// Time in clusters over the sum of session lengths (5.4.6: 5.2 %).
    pub transient_share: f64,
    /// Time in stable phases (79.1 %).
    pub stable_share: f64,
    /// Time in inactive phases (16.4 %).
    pub inactive_share: f64,
    /// Share of stable time, including audio.
    pub stable_all_share: f64,
    /// Share of transient time, including audio.
    pub transient_all_share: f64,
    /// Bytes in short chains over all bytes (7.6 %).
    pub transient_bytes_share: f64,
}

/// Chains of one kind and type: a row of thesis Tables 5.2 and 5.4.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ChainRow {
    /// Chains.
    pub chains: u64,
    /// Requests in them.
    pub requests: u64,
    /// Bytes sent in them.
    pub bytes: u64,
    /// Nominal seconds.
    pub seconds: f64,
}

/// Chains (thesis 5.3).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChainObservations {
    /// Open-ended (by the request at the lowest offset): audio, video, combined.
    pub open: [ChainRow; 3],
    /// Chunk: audio, video, combined.
    pub chunk: [ChainRow; 3],
    /// Single requests by their own type, with their bytes; `chains` and `seconds` are 0.
    pub open_requests: [ChainRow; 3],
    /// The same for chunk requests.
    pub chunk_requests: [ChainRow; 3],
    /// Share of chains longer than a length, `(bytes, share)`, at the lengths of [`LENGTHS`].
    pub survival: DistributionPoints,
    /// Share of bytes in chains longer than a length, at the same lengths.
    pub bytes_survival: DistributionPoints,
    /// Exponents c of S(x) = A x^-c below 1 MB, from 1 MB to 200 MB, and beyond (rule A14).
    pub slopes: [f64; 3],
    /// Chains that start at offset zero, as a share of all (5.3.2: 24 %).
    pub at_zero: f64,
    /// Of open-ended chains at zero: exactly 768 KiB long (84 %), and shorter (0.4 %).
    pub open_zero_lump: [f64; 2],
    /// Of chunk chains at zero: shorter than 16 KiB (49 %), and than 128 KiB (98 %).
    pub chunk_zero_below: [f64; 2],
    /// Of the other chains: shorter than 768 KiB (33 %).
    pub later_below: f64,
    /// Shares of a session's files by their most concurrent requests: 1, 2, 3, 4, 5, more (Table
    /// 5.3).
    pub parallel: [f64; 6],
}

/// Number of lengths in [`ChainObservations::survival`]: four per decade, from 1 kB to 10 GB.
pub const LENGTHS: usize = 29;

/// The `index`-th of the [`LENGTHS`] lengths, bytes.
pub fn length_at(index: usize) -> f64 {
    libm::pow(10.0, 3.0 + index as f64 / 4.0)
}

/// Points of the distribution of `values`, which are sorted in place: all values if there are few,
/// otherwise percentiles, with a finer resolution at the ends, where a few values may carry much of
/// the sum. Empty without values.
pub fn distribution(values: &mut [f64]) -> DistributionPoints {
    values.sort_unstable_by(f64::total_cmp);
    let Some((first, last)) = values.first().zip(values.last()) else {
        return DistributionPoints::new();
    };
    let count = values.len();
    let mut points = DistributionPoints::from([(*first, 0.0)]);
    if count <= 100 {
        let shares = (1..count).map(|step| step as f64 / count as f64);
        points.extend(values[1..].iter().copied().zip(shares));
    } else {
        let ends = [0.001, 0.002, 0.005];
        let percents = (1..100).map(|percent| f64::from(percent) / 100.0);
        let upper = ends.iter().rev().map(|share| 1.0 - share);
        let shares = ends.iter().copied().chain(percents).chain(upper);
        points.extend(shares.map(|share| (values[(count as f64 * share) as usize], share)));
    }
    points.push((*last, 1.0));
    points
}

impl Popularity {
    /// The law that `sessions` follow (of each title, in any order; sorted in place): least squares
    /// of the logarithm of sessions on that of the rank, at ranks a tenth of a decade apart, from
    /// the end of the head to the last title with at least five sessions. The head consists of the
    /// `head_titles` most popular titles; its factor is the ratio of its sessions to those given by
    /// the line.
    ///
    /// A small log shows no such line, and titles sorted by few sessions look more unequal than
    /// they are. Then the law has no head, and a slope at which two sessions fall on the same one
    /// of all `titles` as often as they do here.
    pub fn of(sessions: &mut [u64], head_titles: u64, titles: u64) -> Self {
        sessions.sort_unstable_by(|a, b| b.cmp(a));
        let enough = sessions.partition_point(|count| *count >= 5);
        let head = (head_titles as usize).min(enough);
        let (mut n, mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut rank = head as f64 + 1.0;
        while (rank as usize) <= enough {
            let x = libm::log(rank);
            let y = libm::log(sessions[rank as usize - 1] as f64);
            (n, sx, sy, sxx, sxy) = (n + 1.0, sx + x, sy + y, sxx + x * x, sxy + x * y);
            rank = libm::fmax(rank + 1.0, libm::floor(rank * 1.258_925));
        }
        let spread = n * sxx - sx * sx;
        if n < 3.0 || spread <= 0.0 {
            return Self {
                slope: slope_by_coincidence(sessions, titles),
                head_titles: 0,
                head_factor: 1.0,
            };
        }
        let slope = (n * sxy - sx * sy) / spread;
        let level = (sy - slope * sx) / n;
        let seen: u64 = sessions[..head].iter().sum();
        let line = |rank: usize| libm::exp(level + slope * libm::log(rank as f64));
        let expected: f64 = (1..=head).map(line).sum();
        Self {
            slope: -slope,
            head_titles: head as u64,
            head_factor: if expected > 0.0 {
                seen as f64 / expected
            } else {
                1.0
            },
        }
    }
}

/// The slope at which two random sessions fall on the same one of `titles` as often as two of these
/// do. With p the share of a title this is the sum of p^2, for which c (c - 1) / (n (n - 1)) is an
/// unbiased estimate at any sample size.
fn slope_by_coincidence(sessions: &[u64], titles: u64) -> f64 {
    let titles = titles.max(sessions.len() as u64);
    let count = |count: &u64| *count as f64;
    let all: f64 = sessions.iter().map(count).sum();
    let pairs: f64 = sessions.iter().map(count).map(|of| of * (of - 1.0)).sum();
    if all < 2.0 {
        return 0.0;
    }
    let seen = pairs / (all * (all - 1.0));
    let expected = |slope: f64| {
        let sum = powers_sum(titles, slope);
        powers_sum(titles, 2.0 * slope) / (sum * sum)
    };
    // The expectation grows with the slope.
    let (mut low, mut high) = (0.0, SLOPE_MAX);
    if expected(low) >= seen {
        return 0.0;
    }
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        match expected(middle) < seen {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// No realistic catalogue is more unequal.
const SLOPE_MAX: f64 = 5.0;

/// Sum of r^-slope for r from 1 to `last`; approximated by an integral beyond rank 1000.
fn powers_sum(last: u64, slope: f64) -> f64 {
    const EXACT: u64 = 1000;
    let power = |rank: u64| libm::pow(rank as f64, -slope);
    let near: f64 = (1..=last.min(EXACT)).map(power).sum();
    if last <= EXACT {
        return near;
    }
    let (from, to) = (EXACT as f64 + 0.5, last as f64 + 0.5);
    let exponent = 1.0 - slope;
    let far = match libm::fabs(exponent) < 1e-9 {
        true => libm::log(to / from),
        false => (libm::pow(to, exponent) - libm::pow(from, exponent)) / exponent,
    };
    near + far
}
