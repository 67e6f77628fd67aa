//! Simulates one session: a person watches, skips and pauses, and the device tries bit rates.

use alloc::vec::Vec;

use headlong_random::Generator;

use super::ContentKind;
use super::catalogue::PhasedCatalogue;
use super::requests::{PhasedRequest, PlaybackClock, ReadStyle, RequestGenerator, SegmentRun};
use super::specification::{
    DeviceType, PhasedSpecification, PhasedViewing, RateSelection, RequestForm,
};

/// Shortest session that is not a glance, s (thesis 5.4.3).
const WATCH_MIN_S: f64 = 41.0;
/// A device switches up only if its bandwidth exceeds the bit rate by this factor.
const SPARE: f64 = 1.15;
/// Share of steps in a transient phase that return to the file before the last.
const RETURN_SHARE: f64 = 0.4;

/// Event that ends a period of watching.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchEnd {
    End,
    Skip,
    Pause,
}

/// A session in progress.
pub(super) struct SessionSimulation<'a> {
    viewing: &'a PhasedViewing,
    device: &'a DeviceType,
    duration_s: f64,
    segments: u32,
    pub(super) asker: RequestGenerator<'a>,
    /// Random generator of the person.
    generator: Generator,
    /// Files of content in ascending order of bit rate, and those of sound.
    rungs: Vec<u32>,
    audio: Vec<u32>,
    /// Current index in `rungs`, and current sound file.
    rung: usize,
    voice: usize,
    is_both: bool,
    transient_share: f64,
    /// Whether no transient phase has happened yet.
    is_first: bool,
}

impl<'a> SessionSimulation<'a> {
    pub(super) fn new(
        (catalogue, specification): (&'a PhasedCatalogue, &'a PhasedSpecification),
        device: &'a DeviceType,
        title: u32,
        generator: Generator,
        requests: Vec<PhasedRequest>,
    ) -> Self {
        let mut generator = generator;
        let mut network = generator.fork("network");
        let kbps = |file: &u32| catalogue.files[*file as usize].kbps;
        let fits = |file: &u32| u64::from(kbps(file)) <= device.kbps_max;
        let mut rungs: Vec<u32> = catalogue
            .files_of(title, device.content())
            .filter(fits)
            .collect();
        if rungs.is_empty() {
            rungs = catalogue
                .files_of(title, device.content())
                .take(1)
                .collect();
        }
        let audio: Vec<u32> = catalogue.files_of(title, ContentKind::Audio).collect();
        let pick = |network: &mut Generator, kind: ContentKind, max: u64| {
            let all = specification.catalogue.of_kind(kind);
            let all = &all[..all.partition_point(|one| u64::from(one.kbps) <= max)];
            let sum: f64 = all.iter().map(|one| one.weight).sum();
            let mut unit = network.unit() * sum;
            let found = all.iter().find(|one| {
                unit -= one.weight;
                unit < 0.0
            });
            found.or(all.last()).map_or(1, |one| one.kbps)
        };
        let target = pick(&mut network, device.content(), device.kbps_max);
        // A viewer of a title with a single bit rate has the bandwidth for it.
        let target = match (specification.catalogue.rates, rungs.first()) {
            (RateSelection::One, Some(only)) => kbps(only),
            _ => target,
        };
        let voice = pick(&mut network, ContentKind::Audio, u64::MAX);
        let bandwidth =
            f64::from(target) * 125.0 * specification.network.headroom.sample(&mut network);
        let at_most = |files: &[u32], most: u32| {
            files
                .partition_point(|file| kbps(file) <= most)
                .saturating_sub(1)
        };
        let delay_s = specification.network.delay_s;
        let is_cautious = network.unit() < specification.viewing.cautious_share;
        let is_both = generator.unit() < device.both_share;
        Self {
            viewing: &specification.viewing,
            device,
            duration_s: catalogue.titles[title as usize].duration_s,
            segments: catalogue.titles[title as usize].segments,
            asker: RequestGenerator::new(
                catalogue,
                bandwidth,
                delay_s,
                generator.fork("device"),
                requests,
            ),
            rung: at_most(&rungs, target).saturating_sub(usize::from(is_cautious)),
            voice: at_most(&audio, voice),
            rungs,
            audio,
            generator,
            is_both,
            transient_share: specification.network.transient_share,
            is_first: true,
        }
    }

