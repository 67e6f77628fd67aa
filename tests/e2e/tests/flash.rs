//! A server with a flash tier that is killed under load, again and again.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use headlong_e2e_tests::eventually;
use headlong_testkit::client::fetch;
use headlong_testkit::server::{Server, ServerBuilder, binary};
use headlong_testkit::{Scratch, pattern};

const TITLES: u64 = 4;
const TITLE_BYTES: u64 = 8 << 20;
const KILLS: u64 = 4;

fn flash(verb: &str, tier: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    let output = command
        .args(["flash", verb])
        .arg(tier)
        .args(arguments)
        .output();
    let output = output.expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

fn start(root: &Path, tier: &Path) -> Server {
    let config = format!(
        "flash = [{:?}]\nflash_policy = \"lru\"\nflash_write_per_day = \"1TB\"\n",
        tier.display().to_string()
    );
    let server = ServerBuilder::new([root])
        .memory("12MiB")
        .config(&config)
        .start();
    server.expect("a server")
}

/// A number that the first device tells of its part of the tier; `None` before it is attached.
fn told(server: &Server, name: &str) -> Option<u64> {
    let status = server.status().expect("status");
    status.devices()[0].get("flash")?.get(name)?.as_u64()
}

/// Asks for titles until the time is over or the server is gone; every byte that comes is right.
fn play(server: &Server, until: Instant, seed: u64) {
    let mut title = seed;
    while Instant::now() < until {
        title = title
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let number = (title >> 33) % TITLES;
        let target = format!("/{number}.mp4");
        let Ok(response) = fetch(server.address(), "GET", &target, &[]) else {
            continue;
        };
        assert_eq!(response.status(), 200);
        pattern::verify(number, 0, &response.body).expect("right bytes");
    }
}

#[test]
fn a_server_killed_under_load_gives_no_wrong_byte_and_finds_what_was_sealed_again() {
    let scratch = Scratch::new("flash").expect("a folder");
    let root = scratch.directory("root").expect("a folder");
    for title in 0..TITLES {
        let path = root.join(format!("{title}.mp4"));
        pattern::write_file(&path, title, TITLE_BYTES).expect("written");
        let file = std::fs::File::options().write(true).open(&path);
        // Only what has settled is kept on flash.
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.expect("opens").set_modified(long_ago).expect("set");
    }
    let tier = scratch.path().join("tier");
    let (made, text) = flash("format", &tier, &["--size", "128MB", "--block", "1MiB"]);
    assert!(made, "{text}");
    let mut sealed = 0;
    for kill in 0..KILLS {
        let mut server = start(&root, &tier);
        let filled = eventually("attached", || told(&server, "records"), Option::is_some);
        assert!(
            filled >= Some(sealed),
            "kill {kill}: {filled:?} of {sealed}"
        );
        if kill == 0 {
            let (is_made, text) = flash("format", &tier, &["--force"]);
            assert!(!is_made && text.contains("in use"), "{text}");
        }
        let until = Instant::now() + Duration::from_millis(1500 + 400 * kill);
        std::thread::scope(|scope| {
            for viewer in 0..3 {
                let server = &server;
                scope.spawn(move || play(server, until, kill * 10 + viewer + 1));
            }
        });
        if kill + 1 == KILLS {
            assert!(told(&server, "reads") > Some(0), "it serves from there");
            assert_eq!(told(&server, "reads_wrong"), Some(0));
        }
        server
            .signal(rustix::process::Signal::KILL)
            .expect("killed");
        server.wait(Duration::from_secs(10)).expect("ended");
        let (is_right, text) = flash("verify", &tier, &[]);
        assert!(is_right, "{text}");
        let (_, text) = flash("status", &tier, &[]);
        let records = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("records"));
        sealed = records
            .and_then(|count| count.trim().parse().ok())
            .expect("a count");
    }
    assert!(sealed > 0);
}
