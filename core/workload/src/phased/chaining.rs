//! One session's chains and phases by the literal rules.

use alloc::vec;
use alloc::vec::Vec;

use super::asking::Request;

/// Longest gap between receipts of two requests of a chain, ms (thesis 5.3).
const CHAIN_GAP_MS: i64 = 40_000;

/// Requests for one file that continue each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) file: u32,
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    pub(super) is_open: bool,
    pub(super) requests: u32,
}

impl Chain {
    pub(super) fn duration_ms(&self) -> i64 {
        self.end_ms - self.start_ms
    }
}

/// The chains of one session's lines, which are sorted by file, offset and receipt. `parallel` is
/// told for each file how many requests were under way at once at most.
pub(super) fn chains(lines: &mut [Request], parallel: &mut impl FnMut(u32)) -> Vec<Chain> {
    lines.sort_by_key(|line| (line.file, line.offset, line.received_ms));
    let mut found = Vec::new();
    for lines in lines.chunk_by(|a, b| a.file == b.file) {
        parallel(most_at_once(
            &mut lines
                .iter()
                .map(|line| (line.received_ms, line.completed_ms)),
        ));
        chains_of_file(lines, &mut found);
    }
    found
}

fn chains_of_file(lines: &[Request], found: &mut Vec<Chain>) {
    let lines: Vec<&Request> = lines.iter().filter(|line| line.sent_bytes > 0).collect();
    let mut next = vec![usize::MAX; lines.len()];
    let mut has_previous = vec![false; lines.len()];
    let mut enders: Vec<usize> = (0..lines.len()).collect();
    let end = |line: &Request| line.offset + line.sent_bytes;
    enders.sort_by_key(|index| (end(lines[*index]), lines[*index].received_ms));
    for ender in enders {
        let at = end(lines[ender]);
        let from = lines.partition_point(|line| line.offset < at);
        let starters = (from..lines.len()).take_while(|index| lines[*index].offset == at);
        let mut starters = starters.filter(|index| !has_previous[*index]);
        let starter = starters.find(|index| {
            let gap = lines[*index].received_ms - lines[ender].received_ms;
            gap.abs() <= CHAIN_GAP_MS
        });
        if let Some(starter) = starter {
            next[ender] = starter;
            has_previous[starter] = true;
        }
    }
    for first in (0..lines.len()).filter(|index| !has_previous[*index]) {
        let line = lines[first];
        let mut chain = Chain {
            file: line.file,
            start: line.offset,
            length: 0,
            start_ms: i64::MAX,
            end_ms: i64::MIN,
            is_open: line.asked_bytes.is_none(),
            requests: 0,
        };
        let mut at = first;
        while let Some(line) = lines.get(at) {
            chain.length += line.sent_bytes;
            chain.start_ms = chain.start_ms.min(line.received_ms);
            chain.end_ms = chain.end_ms.max(line.completed_ms);
            chain.requests += 1;
            at = next[at];
        }
        found.push(chain);
    }
}

/// Most spans that hold one moment, each without its end.
pub(super) fn most_at_once(spans: &mut impl Iterator<Item = (i64, i64)>) -> u32 {
    let mut changes: Vec<(i64, i32)> = Vec::new();
    for (from, to) in spans {
        changes.push((from, 1));
        changes.push((to.max(from + 1), -1));
    }
    changes.sort_unstable();
    let (mut now, mut most) = (0, 0);
    for (_, change) in changes {
        now += change;
        most = most.max(now);
    }
    most.unsigned_abs()
}

/// Phases of some chains of one session: times from and to, ms.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// Clusters of short chains.
    pub(super) clusters: Vec<(i64, i64)>,
    /// Long chains.
    pub(super) stable: Vec<(i64, i64)>,
    /// Everything, joined where it touches.
    busy: Vec<(i64, i64)>,
}

impl Spans {
    pub(super) fn of<'a>(
        chains: impl Iterator<Item = &'a Chain>,
        short_ms: i64,
        cluster_gap_ms: i64,
    ) -> Self {
        let mut all: Vec<(i64, i64)> = chains.map(|chain| (chain.start_ms, chain.end_ms)).collect();
        all.sort_unstable();
        let is_short = |span: &(i64, i64)| span.1 - span.0 <= short_ms;
        let short: Vec<_> = all.iter().copied().filter(is_short).collect();
        Self {
            clusters: join(&short, cluster_gap_ms),
            stable: all.iter().copied().filter(|span| !is_short(span)).collect(),
            busy: join(&all, 1),
        }
    }

    /// Gaps of at least this in which nothing is in progress.
    pub(super) fn breaks(&self, least_ms: i64) -> Vec<(i64, i64)> {
        let gaps = self.busy.windows(2).map(|pair| (pair[0].1, pair[1].0));
        gaps.filter(|(from, to)| to - from >= least_ms).collect()
    }

    /// Time that at least one of the spans covers.
    pub(super) fn union(spans: &[(i64, i64)]) -> i64 {
        join(spans, 1).iter().map(|(from, to)| to - from).sum()
    }
}

/// Spans, sorted by their beginnings, joined over gaps below `gap_ms`.
fn join(spans: &[(i64, i64)], gap_ms: i64) -> Vec<(i64, i64)> {
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some(last) if from - last.1 < gap_ms => last.1 = last.1.max(*to),
            _ => joined.push((*from, *to)),
        }
    }
    joined
}
