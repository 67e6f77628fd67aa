//! Trace of every request that reached the drive: kept in memory, or written to a file by a
//! separate thread, so that no disk of this machine delays an answer.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use headlong_drive::{Direction, ServiceTimeBreakdown};
use headlong_units::Instant;

/// One request. Times are model time since the disk was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceRecord {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Read or write.
    pub direction: Direction,
    /// Time of arrival.
    pub arrived: Instant,
    /// When the drive started to work on it.
    pub started: Instant,
    /// When it should have been answered, according to the model.
    pub ended: Instant,
    /// When it was answered.
    pub answered: Instant,
    /// Breakdown of its time; zero with the timing off.
    pub parts: ServiceTimeBreakdown,
    /// Whether it followed the previous request without repositioning.
    pub is_sequential: bool,
    /// Requests outstanding on arrival, itself included.
    pub outstanding: usize,
    /// Whether it was answered with an error.
    pub is_failed: bool,
}

/// First line of a trace file: names of the columns, with their units.
pub const HEADER: &str = "arrived_ns,started_ns,ended_ns,answered_ns,lba,sectors,direction,\
                          outstanding,overhead_ns,seek_ns,rotation_ns,transfer_ns,cleaning_ns,\
                          sequential,failed";

impl TraceRecord {
    fn write(&self, file: &mut impl Write) -> io::Result<()> {
        let direction = match self.direction {
            Direction::Read => 'R',
            Direction::Write => 'W',
        };
        let parts = &self.parts;
        writeln!(
            file,
            "{},{},{},{},{},{},{direction},{},{},{},{},{},{},{},{}",
            self.arrived.0,
            self.started.0,
            self.ended.0,
            self.answered.0,
            self.offset / headlong_drive::SECTOR_BYTES,
            self.length / headlong_drive::SECTOR_BYTES,
            self.outstanding,
            parts.overhead.0,
            parts.seek.0,
            parts.rotation.0,
            parts.transfer.0,
            parts.cleaning.0,
            u8::from(self.is_sequential),
            u8::from(self.is_failed),
        )
    }
}

/// A trace being written to a file.
#[derive(Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    sender: Sender<TraceRecord>,
    writer: JoinHandle<io::Result<u64>>,
}

impl TraceFile {
    /// Starts a trace; an existing file is replaced.
    pub(crate) fn start(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        writeln!(file, "{HEADER}")?;
        let (sender, receiver) = channel();
        let writer = std::thread::Builder::new()
            .name("disk-trace".into())
            .spawn(move || write_all(&receiver, file))?;
        Ok(Self {
            path: path.to_owned(),
            sender,
            writer,
        })
    }

    /// The sender for copies of records.
    pub(crate) fn sender(&self) -> Sender<TraceRecord> {
        self.sender.clone()
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the trace once all other senders are dropped; returns the number of requests in the
    /// file.
    pub(crate) fn finish(self) -> io::Result<u64> {
        drop(self.sender);
        let written = self.writer.join();
        written.map_err(|_| io::Error::other("the trace thread failed"))?
    }
}

fn write_all(records: &Receiver<TraceRecord>, mut file: impl Write) -> io::Result<u64> {
    let mut count = 0;
    for record in records {
        record.write(&mut file)?;
        count += 1;
    }
    file.flush()?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use headlong_units::Duration;

    use super::*;

    #[test]
    fn trace_has_one_complete_line_per_request() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("trace.csv");
        let trace = TraceFile::start(&path).expect("a file");
        let record = TraceRecord {
            offset: 1 << 20,
            length: 4096,
            direction: Direction::Write,
            arrived: Instant(1),
            started: Instant(2),
            ended: Instant(33),
            answered: Instant(34),
            parts: ServiceTimeBreakdown {
                seek: Duration(30),
                transfer: Duration(1),
                ..ServiceTimeBreakdown::default()
            },
            is_sequential: false,
            outstanding: 3,
            is_failed: true,
        };
        trace.sender().send(record).expect("the writer lives");
        assert_eq!(trace.finish().expect("written"), 1);
        let text = std::fs::read_to_string(&path).expect("a file");
        let expected = "1,2,33,34,2048,8,W,3,0,30,0,1,0,0,1";
        assert_eq!(text, format!("{HEADER}\n{expected}\n"));
        let columns = |line: &str| line.split(',').count();
        assert_eq!(columns(HEADER), columns(expected));
    }
}
