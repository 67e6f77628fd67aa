//! The state that a device reaches under a steady load: its prefetch size, and how busy it is.
//!
//! The size is found by the controller of a running shard, which observes here what such a load
//! lets it observe; the work is that of the same replay of chains. Left out are queues, which
//! shorten repositions, and titles whose bit rates differ.

use headlong_units::{BitRate, Duration, Instant, MIB};

use super::controller::Controller;
use super::drive::DriveTimes;
use super::ended_chains::{DeviceWork, EndedChain, EndedChains};
use super::interface::{ControllerInput, TICK};
use crate::config::{Control, EngineConfig};
use crate::saved_state::ShardMeasurements;
use crate::sizing::{ChainShape, fair_share_bytes, prefetch_bytes};
use crate::stats::Stats;

/// Ticks until a controller has settled: half an hour. Sizes double in less than three minutes; a
/// device with spare time only ever gets smaller ones, by the viewers that happen to have left.
const TICKS: u64 = 360;
/// Chains of which the work is computed, as many as a controller remembers.
const CHAINS: usize = 512;
/// Rounds in which hits, and the memory that prefetches leave for them, approach each other.
const ROUNDS: usize = 32;
/// Pieces of each chain that are partly read, half of one, or being sent: a sixth of one of 1 MiB in
/// simulations of viewers that request segments of 4 s.
const PIECES_IN_USE: f64 = 0.7;
const FOREVER: Duration = Duration(u64::MAX);

/// A load of a device that does not change.
pub struct SteadyLoad<'l> {
    /// Bytes sent to viewers per second.
    pub bytes_per_s: f64,
    /// Bit rate of the titles, at which viewers read them.
    pub bit_rate: BitRate,
    /// Chains that represent all, in an order in which they may end, drawn at random: bytes that
    /// the viewer reads, and bytes of the title.
    pub chains: &'l [(u64, u64)],
    /// Share of the sent bytes that is found in memory if this many bytes are retained, and those of
    /// a prefetch are in memory for so many seconds before they are read.
    pub hit_ratio: &'l dyn Fn(u64, f64) -> f64,
}

impl core::fmt::Debug for SteadyLoad<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut shown = f.debug_struct("SteadyLoad");
        let shown = shown.field("bytes_per_s", &self.bytes_per_s);
        shown
            .field("bit_rate", &self.bit_rate)
            .finish_non_exhaustive()
    }
}

/// The state of a device under a steady load.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SteadyState {
    /// Mean size of a prefetch, as reduced to memory.
    pub prefetch_bytes: u64,
    /// Bytes read from the device per second.
    pub read_bytes_per_s: f64,
    /// Share of the sent bytes that is found in memory.
    pub hit_ratio: f64,
    /// Share of the time with a read at the device; above 1 if it cannot carry the load.
    pub busy: f64,
}

impl SteadyState {
    /// The state under a load of a device with these settings and times.
    pub fn new(config: &EngineConfig, drive: DriveTimes, load: &SteadyLoad<'_>) -> Self {
        let mut observer = SteadyObserver::new(config, drive, load);
        match observer.read_mean > 0.0 && load.bytes_per_s > 0.0 {
            true => observer.settle(),
            false => Self::default(),
        }
    }
}

/// A controller, and what it observes of a steady load.
struct SteadyObserver<'l> {
    config: &'l EngineConfig,
    drive: DriveTimes,
    load: &'l SteadyLoad<'l>,
    controller: Controller,
    /// Mean bytes that a viewer reads.
    read_mean: f64,
    /// Chains with a reader: viewers, and those that left less than a gap ago.
    chains: u64,
    /// Of those, chains with unread bytes: not of viewers that read all of the title before they
    /// left.
    holders: f64,
}

