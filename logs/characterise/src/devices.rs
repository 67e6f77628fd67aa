//! Request behaviour of each type of device, as in [`DeviceObservations`].

use alloc::string::String;
use alloc::vec::Vec;

use headlong_chains::{ContentKind, Request, most_at_once};

use crate::histograms::LogHistogram;
use crate::merge::sums;
use crate::observations::DeviceObservations;
use crate::view::{LogContext, SessionView, is_long, nominal_us};

/// A first long chain shorter than this may not have filled the buffer.
const FILLED_MS: i64 = 200_000;
/// A smaller request says little about bandwidth.
const BANDWIDTH_BYTES_MIN: u64 = 64 << 10;
/// Mean number of header chains per session from which on the device is assumed to read headers.
const HEADERS_MIN: f64 = 0.25;
/// Bit rates with a smaller share of the stable content are ignored as noise.
const RATE_SHARE_MIN: f64 = 0.001;

sums! {
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    struct DeviceSums {
        sessions: u64,
        separate: u64,
        both: u64,
        /// Chains of content and of audio: open-ended, all.
        content: [u64; 2],
        audio: [u64; 2],
        /// Nominal microseconds in long chains, by rate class.
        stable_us: Vec<u64>,
        request_us: LogHistogram,
        request_bytes: LogHistogram,
        connections: LogHistogram,
        audio_request_us: LogHistogram,
        spacing_ms: LogHistogram,
        ahead_ms: LogHistogram,
        audio_ahead_ms: LogHistogram,
        header_bytes: LogHistogram,
        /// Content chains in first and in later clusters, and the numbers of these clusters.
        probes: [u64; 2],
        clusters: [u64; 2],
        probe_us: LogHistogram,
        audio_chains: u64,
        stretches: u64,
        /// Thousandths.
        headroom: LogHistogram,
    }
}

sums! {
    /// All types of devices.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct DeviceStatistics {
        all: Vec<DeviceSums>,
        ; same
        classes: usize,
    }
}

impl DeviceStatistics {
    /// An empty accumulator.
    pub(crate) fn new(log: &LogContext) -> Self {
        Self {
            classes: log.rates.classes().len(),
            all: Vec::new(),
        }
    }

    /// Adds a session with `stretches` stretches between skips and inactive phases.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>, stretches: u64) {
        let row = log.device_row(view.requests.first().map_or(0, |request| request.device));
        if row >= self.all.len() {
            self.all.resize_with(row + 1, DeviceSums::default);
        }
        let classes = self.classes;
        let device = &mut self.all[row];
        device.stable_us.resize(classes, 0);
        device.sessions += 1;
        device.stretches += stretches;
        device.add_chains(log, view);
        device.add_clusters(log, view);
        device.add_requests(log, view);
        device.add_headroom(log, view);
    }

    /// One entry for each type of device with a session.
    pub(crate) fn finish(&self, log: &LogContext) -> Vec<DeviceObservations> {
        let seen = self
            .all
            .iter()
            .enumerate()
            .filter(|(_, device)| device.sessions > 0);
        seen.map(|(row, device)| device.seen(log.device_name(row), log))
            .collect()
    }
}

impl DeviceSums {
    fn add_chains(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let mut types = [false; 2];
        let mut is_separate = false;
        let mut first_long = [true; 2];
        for chain in view.chains {
            let info = log.file(chain.file);
            let us = nominal_us(chain.length, info.kbps);
            let is_audio = info.kind == ContentKind::Audio;
            let sums = if is_audio {
                &mut self.audio
            } else {
                &mut self.content
            };
            sums[0] += u64::from(chain.is_open);
            sums[1] += 1;
            if !is_audio {
                types[usize::from(chain.is_open)] = true;
                is_separate |= info.kind == ContentKind::Video;
            } else if !log.is_header(chain) {
                self.audio_chains += 1;
            }
            let seconds = log.seconds(chain.file);
            if log.is_header(chain) && !chain.is_open && seconds > 0.0 {
                // In thousandths of a byte, to limit the rounding error.
                let per_segment = chain.length as f64 * 1000.0 / (seconds / 2.0);
                self.header_bytes.add(per_segment as u64);
            }
            if !is_long(chain) {
                continue;
            }
            if !is_audio && let Some(sum) = self.stable_us.get_mut(log.rates.of_file(chain.file)) {
                *sum += us;
            }
            let is_first = core::mem::take(&mut first_long[usize::from(is_audio)]);
            let took_ms = chain.duration_ms();
            if is_first && took_ms > FILLED_MS {
                let ahead = (us / 1000).saturating_sub(took_ms as u64);
                let all = if is_audio {
                    &mut self.audio_ahead_ms
                } else {
                    &mut self.ahead_ms
                };
                all.add(ahead);
            }
        }
        self.both += u64::from(types == [true; 2]);
        self.separate += u64::from(is_separate);
    }

    fn add_clusters(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let phases = view.phases[0];
        for (place, cluster) in phases.transient.iter().enumerate() {
            let later = usize::from(place > 0);
            if later == 0 && phases.stable.is_empty() {
                continue;
            }
            self.clusters[later] += 1;
            for place in &cluster.chains {
                let chain = &view.chains[*place as usize];
                if !log.is_header(chain) {
                    self.probes[later] += 1;
                    self.probe_us
                        .add(nominal_us(chain.length, log.file(chain.file).kbps));
                }
            }
        }
    }