    /// The person: periods of watching with skips and pauses between them.
    pub(super) fn run(mut self, arrival_s: f64) -> Vec<PhasedRequest> {
        let viewing = self.viewing;
        let start = viewing.start.sample(&mut self.generator);
        // A session starts at the last segment at the latest.
        let last_s = libm::fmax(self.duration_s - self.asker.catalogue.segment_s(), 0.0);
        let mut position = libm::fmin(start * self.duration_s, last_s);
        let is_glance = self.generator.unit() < viewing.glance_share;
        let mut left = if is_glance {
            viewing.glance_s.sample(&mut self.generator)
        } else {
            let stay = viewing.stay.sample(&mut self.generator);
            libm::fmax(stay * (self.duration_s - position), WATCH_MIN_S)
        };
        let unit = self.generator.unit();
        let mut early = (!is_glance && unit < viewing.pause_at_start)
            .then(|| 3.0 + 27.0 * self.generator.unit());
        let mut now = arrival_s;
        let mut head = self.segment_of(position);
        loop {
            let (event, length) = self.next_event(left, is_glance, early.take());
            let screen = PlaybackClock {
                start_s: now,
                position_s: position,
            };
            self.stretch(screen, &mut head, now + length);
            left -= length;
            now += length;
            position += length;
            match event {
                WatchEnd::End => break,
                WatchEnd::Skip => {
                    position += viewing.skip_s.sample(&mut self.generator);
                    position = position.clamp(0.0, last_s);
                    head = self.segment_of(position);
                }
                WatchEnd::Pause => {
                    now += viewing.pause_s.sample(&mut self.generator);
                    // Data in transit on a closed connection is lost; chunks are kept.
                    if self.device.form == RequestForm::Open {
                        head = self.segment_of(position);
                    }
                }
            }
            if left <= 0.0 || position >= last_s {
                break;
            }
            self.move_rung();
        }
        self.asker.requests
    }

    fn segment_of(&self, position_s: f64) -> u32 {
        libm::floor(position_s / self.asker.catalogue.segment_s()) as u32
    }

    /// The event that ends this period, and the time until then.
    fn next_event(&mut self, left: f64, is_glance: bool, early: Option<f64>) -> (WatchEnd, f64) {
        let skip = after(&mut self.generator, self.viewing.skips_per_hour);
        let pause = after(&mut self.generator, self.viewing.pauses_per_hour);
        let pause = libm::fmin(pause, early.unwrap_or(f64::INFINITY));
        if is_glance || left <= libm::fmin(skip, pause) {
            return (WatchEnd::End, left);
        }
        if skip < pause {
            (WatchEnd::Skip, skip)
        } else {
            (WatchEnd::Pause, pause)
        }
    }

    /// The device during a period of watching: adaptations with a stable phase between each two.
    fn stretch(&mut self, screen: PlaybackClock, head: &mut u32, until: f64) {
        self.listen(screen, *head, until);
        let mut now = screen.start_s;
        loop {
            now = self.try_rates(now, until, head);
            let change = now + after(&mut self.generator, self.viewing.changes_per_hour);
            let stop = libm::fmin(change, until);
            let manner = self.manner();
            let file = self.rungs[self.rung];
            if *head < self.segments && !(manner.form == RequestForm::Open && *head == 0) {
                now = self.asker.read_table(file, &manner, now, stop);
            }
            let run = SegmentRun {
                file,
                from: *head,
                to: self.segments,
                now,
                until: stop,
                screen: Some(screen),
            };
            *head = self.asker.read(run, &manner).head;
            if stop >= until || *head >= self.segments {
                return;
            }
            now = stop;
            self.move_rung();
        }
    }

