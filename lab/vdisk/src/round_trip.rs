//! Round-trip time of a request between a client and the emulated drive.
//!
//! A real drive is behind a cable; this one is behind a loop device and FUSE, where several threads
//! wake each other. That takes some hundred microseconds, multiplied by the time scale in model
//! time, and a client that waits for each read would lose them on each read. So the time is
//! measured once, while the timing is off, with as little data as possible: the cost of
//! transferring the content is estimated separately ([`crate::answer_time`]).

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a read: a page, the minimum of direct I/O.
const PAGE: usize = 4096;
/// Number of measured reads.
const READS: usize = 32;
/// Pause between reads, so that all threads go to sleep, as between a drive's answers.
const PAUSE: Duration = Duration::from_millis(2);
/// Upper limit: longer times on a busy machine are not the round trip.
const JOURNEY_MAX: Duration = Duration::from_micros(300);

/// The median round-trip time of some reads. The timing must be off.
///
/// # Errors
/// If the device cannot be read.
pub(crate) fn measured(device: &Path) -> io::Result<Duration> {
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let device = File::options()
        .read(true)
        .custom_flags(direct)
        .open(device)?;
    let mut buffer = vec![0; 2 * PAGE];
    let skip = buffer.as_ptr().align_offset(PAGE);
    let page = &mut buffer[skip..skip + PAGE];
    let mut took = Vec::with_capacity(READS);
    for _ in 0..READS {
        std::thread::sleep(PAUSE);
        let begun = Instant::now();
        device.read_exact_at(page, 0)?;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    Ok(took[READS / 2].min(JOURNEY_MAX))
}
