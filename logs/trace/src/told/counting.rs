//! Counters of bounded size: histograms with bins of a stated width, lengths with how often they
//! came, and sums for each second of a session.
//!
//! All sums are whole numbers, so that merging in any order gives the same answer.

/// Bins to an octave of a [`LogHistogram`]: neighbours are 2.2 % apart.
const BINS_PER_OCTAVE: u32 = 32;
/// Bins of one: values 0 and all octaves of 64 bits.
const BINS: usize = 1 + 64 * BINS_PER_OCTAVE as usize;

/// How often values came, in bins 2.2 % wide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHistogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
}

impl Default for LogHistogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BINS],
            total: 0,
            sum: 0,
        }
    }
}

impl LogHistogram {
    /// One value more.
    pub fn add(&mut self, value: u64) {
        self.counts[bin(value)] += 1;
        self.total += 1;
        self.sum += u128::from(value);
    }

    /// Those of another too.
    pub fn merge(&mut self, other: &Self) {
        for (mine, other) in self.counts.iter_mut().zip(&other.counts) {
            *mine += other;
        }
        self.total += other.total;
        self.sum += other.sum;
    }

    /// How many values.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// Their sum, which is exact.
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// Their mean, which is exact.
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }

    /// The value that this share of values does not exceed, to the width of a bin.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = (share.clamp(0.0, 1.0) * self.total as f64).ceil().max(1.0) as u64;
        let mut so_far = 0;
        for (bin, count) in self.counts.iter().enumerate() {
            so_far += count;
            if so_far >= wanted {
                return Some(middle(bin));
            }
        }
        None
    }
}

fn bin(value: u64) -> usize {
    if value == 0 {
        return 0;
    }
    let octave = value.ilog2();
    let part = ((value as f64 / (octave as f64).exp2()).log2() * f64::from(BINS_PER_OCTAVE)) as u32;
    (1 + octave * BINS_PER_OCTAVE + part.min(BINS_PER_OCTAVE - 1)) as usize
}

fn middle(bin: usize) -> f64 {
    match bin {
        0 => 0.0,
        _ => ((bin as f64 - 0.5) / f64::from(BINS_PER_OCTAVE)).exp2(),
    }
}

/// Different lengths that are kept before they are rounded.
const LENGTHS_MAX: usize = 4 << 20;
/// Lengths that wait to be sorted in.
const WAITING_MAX: usize = 1 << 18;
/// Bits of a length that are kept once there are too many: 0.02 % apart.
const ROUNDED_BITS: u32 = 12;

/// Lengths with how often each came: exact as long as there are at most four million different
/// ones, 0.02 % apart after that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lengths {
    runs: Vec<(u64, u64)>,
    waiting: Vec<u64>,
    is_rounded: bool,
}

impl Lengths {
    /// Most bytes of memory that one takes.
    pub const BYTES_MAX: usize = 2 * 16 * LENGTHS_MAX + 8 * WAITING_MAX;

    /// One more.
    pub fn add(&mut self, length: u64) {
        self.waiting.push(self.kept(length));
        if self.waiting.len() >= WAITING_MAX {
            self.sort_in();
        }
    }

    /// Those of another too.
    pub fn merge(&mut self, mut other: Self) {
        other.sort_in();
        self.sort_in();
        if other.is_rounded && !self.is_rounded {
            self.round();
        }
        let rounded: Vec<_> = other
            .runs
            .iter()
            .map(|(v, n)| (self.kept(*v), *n))
            .collect();
        self.runs = merged(&self.runs, &rounded);
        self.bound();
    }

    /// Lengths in rising order, each with how often it came.
    pub fn runs(&mut self) -> &[(u64, u64)] {
        self.sort_in();
        &self.runs
    }

    /// Whether lengths were rounded because there were too many different ones.
    pub const fn is_rounded(&self) -> bool {
        self.is_rounded
    }

    fn kept(&self, length: u64) -> u64 {
        let bits = u64::BITS - length.leading_zeros();
        match self.is_rounded && bits > ROUNDED_BITS {
            true => length >> (bits - ROUNDED_BITS) << (bits - ROUNDED_BITS),
            false => length,
        }
    }

    fn round(&mut self) {
        self.is_rounded = true;
        let rounded: Vec<_> = self.runs.iter().map(|(v, n)| (self.kept(*v), *n)).collect();
        self.runs = merged(&rounded, &[]);
    }

    fn sort_in(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        self.waiting.sort_unstable();
        let new: Vec<_> = self.waiting.drain(..).map(|length| (length, 1)).collect();
        self.runs = merged(&self.runs, &new);
        self.bound();
    }

    fn bound(&mut self) {
        if self.runs.len() > LENGTHS_MAX && !self.is_rounded {
            self.round();
        }
    }
}

/// Two sorted lists as one, each length once.
fn merged(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(a.len() + b.len());
    let mut push = |(length, count): (u64, u64)| match all.last_mut() {
        Some(last) if last.0 == length => last.1 += count,
        _ => all.push((length, count)),
    };
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if x.0 <= y.0 => a.next(),
            (_, Some(_)) => b.next(),
            (Some(_), None) => a.next(),
            (None, None) => break,
        };
        next.into_iter().for_each(&mut push);
    }
    all
}

/// Seconds of a session that are told apart; what comes later is left out of figures by second.
pub(crate) const SECONDS_MAX: usize = 172_800;

/// A sum for each second of a session, over all sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BySecond(Vec<u64>);

impl BySecond {
    /// More for one second.
    pub fn add(&mut self, second: usize, amount: u64) {
        if second >= SECONDS_MAX {
            return;
        }
        if second >= self.0.len() {
            self.0.resize(second + 1, 0);
        }
        self.0[second] += amount;
    }

