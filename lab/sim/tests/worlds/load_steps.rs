//! Steps in the load at 80 % of the server's capacity cause no failure.
//!
//! One world: HD viewers; half of them leave at once; twice as many arrive within a minute; then
//! only SD viewers arrive, as the others leave. At this memory and drive the highest rates without
//! a failure are 97 MiB/s (HD) and 76 MiB/s (SD), as `headlong simulate --set server.prefetch=auto`
//! finds them.

use headlong_engine::{Control, EngineConfig};
use headlong_player::{ObjectId, SessionPlan};
use headlong_sim::{RunFigures, World, WorldSetup, files_of};
use headlong_units::{Duration, MIB};
use headlong_workload::specification::{ArrivalRate, TraceExtent};
use headlong_workload::{Session, Specification, Trace, generate};

use crate::window;

/// Times when half of the viewers leave, return, when the mix changes, and of the end; seconds.
const HALF_LEAVE: u64 = 360;
const TWICE_COME: u64 = 540;
const FLIP: u64 = 720;
const END: u64 = 1_080;
/// Duration of the return, seconds.
const COME_WITHIN: u64 = 60;
/// The returning viewers are those that would be present: the mean stay, 162 s (thesis 4.4.2).
const STAY: u64 = 160;

fn is_hd(trace: &Trace, session: &Session) -> bool {
    let object = |ObjectId(index): ObjectId| trace.objects[index as usize].as_str();
    session
        .calls()
        .first()
        .is_some_and(|call| object(call.object).contains("hd"))
}

/// Truncates a session to its calls within `seconds`: three at once, then one every ten.
fn leave_after(session: &mut Session, seconds: u64) {
    if let SessionPlan::Script(script) = &mut session.plan {
        script.calls.truncate(3 + (seconds / 10) as usize);
    }
}

/// Applies the steps: keeps 80 % of the sustainable viewers of each kind in each phase.
fn steps(trace: &Trace) -> Trace {
    let mut kept = Vec::new();
    let (mut hd_count, mut sd_count, at) = (0_u64, 0_u64, Duration::from_secs);
    for session in &trace.sessions {
        let mut session = session.clone();
        let second = session.arrival.0 / 1_000_000_000;
        if !is_hd(trace, &session) {
            // HD viewers stay a while; SD viewers replace them.
            sd_count += 1;
            if second >= FLIP && sd_count * 7 % 12 <= (second - FLIP) * 12 / STAY {
                kept.push(session);
            }
            continue;
        }
        if second >= FLIP {
            continue;
        }
        hd_count += 1;
        let is_leaver = hd_count.is_multiple_of(2);
        if is_leaver && second < HALF_LEAVE {
            leave_after(&mut session, HALF_LEAVE - second);
        } else if is_leaver && second < TWICE_COME {
            let Some(late) = second.checked_sub(TWICE_COME - STAY) else {
                continue;
            };
            session.arrival = at(TWICE_COME) + Duration(at(late).0 * COME_WITHIN / STAY);
        }
        kept.push(session);
    }
    kept.sort_by_key(|session| session.arrival);
    Trace {
        sessions: kept,
        ..trace.clone()
    }
}

fn run(seed: u64) -> RunFigures {
    // SD sessions have a fifth of the bytes of HD ones: 61 and 78 MiB/s.
    let set = [("title.sd.weight", "39"), ("title.hd.weight", "10")];
    let set = set.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut specification =
        Specification::preset("youtube-hd", &set).expect("a preset with its own keys");
    specification.sessions.rate = ArrivalRate::Bytes(139.0 * MIB as f64);
    specification.sessions.extent = TraceExtent::Time(Duration::from_secs(END));
    let workload = generate(&specification, seed);
    let files = files_of(&workload.catalogue, &workload.trace, 1);
    let trace = steps(&workload.trace);
    let mut engine = EngineConfig {
        // Larger pieces only make the test faster.
        piece_bytes: MIB / 2,
        memory_bytes: 3_584 * MIB,
        ..EngineConfig::default()
    };
    engine.control.mode = Control::Auto;
    engine.control.start_bytes = Some(2 * MIB);
    let setup = WorldSetup {
        engine,
        window: window(60, END),
        ..WorldSetup::default()
    };
    let drive = headlong_drive::preset("wd-red-wd10efrx").expect("a preset");
    let world = World::new(setup, &files, &trace, drive.build()).expect("a world");
    RunFigures::new(0.0, seed, &world.run())
}

#[test]
fn changes_of_load_and_mix_cause_no_failure() {
    let record = run(1);
    let sample = |second: u64| {
        let mut series = record.series.iter();
        let found = series.find(|sample| sample.second >= second as f64);
        found.expect("the run lasts longer")
    };
    let viewers = |second| sample(second).viewers;
    let (all, half) = (viewers(HALF_LEAVE - 10), viewers(TWICE_COME - 10));
    assert!(half * 3 < all * 2, "half of {all} left, {half} remain");
    assert!(viewers(END - 10) > 2 * all, "there are many SD viewers");
    assert_eq!(record.failures, 0, "{}", record.line());
    // The prefetch size started far too small for 80 % of HD viewers, and grew in time.
    let size = |second| sample(second).prefetch_mib;
    assert_eq!(size(5), 2.0);
    assert!(size(HALF_LEAVE - 10) > 4.0, "{} MiB", size(HALF_LEAVE - 10));
    // Settled: in the last two minutes it stays within a factor of one and a half.
    let last = record.series.iter().rev().take(24);
    let (least, most) = last.fold((f64::MAX, 0.0_f64), |(least, most), sample| {
        (
            least.min(sample.prefetch_mib),
            most.max(sample.prefetch_mib),
        )
    });
    assert!(most < 1.5 * least, "{least} to {most} MiB at the end");
}
