//! Benchmark: rate at which requests in memory are joined to chains.
//!
//! ```text
//! cargo run --release -p headlong-chains --example chains_speed -- [MILLIONS] [ROUNDS]
//! cargo run --release -p headlong-chains --example chains_speed -- MILLIONS csv > LOG.csv
//! ```
//!
//! Generates that many millions of requests of viewers that try several files, settle on one, pause
//! and skip, ordered by completion as in a log. Joins them all at once and by partition, where a
//! partition holds whole sessions, as in the log reader. With `csv` the requests are written as a
//! plain request log, as input for other programs.

use std::io::Write as _;
use std::time::Instant;

use headlong_chains::{Chain, ChainRules, Joiner, Request};

/// Mean number of requests of a session in thesis Table 5.1: 65.0 M in 126,064.
const SESSION_REQUESTS: u64 = 515;
const PARTS: u32 = 256;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let millions: f64 = arguments
        .next()
        .map_or(2.0, |text| text.parse().expect("MILLIONS"));
    let what = arguments.next().unwrap_or_else(|| "5".into());
    let requests = requests((millions * 1e6) as u64);
    if what == "csv" {
        write(&requests).expect("write to standard output");
        return;
    }
    let rounds: u32 = what.parse().expect("ROUNDS");
    println!(
        "{} requests of {} bytes each",
        requests.len(),
        size_of::<Request>()
    );
    let mut parts = vec![Vec::new(); PARTS as usize];
    for request in &requests {
        parts[(request.session % PARTS) as usize].push(*request);
    }
    for part in &mut parts {
        part.sort_by_key(|request| (request.session, request.line));
    }
    for _ in 0..rounds {
        let mut joiner = Joiner::new(ChainRules::default());
        let mut out = Vec::new();
        print_speed("in one call", requests.len(), || {
            joiner.join(&requests, &mut out);
            out.len()
        });
        print_speed("by partition", requests.len(), || {
            parts
                .iter()
                .map(|part| join(&mut joiner, part, &mut out))
                .sum()
        });
        let mut chain_of = Vec::new();
        print_speed(
            "by partition, with chain of each request",
            requests.len(),
            || {
                let mut chains = 0;
                for part in &parts {
                    joiner.join_with_places(part, &mut out, &mut chain_of);
                    chains += out.len();
                }
                chains
            },
        );
    }
}

fn join(joiner: &mut Joiner, part: &[Request], out: &mut Vec<Chain>) -> usize {
    joiner.join(part, out);
    out.len()
}

fn print_speed(how: &str, requests: usize, work: impl FnOnce() -> usize) {
    let start = Instant::now();
    let chains = work();
    let seconds = start.elapsed().as_secs_f64();
    let rate = requests as f64 / seconds / 1e6;
    let million = seconds / (requests as f64 / 1e6);
    println!("{how}: {chains} chains, {million:.4} s per million, {rate:.1} M requests/s");
}

fn write(requests: &[Request]) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    writeln!(
        out,
        "ts,service_ms,session,device,file,offset,size,bytes,disk"
    )?;
    for request in requests {
        let size = request
            .asked_bytes
            .map_or_else(String::new, |bytes| bytes.to_string());
        writeln!(
            out,
            "{},{},{},{},{},{},{size},{},{}",
            request.completed_ms / 1000,
            request.completed_ms - request.received_ms,
            request.session,
            request.device,
            request.file,
            request.offset,
            request.sent_bytes,
            request.disk,
        )?;
    }
    out.flush()
}

/// SplitMix64 (Steele, Lea and Flood, 2014): random enough for a benchmark.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn requests(count: u64) -> Vec<Request> {
    let mut chance = SplitMix64(1);
    let mut all = Vec::new();
    let mut session = 0;
    while (all.len() as u64) < count {
        view(session, &mut chance, &mut all);
        session += 1;
    }
    all.truncate(count as usize);
    all.sort_by_key(|request| request.completed_ms / 1000);
    for (request, line) in all.iter_mut().zip(1..) {
        request.line = line;
    }
    all
}

/// One session: tries up to six files, settles on one, and repeats.
fn view(session: u32, chance: &mut SplitMix64, all: &mut Vec<Request>) {
    let title = chance.below(5_000) as u32 * 10;
    let mut now_ms = chance.below(86_400_000) as i64;
    let mut left = 1 + chance.below(2 * SESSION_REQUESTS) as i64;
    let mut position = chance.below(2_000) * 300_000 + 40_000;
    while left > 0 {
        let tried = 1 + chance.below(6);
        for file in 0..tried {
            let mut put = |offset, bytes, service_ms| {
                all.push(request(
                    session,
                    title + file as u32,
                    now_ms,
                    service_ms,
                    offset,
                    bytes,
                ));
            };
            put(0, 16_000, 80);
            for chunk in 0..3 {
                put(
                    position + chunk * 300_000,
                    300_000,
                    400 + chunk as i64 * 300,
                );
            }
            now_ms += 700;
            left -= 4;
        }
        let file = title + chance.below(tried) as u32;
        for chunk in 0..chance.below(250) {
            let service_ms = 200 + chance.below(3_000) as i64;
            all.push(request(
                session, file, now_ms, service_ms, position, 300_000,
            ));
            // Two parallel connections, paced after a minute.
            now_ms += if chunk < 60 { 900 } else { 4_000 } * (chunk % 2) as i64;
            position += 300_000;
            left -= 1;
        }
        position = position.saturating_sub(chance.below(3) * 3_000_000);
        now_ms += chance.below(120_000) as i64;
    }
}

fn request(
    session: u32,
    file: u32,
    received_ms: i64,
    service_ms: i64,
    offset: u64,
    bytes: u64,
) -> Request {
    // The log has whole seconds only (A1).
    let completed_ms = (received_ms + service_ms + 999) / 1000 * 1000;
    Request {
        line: 0,
        session,
        file,
        received_ms: completed_ms - service_ms,
        completed_ms,
        offset,
        asked_bytes: Some(bytes),
        sent_bytes: bytes,
        disk: (file % 36) as u16,
        device: 0,
    }
}