    /// Sizes of chunk requests, and the timing of those within one long chain.
    fn add_requests(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let mut of_long: Vec<(u32, &Request)> = Vec::new();
        for (place, request) in view.requests.iter().enumerate() {
            let Some(chain) = view.chain(place).filter(|_| request.asked_bytes.is_some()) else {
                continue;
            };
            let info = log.file(request.file);
            let us = nominal_us(request.sent_bytes, info.kbps);
            if info.kind == ContentKind::Audio {
                if !log.is_header(chain) {
                    self.audio_request_us.add(us);
                }
            } else if is_long(chain) {
                self.request_us.add(us);
                self.request_bytes.add(request.sent_bytes);
                of_long.push((view.chain_of[place], request));
            }
        }
        // Sorted by arrival; a stable sort keeps that order within a chain.
        of_long.sort_by_key(|(chain, _)| *chain);
        let mut edges = Vec::new();
        for run in of_long.chunk_by(|a, b| a.0 == b.0) {
            let spans = run
                .iter()
                .map(|(_, request)| (request.received_ms, request.completed_ms));
            self.connections.add(most_at_once(spans, &mut edges) as u64);
            let gaps = run[run.len() / 2..]
                .windows(2)
                .map(|pair| pair[1].1.received_ms - pair[0].1.received_ms);
            if let Some(longest) = gaps.max() {
                self.spacing_ms.add(longest.max(0) as u64);
            }
        }
    }

    fn add_headroom(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let Some(stable) = view.phases[0].stable.first() else {
            return;
        };
        let kbps = log.file(view.chains[*stable as usize].file).kbps;
        if kbps == 0 {
            return;
        }
        let mut by_second: Vec<(i64, u64)> = Vec::new();
        for request in view.requests {
            if request.asked_bytes.is_some() && request.sent_bytes >= BANDWIDTH_BYTES_MIN {
                by_second.push((request.completed_ms.div_euclid(1000), request.sent_bytes));
            }
        }
        for chain in view
            .chains
            .iter()
            .filter(|chain| chain.is_open && !is_long(chain))
        {
            // A single transfer: its bytes divided by its duration, which is at least the
            // one-second resolution of the log.
            let seconds = ((chain.end_ms - chain.start_ms) / 1000).max(1) as u64;
            by_second.push((i64::MIN + by_second.len() as i64, chain.length / seconds));
        }
        by_second.sort_unstable();
        let sums = by_second.chunk_by(|a, b| a.0 == b.0);
        let most = sums
            .map(|same| same.iter().map(|(_, bytes)| bytes).sum::<u64>())
            .max();
        if let Some(bytes) = most {
            self.headroom.add(bytes.saturating_mul(8) / u64::from(kbps));
        }
    }

    fn seen(&self, name: String, log: &LogContext) -> DeviceObservations {
        let share = |part: u64, whole: u64| {
            if whole > 0 {
                part as f64 / whole as f64
            } else {
                0.0
            }
        };
        let median = |all: &LogHistogram, scale: f64| all.quantile(0.5).unwrap_or(0.0) * scale;
        let high = |all: &LogHistogram, scale: f64| all.quantile(0.95).unwrap_or(0.0) * scale;
        let stable: u64 = self.stable_us.iter().sum();
        let is_used = |us: u64| us as f64 > stable as f64 * RATE_SHARE_MIN;
        let classes = log.rates.classes().iter().zip(&self.stable_us);
        let used = classes
            .filter(|(_, us)| is_used(**us))
            .map(|(class, _)| class.kbps);
        DeviceObservations {
            name,
            sessions: self.sessions,
            separate_share: share(self.separate, self.sessions),
            open_content_share: share(self.content[0], self.content[1]),
            open_audio_share: share(self.audio[0], self.audio[1]),
            both_share: share(self.both, self.sessions),
            kbps_max: used.max().unwrap_or(0),
            request_s: high(&self.request_us, 1e-6),
            request_bytes: high(&self.request_bytes, 1.0),
            connections: libm::round(median(&self.connections, 1.0)) as u32,
            audio_request_s: median(&self.audio_request_us, 1e-6),
            spacing_s: median(&self.spacing_ms, 1e-3),
            ahead_s: median(&self.ahead_ms, 1e-3),
            audio_ahead_s: median(&self.audio_ahead_ms, 1e-3),
            header_bytes_per_segment: match share(self.header_bytes.count(), self.sessions) {
                // Occasional viewers that leave after the first request do not indicate a header.
                headers if headers < HEADERS_MIN => 0.0,
                _ => median(&self.header_bytes, 1e-3),
            },
            probes_first: share(self.probes[0], self.clusters[0]),
            probes_next: share(self.probes[1], self.clusters[1]),
            probe_s: self.probe_us.mean().unwrap_or(0.0) / 1e6,
            audio_chains: share(self.audio_chains, self.stretches),
            headroom: self.headroom.points(1e-3),
        }
    }
}