    /// A transient phase: reads a little of several files.
    fn try_rates(&mut self, mut now: f64, until: f64, head: &mut u32) -> f64 {
        let device = self.device;
        let mean = if self.is_first {
            device.probes_first
        } else {
            device.probes_next
        };
        let low = if self.is_first {
            0
        } else {
            self.rung.saturating_sub(2)
        };
        let high = if self.is_first {
            self.rung
        } else {
            (self.rung + 1).min(self.rungs.len() - 1)
        };
        self.is_first = false;
        let count = poisson(&mut self.generator, mean);
        let segment_s = self.asker.catalogue.segment_s();
        let (mut before, mut earlier) = (usize::MAX, usize::MAX);
        for index in 0..count {
            // Upwards, with some steps back.
            let along = (index as f64 + self.generator.unit()) / count as f64;
            let mut rung = low + libm::floor(along * (high - low + 1) as f64) as usize;
            let is_last = index + 1 == count;
            if rung == before || (is_last && rung == self.rung) {
                let down = rung > low && (rung - 1 != before || rung == high);
                rung = if down { rung - 1 } else { (rung + 1).min(high) };
            }
            // Prefer a file that was just tried over a new one.
            if earlier != usize::MAX && self.generator.unit() < RETURN_SHARE {
                rung = earlier;
            }
            (earlier, before) = (before, rung);
            let more = libm::fmax(device.probe_s / segment_s - 1.0, 0.0);
            let wanted = 1 + libm::floor(self.generator.exponential(more) + 0.5) as u32;
            let manner = self.manner().trying(self.transient_share);
            let file = self.rungs[rung];
            if *head >= self.segments || now >= until {
                break;
            }
            if !(manner.form == RequestForm::Open && *head == 0) {
                now = self.asker.read_table(file, &manner, now, until);
            }
            let to = (*head + wanted).min(self.segments);
            let run = SegmentRun {
                file,
                from: *head,
                to,
                now,
                until,
                screen: None,
            };
            let read = self.asker.read(run, &manner);
            (*head, now) = (read.head, read.now);
        }
        now
    }

    /// Sound continues through adaptations.
    fn listen(&mut self, screen: PlaybackClock, content_head: u32, until: f64) {
        if !self.device.is_separate || self.audio.is_empty() {
            return;
        }
        let manner = ReadStyle::of(self.device, ContentKind::Audio);
        let segment_s = self.asker.catalogue.segment_s();
        // A device with open-ended sound does not keep it over a pause.
        let position = self.segment_of(screen.position_s);
        let mut head = if manner.form == RequestForm::Open {
            position
        } else {
            content_head
        };
        let mut now = screen.start_s;
        let step = (libm::round(self.device.audio_request_s / segment_s) as u32).max(1);
        for index in 0..poisson(&mut self.generator, self.device.audio_probes) {
            let other = (self.voice + 1 + index as usize) % self.audio.len();
            let file = self.audio[other];
            now = self.asker.read_table(file, &manner, now, until);
            let to = (head + step).min(self.segments);
            let run = SegmentRun {
                file,
                from: head,
                to,
                now,
                until,
                screen: None,
            };
            let read = self.asker.read(run, &manner);
            (head, now) = (read.head, read.now);
        }
        let file = self.audio[self.voice];
        if !(manner.form == RequestForm::Open && head == 0) {
            now = self.asker.read_table(file, &manner, now, until);
        }
        let run = SegmentRun {
            file,
            from: head,
            to: self.segments,
            now,
            until,
            screen: Some(screen),
        };
        self.asker.read(run, &manner);
    }

    /// How the next chain of content is requested.
    fn manner(&mut self) -> ReadStyle {
        let mut manner = ReadStyle::of(self.device, self.device.content());
        if self.is_both {
            let is_open = self.generator.unit() < 0.5;
            manner.form = if is_open {
                RequestForm::Open
            } else {
                RequestForm::Chunk
            };
        }
        manner
    }

    /// Selects the bit rate after a transient phase.
    fn move_rung(&mut self) {
        let unit = self.generator.unit();
        let rate = |rung: usize| self.asker.catalogue.files[self.rungs[rung] as usize].bytes_per_s;
        let (up, down) = (self.viewing.up_share, self.viewing.down_share);
        if unit < up {
            let next = self.rung + 1;
            if next < self.rungs.len() && rate(next) * SPARE <= self.asker.bandwidth {
                self.rung = next;
            }
        } else if unit < up + down {
            self.rung = self.rung.saturating_sub(1);
        }
    }
}

/// Time to the next of `per_hour` events, s; infinite if there are none.
fn after(generator: &mut Generator, per_hour: f64) -> f64 {
    // Always drawn, so that the rate of one kind of event does not affect the others.
    let unit = generator.exponential(3600.0);
    if per_hour > 0.0 {
        unit / per_hour
    } else {
        f64::INFINITY
    }
}

/// A Poisson distributed number with the given mean.
fn poisson(generator: &mut Generator, mean: f64) -> u32 {
    let (mut count, mut sum) = (0, generator.exponential(1.0));
    while sum < mean && count < 1000 {
        (count, sum) = (count + 1, sum + generator.exponential(1.0));
    }
    count
}
