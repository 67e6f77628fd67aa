//! Progress of a run on standard error: a block that is rewritten in place on a terminal, else a
//! line at intervals.

use std::io::{IsTerminal as _, Write};
use std::time::Duration as WallDuration;

use headlong_units::Instant;

use crate::play::{LoadProgress, RunObserver};

/// Interval of the block.
const BLOCK_INTERVAL: WallDuration = WallDuration::from_millis(500);
/// Interval of the lines.
const LINE_INTERVAL: WallDuration = WallDuration::from_secs(10);
/// Lines of the block.
const BLOCK_LINES: usize = 4;

/// Writes the progress of a run.
#[derive(Debug)]
pub struct ProgressOutput<W> {
    out: W,
    is_terminal: bool,
    next: WallDuration,
    /// Whether a block has been written that the next one overwrites.
    written: bool,
    /// Time and bytes at the last write.
    last: (Instant, u64),
}

impl ProgressOutput<std::io::Stderr> {
    /// For standard error, terminal or not.
    pub fn stderr() -> Self {
        let out = std::io::stderr();
        let is_terminal = out.is_terminal();
        Self::new(out, is_terminal)
    }
}

impl<W: Write> ProgressOutput<W> {
    /// For `out`, with terminal escapes if `is_terminal`.
    pub fn new(out: W, is_terminal: bool) -> Self {
        Self {
            out,
            is_terminal,
            next: WallDuration::ZERO,
            written: false,
            last: (Instant::ZERO, 0),
        }
    }

    fn block(&self, seen: &ProgressFigures) -> String {
        let mut text = String::new();
        if self.written {
            // Move to the block's first line and clear everything below.
            text.push_str(&format!("\x1b[{BLOCK_LINES}F\x1b[J"));
        }
        let ProgressFigures {
            now,
            end,
            arrived,
            sessions,
            active,
            mb_per_s,
            failed,
            p99,
            late,
            ..
        } = seen;
        text.push_str(&format!(
            "time      {now:>9.1} s of {end:.1} s\n\
             sessions  {active:>9} now, {arrived} of {sessions} arrived, {failed} failed\n\
             delivered {mb_per_s:>9.2} MB/s\n\
             p99       {p99:>9} ms to the first byte; schedule error {late} ms\n"
        ));
        text
    }
}

/// The displayed figures.
struct ProgressFigures {
    now: f64,
    end: f64,
    arrived: u64,
    sessions: u64,
    active: u64,
    mb_per_s: f64,
    failed: u64,
    p99: String,
    late: String,
}

impl ProgressFigures {
    fn of(glance: &LoadProgress<'_>, last: (Instant, u64)) -> Self {
        let recording = glance.recording;
        let seconds = glance.now.since(last.0).as_secs_f64().max(1e-9);
        let bytes = glance.bytes.saturating_sub(last.1) as f64;
        let series = recording.report.series.last();
        let p99 = series.and_then(|interval| interval.first_byte_ms_p99);
        let late = recording.schedule_error.quantile_ms(0.99);
        let show = |ms: Option<f64>| ms.map_or("-".to_string(), |ms| format!("{ms:.2}"));
        Self {
            now: glance.now.0 as f64 / 1e9,
            end: glance.last_arrival.0 as f64 / 1e9,
            arrived: recording.report.sessions.arrived,
            sessions: glance.sessions,
            active: glance.active,
            mb_per_s: bytes / seconds / 1e6,
            failed: recording.report.sessions.failed,
            p99: show(p99),
            late: show(late),
        }
    }

    fn line(&self) -> String {
        let Self {
            now,
            end,
            arrived,
            active,
            mb_per_s,
            failed,
            p99,
            late,
            ..
        } = self;
        format!(
            "{now:.0} s of {end:.0} s: {arrived} arrived, {active} now, {failed} failed; \
             delivered {mb_per_s:.2} MB/s; p99 {p99} ms, schedule error {late} ms\n"
        )
    }
}

impl<W: Write> RunObserver for ProgressOutput<W> {
    fn look(&mut self, glance: &LoadProgress<'_>) {
        if glance.wall < self.next {
            return;
        }
        let interval = match self.is_terminal {
            true => BLOCK_INTERVAL,
            false => LINE_INTERVAL,
        };
        self.next = glance.wall + interval;
        let seen = ProgressFigures::of(glance, self.last);
        self.last = (glance.now, glance.bytes);
        let text = match self.is_terminal {
            true => self.block(&seen),
            // At the first call there are no figures yet.
            false if glance.wall < interval => return,
            false => seen.line(),
        };
        self.written = true;
        // Errors are ignored: the run does not depend on the output.
        let _ = self.out.write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;
    use headlong_units::Duration;

    fn shown(is_terminal: bool, seconds: &[u64]) -> String {
        let second = Duration::from_secs(1);
        let mut recording = Recording::new(&[], Instant::ZERO, Instant::NEVER, second);
        let mut live = ProgressOutput::new(Vec::new(), is_terminal);
        for &wall in seconds {
            recording.report.sessions.arrived += 1;
            live.look(&LoadProgress {
                recording: &recording,
                now: Instant(wall * 10_000_000_000),
                wall: WallDuration::from_secs(wall),
                last_arrival: Instant(1_000_000_000_000),
                sessions: 50,
                active: 7,
                bytes: wall * 20_000_000,
            });
        }
        String::from_utf8(live.out).expect("text")
    }

    #[test]
    fn writes_line_every_ten_seconds_without_terminal() {
        let seconds: Vec<u64> = (0..35).collect();
        let text = shown(false, &seconds);
        assert_eq!(text.lines().count(), 3, "{text}");
        // 20 MB/s of wall time at ten times the speed.
        let line = "100 s of 1000 s: 11 arrived, 7 now, 0 failed; delivered 2.00 MB/s;";
        assert!(text.starts_with(line), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn rewrites_one_block_on_terminal() {
        let text = shown(true, &[1, 2, 3]);
        assert_eq!(text.matches("\x1b[4F\x1b[J").count(), 2, "{text}");
        assert_eq!(text.lines().count(), 3 * BLOCK_LINES);
    }
}
