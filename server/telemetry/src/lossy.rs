//! Lines to standard error that never block the caller.
//!
//! A log line may come from a device thread, and the reader of standard error may have stopped
//! reading. Lines therefore go to a writer thread through a bounded queue; lines that do not fit
//! are dropped, and their number is written when there is room again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use headlong_report::Priority;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Capacity of the queue.
const LINES_MAX: usize = 4096;
/// Time for the last lines when the server stops.
const FLUSH_TIME: Duration = Duration::from_secs(1);

/// Sending end; clones share the queue.
#[derive(Debug, Clone)]
pub(super) struct LossyQueue {
    lines: SyncSender<Vec<u8>>,
    counts: Arc<QueueCounters>,
    /// The journal receives the level of each line.
    is_journal: bool,
}

#[derive(Debug, Default)]
struct QueueCounters {
    /// Queued lines, and the one being written.
    waiting: AtomicU64,
    dropped: AtomicU64,
}

impl LossyQueue {
    /// Starts the thread that writes to `sink`. If there is no thread, all lines are dropped.
    pub(super) fn new(sink: impl Write + Send + 'static, is_journal: bool) -> Self {
        let (lines, receiver) = sync_channel(LINES_MAX);
        let counts = Arc::<QueueCounters>::default();
        let of_thread = Arc::clone(&counts);
        let thread = std::thread::Builder::new().name("daemon-log".to_owned());
        let _ = thread.spawn(move || write_all(&receiver, sink, &of_thread));
        Self {
            lines,
            counts,
            is_journal,
        }
    }

    /// Waits until queued lines are written, up to a limit.
    pub(super) fn flush(&self) {
        let until = Instant::now() + FLUSH_TIME;
        while self.counts.waiting.load(Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn write_all(lines: &Receiver<Vec<u8>>, mut sink: impl Write, counts: &QueueCounters) {
    for line in lines {
        let dropped = counts.dropped.swap(0, Relaxed);
        if dropped > 0 {
            let text =
                format!("WARN {dropped} lines of this log were dropped: it was not read in time\n");
            let _ = sink.write_all(text.as_bytes());
        }
        // A failed write of the log cannot be reported anywhere.
        let _ = sink.write_all(&line);
        counts.waiting.fetch_sub(1, Relaxed);
    }
}

/// A line under construction; it is queued on drop.
#[derive(Debug)]
pub(super) struct QueuedLine {
    text: Vec<u8>,
    log: LossyQueue,
}

impl Write for QueuedLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for QueuedLine {
    fn drop(&mut self) {
        let counts = &self.log.counts;
        counts.waiting.fetch_add(1, Relaxed);
        if self
            .log
            .lines
            .try_send(std::mem::take(&mut self.text))
            .is_err()
        {
            counts.waiting.fetch_sub(1, Relaxed);
            counts.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl MakeWriter<'_> for LossyQueue {
    type Writer = QueuedLine;

    fn make_writer(&self) -> QueuedLine {
        QueuedLine {
            text: Vec::new(),
            log: self.clone(),
        }
    }

    fn make_writer_for(&self, of: &Metadata<'_>) -> QueuedLine {
        let mut line = self.make_writer();
        if self.is_journal {
            line.text = mark(*of.level()).into_bytes();
        }
        line
    }
}

/// Prefix of a line: its priority for the journal, and its level.
fn mark(level: Level) -> String {
    let priority = match level {
        Level::ERROR => Priority::Error,
        Level::WARN => Priority::Warning,
        Level::INFO => Priority::Info,
        Level::DEBUG | Level::TRACE => Priority::Debug,
    };
    format!("{priority}{level} ")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn unread_log_drops_lines_and_reports_their_number() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let log = LossyQueue::new(writer, false);
        // Far more than the capacity of pipe and queue.
        let text = [b'x'; 1000];
        for _ in 0..2 * LINES_MAX {
            log.make_writer().write_all(&text).expect("never waits");
        }
        assert!(log.counts.dropped.load(Relaxed) > 0);
        let reading = std::thread::spawn(move || {
            let mut all = String::new();
            reader.read_to_string(&mut all).expect("text");
            all
        });
        log.make_writer().write_all(b"last\n").expect("never waits");
        while log.counts.waiting.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
        drop(log);
        let all = reading.join().expect("read");
        assert!(
            all.contains("lines of this log were dropped"),
            "{}",
            all.len()
        );
    }

    #[test]
    fn journal_lines_have_priorities() {
        assert_eq!(mark(Level::ERROR), "<3>ERROR ");
        assert_eq!(mark(Level::WARN), "<4>WARN ");
        assert_eq!(mark(Level::INFO), "<6>INFO ");
        assert_eq!(mark(Level::TRACE), "<7>TRACE ");
    }
}