impl<'l> SteadyObserver<'l> {
    fn new(config: &'l EngineConfig, drive: DriveTimes, load: &'l SteadyLoad<'l>) -> Self {
        let mut controller = Controller::new(config);
        controller.resume(ShardMeasurements {
            drive: Some(drive),
            bit_rate_mean: Some(load.bit_rate),
            ..ShardMeasurements::default()
        });
        let read: u64 = load.chains.iter().map(|(read, _)| *read).sum();
        let read_mean = read as f64 / load.chains.len().max(1) as f64;
        let early = load.chains.iter().filter(|(read, whole)| read < whole);
        let early = early.count();
        let viewers = load.bytes_per_s * 8.0 / load.bit_rate.0.max(1) as f64;
        let left = load.bytes_per_s / read_mean.max(1.0) * config.chain_gap.as_secs_f64();
        Self {
            config,
            drive,
            load,
            controller,
            read_mean,
            chains: libm::round(viewers + left).max(1.0) as u64,
            holders: viewers + left * early as f64 / load.chains.len().max(1) as f64,
        }
    }

    /// The size of a prefetch by the rule.
    fn rule_bytes(&self) -> u64 {
        let shape = ChainShape {
            start_offset: 0,
            open_ended: false,
            // Of a chain beyond its first prefetches.
            prefetched_bytes: self.read_mean as u64,
        };
        let sizing = self.controller.sizing();
        prefetch_bytes(sizing, shape, 0, Some(self.load.bit_rate))
    }

    /// The same, reduced to memory.
    fn cut_bytes(&self, rule_bytes: u64) -> u64 {
        let budget = self.config.slot_count() * self.config.piece_bytes;
        match self.controller.cut(rule_bytes, self.chains) {
            Some(cut) => cut.max(self.config.piece_bytes).min(budget / 2),
            None => fair_share_bytes(self.config, budget, self.chains),
        }
        .min(rule_bytes)
    }

    /// Both: all of a state that changes from tick to tick.
    fn sizes(&self) -> (u64, u64) {
        let rule_bytes = self.rule_bytes();
        (rule_bytes, self.cut_bytes(rule_bytes))
    }

    /// Bytes before the end of its prefetches at which a chain has the next one read.
    fn ahead_bytes(&self) -> u64 {
        match self.config.reads_ahead() {
            true => self.load.bit_rate.bytes_in(self.config.ahead_horizon),
            false => 0,
        }
    }

    /// Unread bytes of a chain: from what it has left when it reads again up to a prefetch more.
    fn held_bytes(&self, prefetch_bytes: u64) -> u64 {
        self.ahead_bytes().min(prefetch_bytes / 2) + prefetch_bytes / 2
    }

    /// The share of hits if this many bytes are retained.
    fn hits_with(&self, retained_bytes: u64, prefetch_bytes: u64) -> f64 {
        let pace = self.load.bit_rate.0.max(1) as f64;
        let held_s = self.held_bytes(prefetch_bytes) as f64 * 8.0 / pace;
        (self.load.hit_ratio)(retained_bytes, held_s).clamp(0.0, 1.0)
    }

    /// Bytes that chains hold for their viewers: of those that read from the device prefetches, of
    /// those that find the next bytes in memory as many as must be left when a chain reads again.
    /// Those so close to another viewer that they find its prefetches (`near`) share all.
    fn unread_bytes(&self, prefetch_bytes: u64, hit_ratio: f64, near: f64) -> u64 {
        let left = self.held_bytes(prefetch_bytes) - prefetch_bytes / 2;
        let held = (1.0 - near) * (left as f64 + self.in_use_bytes())
            + (1.0 - hit_ratio) * (prefetch_bytes / 2) as f64;
        ((self.holders * held) as u64).min(self.config.memory_bytes)
    }

    /// Bytes of a chain that are partly read or being sent.
    fn in_use_bytes(&self) -> f64 {
        self.config.piece_bytes as f64 * PIECES_IN_USE
    }

    /// The prefetch for which memory has room if every chain that reads from the device holds one.
    fn fitting_bytes(&self, hit_ratio: f64, near: f64) -> u64 {
        let memory = self.config.memory_bytes as f64 / self.holders.max(1.0);
        let (apart, missed) = (1.0 - near, 1.0 - hit_ratio);
        let held = (memory - apart * self.in_use_bytes()).max(0.0);
        let ahead = self.ahead_bytes() as f64;
        // As much is left as half of a prefetch, but not more than the viewers' time to read ahead.
        let small = held * 2.0 / (apart + missed);
        let large = (held - apart * ahead) * 2.0 / missed;
        // Infinite if all is found. The cast saturates.
        (small.min(2.0 * ahead).max(large) as u64).max(self.config.piece_bytes)
    }

