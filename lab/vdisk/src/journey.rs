//! How long a request travels from who asks for it to the emulated drive, and its answer back.
//!
//! A real drive is behind a cable; this one is behind a loop device and FUSE, where several threads
//! wake one another. That takes some hundred microseconds, which at time scale k are k times as much
//! of model time, and a program that waits for each read would lose them each time. So they
//! are measured once, while the timing is off, with as little to carry as possible: what carrying the
//! content takes is learned elsewhere ([`crate::rehearsal`]).

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a read: a page, the least that direct I/O takes.
const PAGE: usize = 4096;
/// Reads that are measured.
const READS: usize = 32;
/// From one to the next, so that all who have to wake have gone to sleep, as between a drive's answers.
const PAUSE: Duration = Duration::from_millis(2);
/// On a machine that has other work it takes longer, but what is beyond this is not the journey.
const JOURNEY_MAX: Duration = Duration::from_micros(300);

/// What the journey there and back takes: the median of some reads. The timing must be off.
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