    /// Those of another too.
    pub fn merge(&mut self, other: &Self) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, other) in self.0.iter_mut().zip(&other.0) {
            *mine += other;
        }
    }

    /// The sum of a second.
    pub fn get(&self, second: usize) -> u64 {
        self.0.get(second).copied().unwrap_or(0)
    }

    /// The sum from one second until before another.
    pub fn sum(&self, from: usize, until: usize) -> u64 {
        let until = until.min(self.0.len());
        self.0.get(from..until).map_or(0, |part| part.iter().sum())
    }

    /// Seconds from the first to the last that anything was added to.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Where sessions ended, and so how many had not yet ended in each second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alive {
    ends: BySecond,
    sessions: u64,
}

impl Alive {
    /// A session whose last second is this.
    pub fn add(&mut self, last_second: usize) {
        self.ends.add(last_second.min(SECONDS_MAX - 1), 1);
        self.sessions += 1;
    }

    /// Those of another too.
    pub fn merge(&mut self, other: &Self) {
        self.ends.merge(&other.ends);
        self.sessions += other.sessions;
    }

    /// How many sessions had not ended before each second.
    pub fn by_second(&self) -> BySecond {
        let mut left = self.sessions;
        let alive = self.ends.0.iter().map(|ended| {
            let now = left;
            left -= ended;
            now
        });
        BySecond(alive.collect())
    }
}

/// Bins of seconds for curves over the time of a session: each 1 % of it wide, at least a second
/// (thesis 5.4.2). From, until before.
pub(crate) fn smooth_bins(seconds: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        (from < seconds).then(|| {
            let until = (from + (from / 100).max(1)).min(seconds);
            let bin = (from, until);
            from = until;
            bin
        })
    })
}

/// `amount` spread evenly over `from_ms..until_ms`, in pieces of at most `unit_ms`, aligned to
/// `origin_ms`: which unit, and how much of it. The pieces sum to `amount`.
pub(crate) fn spread(
    amount: u64,
    (from_ms, until_ms): (i64, i64),
    origin_ms: i64,
    unit_ms: i64,
    mut each: impl FnMut(usize, u64),
) {
    let from = from_ms.saturating_sub(origin_ms).max(0);
    let until = until_ms.saturating_sub(origin_ms);
    let first = from / unit_ms;
    if until <= from || first == (until - 1) / unit_ms {
        each(first as usize, amount);
        return;
    }
    let whole = (until - from) as u128;
    let mut done = 0;
    for unit in first..=(until - 1) / unit_ms {
        let end = ((unit + 1) * unit_ms).min(until);
        let so_far = (u128::from(amount) * (end - from) as u128 / whole) as u64;
        each(unit as usize, so_far - done);
        done = so_far;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bins_are_two_per_cent_wide() {
        for value in [1u64, 2, 3, 40_000, 786_432, 1 << 40, u64::MAX] {
            let ratio = middle(bin(value)) / value as f64;
            assert!((0.978..1.022).contains(&ratio), "{value} {ratio}");
        }
        assert_eq!(middle(bin(0)), 0.0);
    }

    #[test]
    fn smooth_bins_have_no_gaps() {
        let bins: Vec<_> = smooth_bins(10_000).collect();
        assert_eq!(bins[..3], [(0, 1), (1, 2), (2, 3)]);
        assert!(bins.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!(bins.last().map(|bin| bin.1), Some(10_000));
        assert!(bins.len() < 700, "{}", bins.len());
    }

    proptest! {
        #[test]
        fn lengths_come_back_sorted_however_they_were_merged(
            a in prop::collection::vec(0u64..50, 0..60), b in prop::collection::vec(0u64..50, 0..60),
        ) {
            let of = |all: &[u64]| {
                let mut lengths = Lengths::default();
                all.iter().for_each(|length| lengths.add(*length));
                lengths
            };
            let mut ab = of(&a);
            ab.merge(of(&b));
            let mut ba = of(&b);
            ba.merge(of(&a));
            prop_assert_eq!(ab.runs(), ba.runs());
            let mut all = [a, b].concat();
            all.sort_unstable();
            let told: Vec<u64> = ab.runs().iter().flat_map(|(v, n)| vec![*v; *n as usize]).collect();
            prop_assert_eq!(told, all);
        }

        #[test]
        fn what_is_spread_is_all_there(
            amount in 0u64..1 << 40, from in -5000i64..100_000, length in 0i64..50_000,
        ) {
            let mut sum = 0;
            let mut units = Vec::new();
            spread(amount, (from, from + length), 0, 1000, |unit, part| {
                sum += part;
                units.push(unit);
            });
            prop_assert_eq!(sum, amount);
            prop_assert!(units.windows(2).all(|pair| pair[1] == pair[0] + 1));
        }

        #[test]
        fn sessions_that_have_not_ended_are_counted(lasts in prop::collection::vec(0usize..40, 1..30)) {
            let mut alive = Alive::default();
            lasts.iter().for_each(|last| alive.add(*last));
            let told = alive.by_second();
            for second in 0..40 {
                let naive = lasts.iter().filter(|last| **last >= second).count() as u64;
                prop_assert_eq!(told.get(second), naive);
            }
        }

        #[test]
        fn a_quantile_is_near_the_value(mut values in prop::collection::vec(1u64..1 << 50, 1..50), share in 0.0..1.0f64) {
            let mut histogram = LogHistogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            values.sort_unstable();
            let place = ((share * values.len() as f64).ceil() as usize).max(1) - 1;
            let ratio = histogram.quantile(share).expect("values") / values[place] as f64;
            prop_assert!((0.97..1.03).contains(&ratio), "{}", ratio);
        }
    }
}