    /// The share of hits in the memory that prefetches leave, and without such memory: the more
    /// hits, the more they leave.
    fn hit_ratios(&self, prefetch_bytes: u64) -> (f64, f64) {
        let near = self.hits_with(0, prefetch_bytes);
        let round = |hit_ratio: f64, _| {
            let unread = self.unread_bytes(prefetch_bytes, hit_ratio, near);
            self.hits_with(self.config.memory_bytes - unread, prefetch_bytes)
        };
        ((0..ROUNDS).fold(near, round), near)
    }

    fn ended(&self, (read_bytes, whole_bytes): (u64, u64), sent_bytes: u64) -> EndedChain {
        let reference = u128::from(self.controller.sizing().reference_bytes.max(1));
        let rule = u128::from(self.rule_bytes()) * u128::from(MIB) / reference;
        EndedChain {
            read_bytes,
            whole_bytes,
            rule_bytes_per_mib: u64::try_from(rule).unwrap_or(u64::MAX),
            ahead_bytes: self.ahead_bytes(),
            pace: self.load.bit_rate,
            sent_bytes,
        }
    }

    /// The work that all chains cause, the share of the time that it takes, and the bytes that they
    /// hold.
    fn state(&self) -> (SteadyState, DeviceWork, u64) {
        let (rule_bytes, cut_bytes) = self.sizes();
        let (hit_ratio, near) = self.hit_ratios(cut_bytes);
        let prefetch_bytes = cut_bytes.min(self.fitting_bytes(hit_ratio, near));
        let (hit_ratio, near) = self.hit_ratios(prefetch_bytes);
        let mut past = EndedChains::default();
        let mut sent_bytes = 0;
        for chain in self.load.chains.iter().take(CHAINS) {
            past.record(self.ended(*chain, sent_bytes));
            sent_bytes += chain.0;
        }
        let reference = self.controller.sizing().reference_bytes;
        let scale = prefetch_bytes as f64 / rule_bytes.max(1) as f64;
        let work = past.replay(reference, scale, FOREVER, sent_bytes);
        let missed = self.load.bytes_per_s * (1.0 - hit_ratio);
        let read = work.bytes_read / work.bytes_sent.max(1.0);
        let state = SteadyState {
            prefetch_bytes,
            read_bytes_per_s: missed * read,
            hit_ratio,
            busy: missed * work.cost(self.drive) / 1e9,
        };
        let unread_bytes = self.unread_bytes(prefetch_bytes, hit_ratio, near);
        (state, work, unread_bytes)
    }

