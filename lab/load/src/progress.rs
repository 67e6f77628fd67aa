//! Progress of a run on standard error: a line that is rewritten in place on a terminal, else a line
//! at intervals.

use std::io::{IsTerminal as _, Write};
use std::time::Duration as WallDuration;

use headlong_units::Instant;

use crate::play::{LoadProgress, RunObserver};

/// Interval of lines on a terminal.
const TERMINAL_INTERVAL: WallDuration = WallDuration::from_millis(500);
/// Interval of lines elsewhere.
const LINE_INTERVAL: WallDuration = WallDuration::from_secs(10);

/// Writes the progress of a run.
#[derive(Debug)]
pub struct ProgressOutput<W> {
    out: W,
    is_terminal: bool,
    next: WallDuration,
    /// Whether a line has been written that the next one overwrites.
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

    fn line(&self, glance: &LoadProgress<'_>) -> String {
        let report = &glance.recording.report;
        let seconds = glance.now.since(self.last.0).as_secs_f64().max(1e-9);
        let bytes = glance.bytes.saturating_sub(self.last.1) as f64;
        let p99 = report.series.last().and_then(|last| last.first_byte_ms_p99);
        let late = glance.recording.schedule_error.quantile_ms(0.99);
        let ms = |ms: Option<f64>| ms.map_or("-".to_string(), |ms| format!("{ms:.2}"));
        format!(
            "{:.0} s of {:.0} s: {} of {} arrived, {} now, {} failed; delivered {:.2} MB/s; p99 {} \
             ms, schedule error {} ms\n",
            glance.now.0 as f64 / 1e9,
            glance.last_arrival.0 as f64 / 1e9,
            report.sessions.arrived,
            glance.sessions,
            glance.active,
            report.sessions.failed,
            bytes / seconds / 1e6,
            ms(p99),
            ms(late),
        )
    }
}

impl<W: Write> RunObserver for ProgressOutput<W> {
    fn look(&mut self, glance: &LoadProgress<'_>) {
        if glance.wall < self.next {
            return;
        }
        let interval = match self.is_terminal {
            true => TERMINAL_INTERVAL,
            false => LINE_INTERVAL,
        };
        self.next = glance.wall + interval;
        let line = self.line(glance);
        self.last = (glance.now, glance.bytes);
        // At the first call there are no figures yet.
        if !self.is_terminal && glance.wall < interval {
            return;
        }
        // Errors are ignored: the run does not depend on the output.
        if self.is_terminal && std::mem::replace(&mut self.written, true) {
            let _ = self.out.write_all(b"\x1b[F\x1b[J");
        }
        let _ = self.out.write_all(line.as_bytes());
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
        let line = "100 s of 1000 s: 11 of 50 arrived, 7 now, 0 failed; delivered 2.00 MB/s;";
        assert!(text.starts_with(line), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn rewrites_one_line_on_terminal() {
        let text = shown(true, &[1, 2, 3]);
        assert_eq!(text.matches("\x1b[F\x1b[J").count(), 2, "{text}");
        assert_eq!(text.lines().count(), 3);
    }
}
