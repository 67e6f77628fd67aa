//! Accuracy of the generator: a server that pauses for 1 s in every 10 s has a known distribution
//! of response times. Of evenly spaced requests one in ten waits, uniformly up to 1 s, so the 99th
//! percentile is 0.9 s. A generator that waits for a reply before its next request (coordinated
//! omission) would hardly measure the pauses.
//!
//!     cargo run --release -p headlong-load --example truth [SECONDS] [K] [REQUESTS PER SECOND]

#[path = "../tests/all/toy/mod.rs"]
mod toy;

use std::sync::atomic::AtomicBool;

use headlong_load::{LoadSettings, Target, TimeScale, play};
use headlong_player::{ObjectId, Script, ScriptCall, SessionPlan};
use headlong_units::{ByteRange, Duration};
use headlong_workload::{NetworkClass, Session, Trace};
use toy::{ServerStalls, ToyServer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = |place: usize| std::env::args().nth(place);
    let seconds: u64 = argument(1).map_or(Ok(60), |text| text.parse())?;
    let factor: f64 = argument(2).map_or(Ok(1.0), |text| text.parse())?;
    let rate: u64 = argument(3).map_or(Ok(1000), |text| text.parse())?;
    let scale = TimeScale::new(factor).ok_or("K is a number from 0.01 to 1000")?;

    let toy = ToyServer::start(ServerStalls {
        period: scale.wall(Duration::from_secs(10)),
        length: scale.wall(Duration::from_secs(1)),
    });
    let call = ScriptCall {
        object: ObjectId(0),
        range: Some(ByteRange::new(0, 1000)),
        expected_bytes: Some(1000),
        timeout: None,
        pace: None,
        think: None,
        with_previous: false,
    };
    let session = |index: u64| Session {
        arrival: Duration(index * 1_000_000_000 / rate),
        class: 0,
        plan: SessionPlan::Script(Script::new(vec![call.clone()])),
    };
    let trace = Trace {
        objects: vec!["ok/000001.bin".into()],
        classes: vec![NetworkClass::unlimited()],
        sessions: (0..seconds * rate).map(session).collect(),
        ..Trace::default()
    };
    let settings = LoadSettings {
        time_scale: scale,
        ..LoadSettings::default()
    };
    let target = Target::new(&toy.url())?;
    let stop = AtomicBool::new(false);
    let report = play(trace, &target, &settings, &stop, &mut ())?.report();
    print!("{report}");
    println!("requests received by the server: {}", toy.requests());
    let measured = report
        .figures
        .first_byte_ms
        .p99
        .ok_or("nothing was measured")?;
    let analytic = 900.0;
    println!(
        "p99 to the first byte: measured {measured:.2} ms, by arithmetic {analytic:.2} ms: {:+.2} %",
        (measured / analytic - 1.0) * 100.0
    );
    Ok(())
}
