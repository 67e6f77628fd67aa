//! Precision of the generator with a crowd: ten thousand concurrent paced viewers on throttled
//! lines, and how late their requests were sent.
//!
//!     cargo run --release -p headlong-load --example crowd [VIEWERS] [BYTES] [SECONDS] [K]
//!
//! Each viewer requests BYTES (default 64 KiB) every ten seconds, at 3.5 Mbit/s with a delay of 50
//! ms. The server is a separate process, because both together need more descriptors than one may
//! have.

#[path = "../tests/all/toy/mod.rs"]
mod toy;

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use headlong_load::{LoadSettings, ProgressOutput, Target, TimeScale, play};
use headlong_player::{ObjectId, Script, ScriptCall, SessionPlan};
use headlong_units::{BitRate, ByteRange, Duration};
use headlong_workload::{NetworkClass, Session, Trace};
use toy::{ServerStalls, TITLE_BYTES, ToyServer};

const SERVE: &str = "--serve";
const PACE: u64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |place: usize| std::env::args().nth(place);
    if argument(1).as_deref() == Some(SERVE) {
        return serve();
    }
    let viewers: u64 = argument(1).map_or(Ok(10_000), |text| text.parse())?;
    let bytes: u64 = argument(2).map_or(Ok(64 << 10), |text| text.parse())?;
    let seconds: u64 = argument(3).map_or(Ok(60), |text| text.parse())?;
    let factor: f64 = argument(4).map_or(Ok(1.0), |text| text.parse())?;
    let (server, url) = ServerProcess::start()?;
    let settings = LoadSettings {
        time_scale: TimeScale::new(factor).ok_or("K is a number from 0.01 to 1000")?,
        ..LoadSettings::default()
    };
    let stop = AtomicBool::new(false);
    let target = Target::new(&url)?;
    let trace = crowd(viewers, bytes, seconds);
    let recording = play(
        trace,
        &target,
        &settings,
        &stop,
        &mut ProgressOutput::stderr(),
    )?;
    drop(server);
    print!("{}", recording.report());
    let memory = std::fs::read_to_string("/proc/self/status")?;
    for line in memory.lines().filter(|line| line.starts_with("VmHWM")) {
        println!(
            "memory at most: {}",
            line.trim_start_matches("VmHWM:").trim()
        );
    }
    Ok(())
}

/// Viewers that arrive evenly within ten seconds, and stay.
fn crowd(viewers: u64, bytes: u64, seconds: u64) -> Trace {
    let call = |place: u64, pace: Option<Duration>| {
        let start = place * bytes % (TITLE_BYTES - bytes.min(TITLE_BYTES - 1));
        ScriptCall {
            object: ObjectId(0),
            range: Some(ByteRange::new(start, start + bytes)),
            expected_bytes: Some(bytes),
            timeout: Some(Duration::from_secs(PACE)),
            pace,
            think: None,
            with_previous: false,
        }
    };
    let paced = |place| call(place, Some(Duration::from_secs(PACE)));
    let mut calls = vec![call(0, None)];
    calls.extend((1..seconds / PACE).map(paced));
    let session = |index: u64| Session {
        arrival: Duration(index * PACE * 1_000_000_000 / viewers.max(1)),
        class: 0,
        plan: SessionPlan::Script(Script::new(calls.clone())),
    };
    let class = NetworkClass {
        bandwidth: Some(BitRate::from_kbps(3500)),
        delay: Duration::from_millis(50),
        ..NetworkClass::unlimited()
    };
    Trace {
        objects: vec!["ok/000001.bin".into()],
        classes: vec![class],
        sessions: (0..viewers).map(session).collect(),
        ..Trace::default()
    }
}

/// Serves until standard input is closed, which happens when the other process ends.
fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, most)?;
    let toy = ToyServer::start(ServerStalls::default());
    println!("{}", toy.url());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    eprintln!("requests received by the server: {}", toy.requests());
    Ok(())
}

/// The server's process; it ends when dropped.
struct ServerProcess(Child);

impl ServerProcess {
    fn start() -> Result<(Self, String), Box<dyn std::error::Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut server = Self(command.spawn()?);
        let out = server.0.stdout.take().ok_or("the server has no output")?;
        let mut url = String::new();
        BufReader::new(out).read_line(&mut url)?;
        Ok((server, url.trim().into()))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
