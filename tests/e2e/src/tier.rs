//! Servers with a flash tier, and viewers that exercise the tier.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use headlong_testkit::client::fetch;
use headlong_testkit::server::{Server, ServerBuilder, binary};
use headlong_testkit::{Scratch, Seed, pattern};
use serde_json::Value;

/// Titles of the library: together several times the server's memory.
pub const TITLES: u64 = 8;
/// Size of a title.
pub const TITLE_BYTES: u64 = 8 << 20;

/// Runs `headlong flash`; returns whether it succeeded, and its output.
pub fn flash(verb: &str, tier: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    let output = command
        .args(["flash", verb])
        .arg(tier)
        .args(arguments)
        .output();
    let output = output.expect("the program starts");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// Formats a tier.
pub fn format(tier: &Path, arguments: &[&str]) {
    let (is_made, text) = flash("format", tier, arguments);
    assert!(is_made, "{text}");
}

/// A value of `headlong flash status`.
pub fn count(tier: &Path, name: &str) -> u64 {
    let (_, text) = flash("status", tier, &[]);
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.trim().strip_prefix(name));
    let number = found.and_then(|count| count.trim().parse().ok());
    number.unwrap_or_else(|| panic!("{name}: {text}"))
}

/// A folder of titles with stable modification times: only those are stored on flash.
pub fn library(scratch: &Scratch, name: &str) -> PathBuf {
    let root = scratch.directory(name).expect("a folder");
    for title in 0..TITLES {
        let path = root.join(format!("{title}.mp4"));
        pattern::write_file(&path, title, TITLE_BYTES).expect("written");
        let file = std::fs::File::options().write(true).open(&path);
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.expect("opens").set_modified(long_ago).expect("set");
    }
    root
}

/// A server that stores on flash every piece that leaves its small memory, and that admits every
/// viewer however busy this machine's disk is.
pub fn start(root: &Path, tiers: &[&Path]) -> Server {
    let paths: Vec<String> = tiers
        .iter()
        .map(|tier| tier.display().to_string())
        .collect();
    let config = format!(
        "admission = \"accept\"\nflash = {paths:?}\nflash_policy = \"lru\"\nflash_write_per_day = \"1TB\"\n"
    );
    ServerBuilder::new([root])
        .memory("12MiB")
        .config(&config)
        .start()
}

/// The flash tier of the first device in `/status`; `None` before it is attached.
pub fn view(server: &Server) -> Option<Value> {
    let status = server.status();
    status.devices()[0].get("flash").cloned()
}

/// One number of it.
pub fn flash_counter(server: &Server, name: &str) -> Option<u64> {
    view(server)?.get(name)?.as_u64()
}

/// State of each SSD.
pub fn states(server: &Server) -> Vec<String> {
    let view = view(server).unwrap_or_default();
    let ssds = view["ssds"].as_array().cloned().unwrap_or_default();
    let state = |ssd: &Value| ssd["state"].as_str().unwrap_or_default().to_owned();
    ssds.iter().map(state).collect()
}

/// One viewer after another reads a title until the deadline or until the server has ended; every
/// received byte is verified. Returns the numbers of complete and of incomplete titles.
pub fn play(server: &Server, until: Instant, seed: &mut Seed) -> (u64, u64) {
    let (mut whole, mut broken) = (0, 0);
    // At least once, even if a busy machine starts this thread late.
    loop {
        let number = seed.below(TITLES);
        let target = format!("/{number}.mp4");
        match fetch(server.address(), "GET", &target, &[]) {
            Ok(response) => {
                assert_eq!(response.status(), 200);
                pattern::verify(number, 0, &response.body).expect("correct bytes");
                assert_eq!(response.body.len() as u64, TITLE_BYTES);
                whole += 1;
            }
            Err(_) => broken += 1,
        }
        if Instant::now() >= until {
            return (whole, broken);
        }
    }
}

/// Three viewers play until a condition holds; all of them must receive whole titles.
pub fn play_until(server: &Server, seed: &mut Seed, what: &str, is_so: impl Fn(&Server) -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !is_so(server) {
        let now = Instant::now();
        assert!(now < end, "{what}: {:?}\n{}", view(server), server.output());
        let until = now + Duration::from_millis(200);
        let seeds = [
            seed.below(u64::MAX),
            seed.below(u64::MAX),
            seed.below(u64::MAX),
        ];
        std::thread::scope(|scope| {
            for seed in seeds {
                scope.spawn(move || {
                    let (whole, broken) = play(server, until, &mut Seed::new(seed));
                    assert!(whole > 0 && broken == 0, "{whole} titles, {broken} broken");
                });
            }
        });
    }
}