    /// Lets the controller observe the load until it has settled.
    fn settle(&mut self) -> SteadyState {
        if self.config.control.mode == Control::Off {
            return self.state().0;
        }
        let mut stats = Stats::default();
        let mut ended = self.load.chains.iter().cycle();
        let mut due = 0.0;
        let (mut sizes, mut of_sizes) = (self.sizes(), self.state());
        for tick in 1..=TICKS {
            if self.sizes() != sizes {
                (sizes, of_sizes) = (self.sizes(), self.state());
            }
            let (state, work, unread_bytes) = of_sizes;
            let sent = self.load.bytes_per_s * TICK.as_secs_f64();
            stats.bytes_sent += sent as u64;
            stats.bytes_reused += (sent * state.hit_ratio) as u64;
            stats.bytes_read += (state.read_bytes_per_s * TICK.as_secs_f64()) as u64;
            let missed = sent * (1.0 - state.hit_ratio);
            stats.reads_done += (missed * work.reads / work.bytes_sent.max(1.0)) as u64;
            stats.busy_time += Duration((TICK.0 as f64 * state.busy.min(1.0)) as u64);
            due += sent / self.read_mean;
            for chain in ended.by_ref().take(due as usize) {
                due -= 1.0;
                let ended = self.ended(*chain, stats.bytes_sent);
                self.controller.record_chain(ended);
            }
            self.controller.handle_tick(&ControllerInput {
                now: Instant::ZERO + TICK.times(tick),
                stats,
                chains: self.chains,
                size_mean_bytes: self.rule_bytes(),
                pace_mean: self.load.bit_rate,
                bit_rate_mean: Some(self.load.bit_rate),
                drive: Some(self.drive),
                again_bytes: 0,
                memory_bytes: self.config.memory_bytes,
                unread_bytes,
            });
        }
        self.state().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Prefetch;

    const DRIVE: DriveTimes = DriveTimes {
        reposition: Duration::from_millis(15),
        transfer_per_mib: Duration::from_millis(8),
    };

    fn config(prefetch: Prefetch, memory_bytes: u64) -> EngineConfig {
        let mut config = EngineConfig {
            memory_bytes,
            ..EngineConfig::default()
        };
        config.set_prefetch(prefetch);
        config
    }

    /// 40 MiB/s at the reference bit rate, for which the reference size is the size.
    fn state(config: &EngineConfig, chains: &[(u64, u64)], hit_ratio: f64) -> SteadyState {
        let load = SteadyLoad {
            bytes_per_s: 40.0 * MIB as f64,
            bit_rate: BitRate::from_kbps(2_000),
            chains,
            hit_ratio: &|_, _| hit_ratio,
        };
        SteadyState::new(config, DRIVE, &load)
    }

    #[test]
    fn whole_titles_cost_a_reposition_for_each_prefetch() {
        let config = config(Prefetch::Size(8 * MIB), 8192 * MIB);
        let whole = [(80 * MIB, 80 * MIB)];
        let of = state(&config, &whole, 0.0);
        assert_eq!(of.prefetch_bytes, 8 * MIB);
        // 5 reads a second, and no byte twice.
        assert!((of.busy - 5.0 * (0.015 + 0.064)).abs() < 1e-6, "{of:?}");
        assert!((of.read_bytes_per_s / (40.0 * MIB as f64) - 1.0).abs() < 1e-6);
        let half = state(&config, &whole, 0.5);
        assert!((half.busy / of.busy - 0.5).abs() < 1e-6, "{half:?}");
    }

    #[test]
    fn viewers_that_leave_waste_what_was_read_ahead() {
        let config = config(Prefetch::Size(8 * MIB), 8192 * MIB);
        // 12 MiB need two prefetches.
        let of = state(&config, &[(12 * MIB, 80 * MIB)], 0.0);
        assert!((of.read_bytes_per_s / (40.0 * MIB as f64) - 16.0 / 12.0).abs() < 1e-6);
    }

    #[test]
    fn prefetches_shrink_to_memory() {
        let [whole, viewers] = [80 * MIB, 168];
        for prefetch in [Prefetch::Size(8 * MIB), Prefetch::Found(Control::Auto)] {
            let of = state(&config(prefetch, 512 * MIB), &[(whole, whole)], 0.0);
            let most = 512 * MIB * 2 / viewers;
            assert!(of.prefetch_bytes <= most, "{prefetch:?}: {of:?}");
            let roomy = state(&config(prefetch, 16_384 * MIB), &[(whole, whole)], 0.0);
            assert!(roomy.busy < of.busy * 0.9, "{prefetch:?}: {roomy:?} {of:?}");
        }
    }

    #[test]
    fn controller_finds_small_size_for_viewers_that_leave_early() {
        let config = config(Prefetch::Found(Control::Auto), 16_384 * MIB);
        let leave = state(&config, &[(MIB, 80 * MIB)], 0.0);
        let stay = state(&config, &[(80 * MIB, 80 * MIB)], 0.0);
        assert!(
            leave.prefetch_bytes < stay.prefetch_bytes / 2,
            "{leave:?} {stay:?}"
        );
    }

    #[test]
    fn device_without_load_is_idle() {
        let config = config(Prefetch::Found(Control::Auto), 1024 * MIB);
        assert_eq!(state(&config, &[], 0.0), SteadyState::default());
    }
}
