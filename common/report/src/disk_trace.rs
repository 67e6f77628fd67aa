//! Traces of disk requests: comma-separated values with the column names in the first line; and the
//! charts of the papers with the same axes, so that results can be compared directly.

use std::io::{self, BufRead};

use headlong_stats::{Access, Cdf};

use crate::chart::{Axis, Bars, Chart, Series};

/// Bytes per sector: the unit of addresses in a trace, whatever the drive uses internally.
const SECTOR_BYTES: u64 = 512;
/// The required columns. `started_ns` and `ended_ns` can be missing.
const NEEDED: [&str; 3] = ["lba", "sectors", "direction"];

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskAccess {
    /// When the drive started the request, in nanoseconds; 0 if the trace does not contain it.
    pub started_ns: u64,
    /// When the drive finished it; `None` if the trace does not contain it.
    pub ended_ns: Option<u64>,
    /// Position, length and direction.
    pub access: Access,
}

impl DiskAccess {
    /// Its first sector of 512 bytes.
    pub fn lba(&self) -> u64 {
        self.access.start_bytes / SECTOR_BYTES
    }
}

/// An error in a trace. Line numbers count from 1.
#[derive(Debug, thiserror::Error)]
pub enum DiskTraceError {
    /// It cannot be read.
    #[error("the disk trace cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The first line does not contain a required column.
    #[error(
        "line 1: no column `{0}`; the first line must name the columns {needed}",
        needed = NEEDED.join(", ")
    )]
    NoColumn(&'static str),
    /// A line with a missing or invalid field.
    #[error(
        "line {line}: `{found}` is not valid as {column}; write an integer, or R or W as direction"
    )]
    Field {
        /// The line number.
        line: usize,
        /// The column name.
        column: &'static str,
        /// The text of the field.
        found: String,
    },
}

/// Reads a trace in the format of `headlong disk emulate`, in the order in which the drive executed
/// the requests: by `started_ns`, or in the order of the lines if there is no such column. Other
/// columns are ignored.
///
/// # Errors
/// If it cannot be read, or a line is invalid.
pub fn read_disk_trace(mut trace: impl BufRead) -> Result<Vec<DiskAccess>, DiskTraceError> {
    let mut line = String::new();
    trace
        .read_line(&mut line)
        .map_err(DiskTraceError::Unreadable)?;
    let heads: Vec<&str> = line.trim_end().split(',').collect();
    let place = |name: &str| heads.iter().position(|head| *head == name);
    let column = |name| place(name).ok_or(DiskTraceError::NoColumn(name));
    let [lba, sectors, direction] = NEEDED;
    let places = [column(lba)?, column(sectors)?, column(direction)?];
    let times = [place("started_ns"), place("ended_ns")];
    let mut accesses = Vec::new();
    for (index, line) in trace.lines().enumerate() {
        let line = line.map_err(DiskTraceError::Unreadable)?;
        if !line.is_empty() {
            accesses.push(read_line(&line, index + 2, places, times)?);
        }
    }
    accesses.sort_by_key(|access| access.started_ns);
    Ok(accesses)
}

fn read_line(
    line: &str,
    number: usize,
    [lba, sectors, direction]: [usize; 3],
    [started, ended]: [Option<usize>; 2],
) -> Result<DiskAccess, DiskTraceError> {
    let fields: Vec<&str> = line.split(',').collect();
    let wrong = |place: usize, column| DiskTraceError::Field {
        line: number,
        column,
        found: fields.get(place).unwrap_or(&"").to_string(),
    };
    let whole = |place: usize, column| {
        let field = fields
            .get(place)
            .and_then(|field| field.parse::<u64>().ok());
        field.ok_or_else(|| wrong(place, column))
    };
    let bytes = |place, column| {
        let sectors: u64 = whole(place, column)?;
        sectors
            .checked_mul(SECTOR_BYTES)
            .ok_or_else(|| wrong(place, column))
    };
    Ok(DiskAccess {
        started_ns: match started {
            Some(place) => whole(place, "started_ns")?,
            None => 0,
        },
        ended_ns: ended.map(|place| whole(place, "ended_ns")).transpose()?,
        access: Access {
            start_bytes: bytes(lba, "lba")?,
            length_bytes: bytes(sectors, "sectors")?,
            is_write: match fields.get(direction) {
                Some(&"R") => false,
                Some(&"W") => true,
                _ => return Err(wrong(direction, "direction")),
            },
        },
    })
}

