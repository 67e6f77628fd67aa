//! Splits the requests of a partition into sessions with chains and phases.

use alloc::vec::Vec;

use headlong_chains::{
    Chain, ChainRules, Joiner, NO_CHAIN, Phase, PhaseKind, PhaseRules, Request, SessionPhases,
    phases,
};

use crate::view::{Cluster, LogContext, PhaseGroups, SessionView, TimeSpan};

/// Splits requests into sessions, one partition at a time, reusing its memory.
#[derive(Debug)]
pub struct SessionSplitter {
    joiner: Joiner,
    chains: Vec<Chain>,
    chain_of: Vec<u32>,
    by_file: Vec<u32>,
}

impl SessionSplitter {
    /// Memory for each request of the largest partition, besides the request itself, bytes.
    pub const BYTES_PER_REQUEST: u64 = 32 + 4 + 4 + size_of::<Chain>() as u64;

    /// A splitter that joins requests to chains by these rules.
    pub fn new(rules: ChainRules) -> Self {
        Self {
            joiner: Joiner::new(rules),
            chains: Vec::new(),
            chain_of: Vec::new(),
            by_file: Vec::new(),
        }
    }

    /// Calls `each` for every session of these requests, by number; sessions must be whole. Sorts
    /// the requests by session, arrival and line.
    pub fn split(
        &mut self,
        log: &LogContext,
        requests: &mut [Request],
        mut each: impl FnMut(&SessionView<'_>),
    ) {
        requests.sort_unstable_by_key(|r| (r.session, r.received_ms, r.line));
        self.joiner
            .join_with_places(requests, &mut self.chains, &mut self.chain_of);
        let (mut requests, mut chain_of) = (&*requests, &mut *self.chain_of);
        let (mut chains, mut chains_before) = (&*self.chains, 0);
        while let Some(first) = requests.first() {
            let session = first.session;
            let count = requests.partition_point(|request| request.session == session);
            let (mine, rest) = requests.split_at(count);
            requests = rest;
            let (places, rest) = chain_of.split_at_mut(count);
            chain_of = rest;
            let count = chains.partition_point(|chain| chain.session <= session);
            let (my_chains, rest) = chains.split_at(count);
            chains = rest;
            for place in places.iter_mut().filter(|place| **place != NO_CHAIN) {
                *place -= chains_before;
            }
            // The joiner rejects partitions so large that this could overflow.
            chains_before += count as u32;
            self.by_file.clear();
            self.by_file.extend(0..mine.len() as u32);
            self.by_file
                .sort_unstable_by_key(|place| (mine[*place as usize].file, *place));
            split_session(log, mine, &self.by_file, my_chains, places, &mut each);
        }
    }
}

fn split_session(
    log: &LogContext,
    requests: &[Request],
    by_file: &[u32],
    chains: &[Chain],
    chain_of: &[u32],
    each: &mut impl FnMut(&SessionView<'_>),
) {
    let rules = |with_audio| PhaseRules {
        with_audio,
        ..PhaseRules::default()
    };
    let kind_of = |file| log.file(file).kind;
    let found = [false, true].map(|with_audio| phases(chains, kind_of, &rules(with_audio)));
    let span = match &found[0] {
        Some(found) if requests.iter().all(Request::is_placed) => TimeSpan {
            start_ms: found.start_ms,
            end_ms: found.end_ms,
        },
        // Nothing was sent in the session, or some requests are in no chain.
        _ => TimeSpan {
            start_ms: requests[0].received_ms,
            end_ms: requests
                .iter()
                .map(|request| request.completed_ms)
                .max()
                .unwrap_or(0),
        },
    };
    let phases = found.map(|found| found.as_ref().map_or(PhaseGroups::default(), phases_of));
    each(&SessionView {
        session: requests[0].session,
        requests,
        by_file,
        chains,
        chain_of,
        phases: [&phases[0], &phases[1]],
        span,
    });
}

/// The phases by kind, with the chains of each transient phase.
fn phases_of(found: &SessionPhases) -> PhaseGroups {
    let span = |phase: &Phase| TimeSpan {
        start_ms: phase.start_ms,
        end_ms: phase.end_ms,
    };
    let mut chains: Vec<Vec<u32>> = found.phases.iter().map(|_| Vec::new()).collect();
    for (chain, phase) in (0..).zip(&found.phase_of) {
        if let Some(phase) = phase {
            chains[*phase as usize].push(chain);
        }
    }
    let covered = [found.transient_ms, found.stable_ms, found.inactive_ms];
    let mut by_kind = PhaseGroups {
        starts_transient: found.starts_transient(),
        covered_ms: covered.map(|ms| ms.max(0) as u64),
        ..PhaseGroups::default()
    };
    for (phase, chains) in found.phases.iter().zip(chains) {
        match phase.kind {
            PhaseKind::Transient => by_kind.transient.push(Cluster {
                span: span(phase),
                chains,
            }),
            PhaseKind::Stable => by_kind.stable.extend(chains),
            PhaseKind::Inactive => by_kind.inactive.push(span(phase)),
        }
    }
    by_kind
}
