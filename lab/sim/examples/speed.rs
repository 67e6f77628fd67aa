//! Speed of virtual time on one core, with the server's own engine and a drive model.
//!
//!     cargo run --release -p headlong-sim --example speed -- [seconds of model time]
//!
//! "Requests per second" can mean three things, so three counts are printed: calls of players that
//! were answered; engine operations (requests, pieces handed to sockets and returned, reads issued
//! and completed); and all events (those, arrivals, player timers, deliveries to viewers, the
//! drive's own requests). Generating the viewers and the catalogue is part of the measured time.
//! Reports the fastest of three runs.

mod timing;

fn main() {
    let seconds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(3600);
    for (name, rate) in [("youtube-sd", 60.0), ("youtube-hd", 75.0)] {
        let experiment = timing::experiment(name, "10s", seconds);
        let (took, seen) = timing::fastest(|| experiment.observe(rate, 1).expect("a world"));
        let pieces = seen.stats.bytes_sent / experiment.setup.engine.piece_bytes;
        let operations =
            seen.stats.requests + 2 * pieces + seen.stats.reads + seen.stats.reads_done;
        let all = seen.events + seen.drive.requests + seen.stats.reads;
        let millions = |count: u64| count as f64 / took / 1e6;
        println!(
            "{name} at {rate} MiB/s, {seconds} s of model time in {took:.2} s ({:.0} times): \
             {:.3} M calls/s, {:.2} M engine operations/s, {:.2} M events/s; {} calls failed; at \
             most {} live objects",
            seconds as f64 / took,
            millions(seen.calls.ended),
            millions(operations),
            millions(all),
            seen.calls.failures(),
            seen.live_max,
        );
    }
}
