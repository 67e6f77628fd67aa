//! Benchmark: lines per second and core when reading logs, for each format.
//!
//! ```text
//! cargo run --release -p headlong-trace --example intake_speed -- [LINES] [THREADS] [FOLDER] [FORMAT]
//! ```
//! Measures CPU time, as one core would need alone, and prints wall time beside it. Generates logs
//! of that many lines (2,000,000 by default) in a temporary folder, reads each and passes over its
//! partitions once. Both are counted: the result covers everything from a file to requests by
//! session, including further passes that a format needs (for `combined`, viewers are split into
//! sessions and file sizes are estimated). `parsed` is `combined` with replies of status 206
//! without a range: every line is parsed and then dropped, which isolates parsing.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use headlong_trace::{Intake, RequestRow, SilentProgress, TableWriter, take_in};

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
                     Chrome/120.0.0.0 Safari/537.36";

/// One request, independent of the format.
struct RequestLine {
    second: u64,
    service_ms: u64,
    session: u64,
    file: u64,
    offset: u64,
    bytes: u64,
}

fn line(number: u64, lines: u64) -> RequestLine {
    // splitmix64 (Steele, Lea, Flood 2014).
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    let session = (z >> 12) % (lines / 500 + 10);
    RequestLine {
        second: number * 86_400 / lines.max(1),
        service_ms: z % 3000,
        session,
        // A viewer stays with a title, which has several renditions.
        file: session / 7 * 5 + (z >> 32) % 5,
        offset: (z >> 20) % 3_000_000_000,
        bytes: 1 + (z >> 40) % 2_000_000,
    }
}

fn csv(line: &RequestLine, text: &mut String) -> std::fmt::Result {
    let RequestLine {
        second,
        service_ms,
        session,
        file,
        offset,
        bytes,
    } = line;
    let ts = 1_388_534_400 + second;
    writeln!(
        text,
        "{ts},{service_ms},{session},3,{file},{offset},{bytes},{bytes},7"
    )
}

fn combined(line: &RequestLine, text: &mut String) -> std::fmt::Result {
    let RequestLine {
        second,
        session,
        file,
        bytes,
        ..
    } = line;
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    let (a, b) = (session / 250 % 250, session % 250);
    writeln!(
        text,
        "10.{}.{a}.{b} - - [17/May/2015:{h:02}:{m:02}:{s:02} +0000] \
         \"GET /films/{}/{file}.mp4 HTTP/1.1\" 200 {bytes} \"https://example.org/watch\" \
         \"{AGENT}\"",
        session / 62_500,
        file / 5
    )
}

/// The same, without the range of the file.
fn parsed(line: &RequestLine, text: &mut String) -> std::fmt::Result {
    let start = text.len();
    combined(line, text)?;
    let line = text.split_off(start);
    text.push_str(&line.replacen("\" 200 ", "\" 206 ", 1));
    Ok(())
}

fn json(line: &RequestLine, text: &mut String) -> std::fmt::Result {
    let RequestLine {
        second,
        service_ms,
        session,
        file,
        offset,
        bytes,
    } = line;
    let start = 1_388_534_400_000 + second * 1000;
    writeln!(
        text,
        "{{\"start_unix_ms\":{start},\"service_seconds\":{}.{:03},\"first_byte_seconds\":0.0125,\
         \"remote\":\"192.0.2.7:40000\",\"method\":\"GET\",\"target\":\"/films/{file}.mp4\",\
         \"version\":\"HTTP/1.1\",\"range\":\"bytes={offset}-\",\"status\":206,\
         \"bytes_sent\":{bytes},\"bytes_from_ram\":600,\"bytes_from_disk\":400,\
         \"session\":\"6e2fb550-{session}\",\"session_from\":\"cmcd\",\"device\":\"sda\",\
         \"user_agent\":\"{AGENT}\",\"queue_seconds\":0.003,\"disk_seconds\":0.0081}}",
        service_ms / 1000,
        service_ms % 1000
    )
}

type LineWriter = fn(&RequestLine, &mut String) -> std::fmt::Result;

fn generate(
    path: &Path,
    header: &str,
    write: LineWriter,
    lines: u64,
) -> Result<(), std::io::Error> {
    let mut file = std::fs::File::create(path)?;
    let mut text = header.to_owned();
    for number in 0..lines {
        write(&line(number, lines), &mut text).map_err(std::io::Error::other)?;
        if text.len() > 1 << 20 {
            file.write_all(text.as_bytes())?;
            text.clear();
        }
    }
    file.write_all(text.as_bytes())
}

fn measure(name: &str, path: PathBuf, threads: usize) -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::metadata(&path)?.len();
    let intake = Intake {
        logs: vec![path],
        threads,
        ..Intake::default()
    };
    let (start, start_cpu) = (Instant::now(), cpu_seconds()?);
    let taken = take_in(&intake, &SilentProgress)?;
    let read = cpu_seconds()? - start_cpu;
    let counts = taken
        .parts
        .each_unsorted(threads, |_, requests| requests.len() as u64)?;
    let all = cpu_seconds()? - start_cpu;
    assert_eq!(counts.iter().sum::<u64>(), taken.requests);
    let lines = (taken.requests + taken.dropped.count()) as f64;
    println!(
        "{name:>9}: {:>6.2} M lines/s and core reading ({:.0} MB/s), {:.2} M with one pass over \
         the partitions; {} requests, {} sessions, {:.1} s wall time, {} MiB spilled",
        lines / read / 1e6,
        bytes as f64 / read / 1e6,
        lines / all / 1e6,
        taken.requests,
        taken.sessions,
        start.elapsed().as_secs_f64(),
        taken.parts.spilled_bytes() >> 20,
    );
    Ok(())
}

/// CPU time of this program, s.
fn cpu_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_ascii_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|text| text.parse::<f64>().ok()).sum();
    // A tick is 10 ms on current Linux.
    Ok(ticks / 100.0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let lines: u64 = args.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let threads: usize = args.next().map_or(Ok(1), |text| text.parse())?;
    let folder = match args.next() {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let header = "ts,service_ms,session,device,file,offset,size,bytes,disk\n";
    let formats: [(&str, &str, LineWriter); 4] = [
        ("csv", header, csv),
        ("combined", "", combined),
        ("parsed", "", parsed),
        ("headlong", "", json),
    ];
    let only = args.next();
    for (name, header, write) in formats {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let path = folder.path().join(name);
        generate(&path, header, write, lines)?;
        measure(name, path.clone(), threads)?;
        if name == "csv" {
            let table = folder.path().join("parquet");
            to_parquet(&path, &table)?;
            measure("parquet", table.clone(), threads)?;
            std::fs::remove_file(table)?;
        }
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn to_parquet(log: &Path, table: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let intake = Intake {
        logs: vec![log.to_owned()],
        ..Intake::default()
    };
    let names = take_in(&intake, &SilentProgress)?;
    let writer = std::sync::Mutex::new(TableWriter::create(table)?);
    let outcomes = names.parts.each_unsorted(1, |_, requests| {
        let mut writer = writer
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        requests.iter().try_for_each(|request| {
            writer.push(&RequestRow {
                names: &names,
                request: *request,
            })
        })
    })?;
    outcomes.into_iter().collect::<Result<Vec<()>, _>>()?;
    writer
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .finish()?;
    Ok(())
}