const MS_PER_SECOND: f64 = 1e3;

/// The maximum failure-free rate of each configuration in MB/s, as measured and, if known, as
/// published.
pub fn maximum_rates(title: impl Into<String>) -> Bars {
    Bars::new(title, Axis::new("Maximum failure-free rate", "MB/s"))
        .series("measured here")
        .reference("published")
}

/// The address of each request, in the order in which the drive executed them (libception Figures 2
/// to 5). A few hundred requests best show the access pattern of a server.
pub fn lba_over_transactions(title: impl Into<String>, accesses: &[DiskAccess]) -> Chart {
    let point = |(index, access): (usize, &DiskAccess)| (index as f64, access.lba() as f64);
    let x = Axis::new("Transaction number", "").from(0.0);
    let y = Axis::new("Logical block address", "").from(0.0);
    let points = accesses.iter().enumerate().map(point);
    Chart::scatter(title, x, y).series(Series::new("requests", points))
}

/// Distributions of latencies given in seconds, shown in milliseconds. A logarithmic axis shows
/// both the tail and the bulk.
pub fn latency_cdf<'a>(
    title: impl Into<String>,
    what: impl Into<String>,
    latencies: impl IntoIterator<Item = (&'a str, &'a Cdf)>,
) -> Chart {
    let mut chart = Chart::steps(title, Axis::new("Latency", "ms").log(), what);
    for (name, cdf) in latencies {
        chart = chart.series(Series::of_cdf(name, cdf, MS_PER_SECOND));
    }
    chart
}

/// The divergence of random from sequential writes by request size (FlashStream Figure 3). Points:
/// MB, nats.
pub fn divergence_by_size(title: impl Into<String>, threshold: f64) -> Chart {
    let x = Axis::new("Request size", "MB").log2();
    let y = Axis::new("Divergence of random from sequential", "nats").from(0.0);
    Chart::lines(title, x, y).line_at_y(threshold, "threshold")
}

#[cfg(test)]
mod tests {
    use headlong_stats::Sequences;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_sorted_by_execution_order() {
        let trace = "arrived_ns,started_ns,lba,sectors,direction,failed\n\
                 1,20,8,8,R,0\n2,10,0,8,R,0\n3,30,100,4,W,0\n";
        let accesses = read_disk_trace(trace.as_bytes()).expect("a trace");
        assert_eq!(
            accesses.iter().map(DiskAccess::lba).collect::<Vec<_>>(),
            [0, 8, 100]
        );
        let sequences: Sequences = accesses.iter().map(|access| access.access).collect();
        assert_eq!((sequences.sequences(), sequences.bytes()), (2, 20 * 512));
        assert!(accesses[2].access.is_write);
        assert_eq!(accesses[2].ended_ns, None);
    }

    #[test]
    fn the_end_times_of_a_trace_are_used() {
        let trace = "started_ns,ended_ns,lba,sectors,direction\n10,17,0,8,R\n";
        let accesses = read_disk_trace(trace.as_bytes()).expect("a trace");
        assert_eq!(
            (accesses[0].started_ns, accesses[0].ended_ns),
            (10, Some(17))
        );
        let trace = "ended_ns,lba,sectors,direction\n?,0,8,R\n";
        let error = read_disk_trace(trace.as_bytes()).expect_err("wrong");
        assert!(
            error.to_string().contains("`?` is not valid as ended_ns"),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_line() {
        for (trace, words) in [
            ("", "no column `lba`"),
            ("lba,sectors\n", "no column `direction`"),
            (
                "lba,sectors,direction\n1,2,R\n1,x,R\n",
                "line 3: `x` is not valid as sectors",
            ),
            (
                "lba,sectors,direction\n1,2\n",
                "line 2: `` is not valid as direction",
            ),
            (
                "lba,sectors,direction\n18446744073709551615,2,R\n",
                "is not valid as lba",
            ),
        ] {
            let error = read_disk_trace(trace.as_bytes()).expect_err("wrong");
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_trace_causes_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_disk_trace(&bytes[..]);
            let trace = [b"lba,sectors,direction\n", &bytes[..]].concat();
            let _ = read_disk_trace(&trace[..]);
        }
    }
}
