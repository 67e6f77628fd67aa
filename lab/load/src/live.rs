//! How a run is going, for whoever waits for it: a block that is written over on a terminal, a line
//! now and then elsewhere.

use std::io::{IsTerminal as _, Write};
use std::time::Duration as WallDuration;

use headlong_units::Instant;

use crate::play::{Glance, Watch};

/// How often the block is written.
const BLOCK_INTERVAL: WallDuration = WallDuration::from_millis(500);
/// How often a line is.
const LINE_INTERVAL: WallDuration = WallDuration::from_secs(10);
/// Lines of the block.
const BLOCK_LINES: usize = 4;

/// Says on standard error how a run is going.
#[derive(Debug)]
pub struct Live<W> {
    out: W,
    is_terminal: bool,
    next: WallDuration,
    /// Whether a block is there to be written over.
    written: bool,
    /// What was seen when it was written last: time, bytes.
    last: (Instant, u64),
}

impl Live<std::io::Stderr> {
    /// For standard error, whatever that is.
    pub fn stderr() -> Self {
        let out = std::io::stderr();
        let is_terminal = out.is_terminal();
        Self::new(out, is_terminal)
    }
}

impl<W: Write> Live<W> {
    /// For `out`, which understands the escapes of a terminal or does not.
    pub fn new(out: W, is_terminal: bool) -> Self {
        Self {
            out,
            is_terminal,
            next: WallDuration::ZERO,
            written: false,
            last: (Instant::ZERO, 0),
        }
    }

    fn block(&self, seen: &Seen) -> String {
        let mut text = String::new();
        if self.written {
            // Up to the block's first line, and nothing below it.
            text.push_str(&format!("\x1b[{BLOCK_LINES}F\x1b[J"));
        }
        let Seen {
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

/// The figures that are shown.
struct Seen {
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

impl Seen {
    fn of(glance: &Glance<'_>, last: (Instant, u64)) -> Self {
        let recording = glance.recording;
        let seconds = glance.now.since(last.0).as_secs_f64().max(1e-9);
        let bytes = glance.bytes.saturating_sub(last.1) as f64;
        let series = recording.series.last();
        let p99 = series.and_then(|interval| interval.first_byte.quantile_ms(0.99));
        let late = recording.schedule_error.quantile_ms(0.99);
        let show = |ms: Option<f64>| ms.map_or("-".to_string(), |ms| format!("{ms:.2}"));
        Self {
            now: glance.now.0 as f64 / 1e9,
            end: glance.last_arrival.0 as f64 / 1e9,
            arrived: recording.arrived,
            sessions: glance.sessions,
            active: glance.active,
            mb_per_s: bytes / seconds / 1e6,
            failed: recording.failed,
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

impl<W: Write> Watch for Live<W> {
    fn look(&mut self, glance: &Glance<'_>) {
        if glance.wall < self.next {
            return;
        }
        let interval = match self.is_terminal {
            true => BLOCK_INTERVAL,
            false => LINE_INTERVAL,
        };
        self.next = glance.wall + interval;
        let seen = Seen::of(glance, self.last);
        self.last = (glance.now, glance.bytes);
        let text = match self.is_terminal {
            true => self.block(&seen),
            // The first look is at nothing.
            false if glance.wall < interval => return,
            false => seen.line(),
        };
        self.written = true;
        // Nobody may be looking any more; the run does not depend on it.
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
        let mut live = Live::new(Vec::new(), is_terminal);
        for &wall in seconds {
            recording.arrived += 1;
            live.look(&Glance {
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
    fn without_a_terminal_there_is_a_line_every_ten_seconds() {
        let seconds: Vec<u64> = (0..35).collect();
        let text = shown(false, &seconds);
        assert_eq!(text.lines().count(), 3, "{text}");
        // 20 MB/s on the wall at ten times the speed.
        let line = "100 s of 1000 s: 11 arrived, 7 now, 0 failed; delivered 2.00 MB/s;";
        assert!(text.starts_with(line), "{text}");
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn on_a_terminal_one_block_is_written_over() {
        let text = shown(true, &[1, 2, 3]);
        assert_eq!(text.matches("\x1b[4F\x1b[J").count(), 2, "{text}");
        assert_eq!(text.lines().count(), 3 * BLOCK_LINES);
    }
}
