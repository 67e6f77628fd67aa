//! Files of a later version, or noise, where the server keeps its own: it starts and serves, names
//! what it ignores, and leaves a flash tier that it cannot read unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use headlong_e2e_tests::edge::{edge, files_below, ground, right_range, settle};
use headlong_e2e_tests::tier;
use headlong_testkit::server::{Server, ServerBuilder};
use headlong_testkit::{Scratch, Seed, pattern};
use serde_json::{Value, json};

const TITLE_BYTES: u64 = 300_000;

fn noise(seed: &mut Seed, bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8)).flat_map(|_| seed.next_u64().to_le_bytes());
    words.take(bytes).collect()
}

/// Increases the version in each copy of a tier's super record.
fn make_later(tier: &Path) {
    let mut bytes = fs::read(tier).expect("a tier");
    let mut copies = 0;
    for at in (0..bytes.len()).step_by(4096) {
        if bytes[at..].starts_with(b"HLFLASH\0") {
            bytes[at + 8] += 1;
            copies += 1;
        }
    }
    assert!(copies >= 2, "{copies} super records");
    fs::write(tier, bytes).expect("written");
}

#[test]
fn tier_of_later_version_or_noise_is_left_unchanged() {
    let mut seed = Seed::announced("tier_of_later_version", 46);
    let scratch = Scratch::new("foreign-tier").expect("a folder");
    let root = tier::library(&scratch, "root");
    let [later, noisy, good] = ["later", "noisy", "good"].map(|name| scratch.path().join(name));
    for path in [&later, &good] {
        tier::format(path, &["--size", "32MiB", "--block", "256KiB"]);
    }
    make_later(&later);
    fs::write(&noisy, noise(&mut seed, 32 << 20)).expect("written");
    let before = [&later, &noisy].map(|path| fs::read(path).expect("there"));

    let server = tier::start(&root, &[&later, &noisy, &good]);
    let health = server.admin_request("GET", "/healthz", &[]);
    let text = health.text();
    assert!(text.starts_with("ok, but degraded"), "{text}");
    for reason in ["tier of version", "it is no flash tier"] {
        assert!(text.contains(reason), "{text}");
    }
    tier::play_until(&server, &mut seed, "writes to the good tier", |server| {
        tier::flash_counter(server, "written_bytes") > Some(4 << 20)
    });
    assert!(server.stop().expect("it ends").success());
    let after = [&later, &noisy].map(|path| fs::read(path).expect("there"));
    assert!(before == after, "a tier of another format was written");
    // Formatting such a tier takes an explicit word.
    let (is_made, text) = tier::flash("format", &later, &[]);
    assert!(!is_made && text.contains("--force"), "{text}");
}

fn serve(root: &Path, state: &Path) -> Server {
    let server = ServerBuilder::new([root])
        .config(&format!("state = {state:?}"))
        .start();
    let reply = server.get("/0.mp4");
    assert_eq!(reply.status(), 200);
    assert_eq!(reply.body.len() as u64, TITLE_BYTES);
    pattern::verify(0, 0, &reply.body).expect("correct bytes");
    server
}

/// Stops a server; returns its output.
fn output_of(mut server: Server) -> String {
    server
        .signal(rustix::process::Signal::TERM)
        .expect("running");
    let ended = server.wait(std::time::Duration::from_secs(20));
    let output = server.output();
    assert!(ended.is_some_and(|status| status.success()), "{output}");
    assert!(!output.contains("panicked"), "{output}");
    output
}

/// Replaces each number by the largest.
fn exaggerate(value: &mut Value) {
    match value {
        Value::Number(_) => *value = json!(u64::MAX),
        Value::Array(items) => items.iter_mut().for_each(exaggerate),
        Value::Object(fields) => fields.values_mut().for_each(exaggerate),
        _ => {}
    }
}

#[test]
fn state_of_later_version_or_noise_is_ignored() {
    let mut seed = Seed::announced("state_of_later_version", 47);
    let scratch = Scratch::new("foreign-state").expect("a folder");
    let root = scratch.directory("root").expect("a folder");
    pattern::write_file(&root.join("0.mp4"), 0, TITLE_BYTES).expect("written");
    let state = scratch.directory("state").expect("a folder");
    // The first run has nothing to complain about.
    let ignored = "starting the device without learned state";
    let output = output_of(serve(&root, &state));
    assert!(!output.contains(ignored), "{output}");
    let is_of_device = |path: &PathBuf| path.to_string_lossy().contains("/device-");
    let mut files = files_below(&state).into_iter().filter(is_of_device);
    let file = files.next().expect("the state of the device");
    let own: Value = serde_json::from_slice(&fs::read(&file).expect("read")).expect("JSON");

    let mut later = own.clone();
    later["version"] = json!(own["version"].as_u64().expect("a number") + 1);
    later["learned"]["another"] = json!("fact");
    let mut huge = own.clone();
    let chain = json!({
        "stream": 0, "viewer": 0, "is_named": false, "start": 0, "end": 0, "position": 0,
        "last_request_bytes": 0, "open_ended": true, "pace_bps": 0, "idle_ns": 0,
    });
    let ended = json!({
        "read_bytes": 0, "whole_bytes": 0, "rule_bytes_per_mib": 0, "ahead_bytes": 0,
        "pace_bps": 0, "sent_bytes": 0,
    });
    huge["learned"]["chains"] = json!(vec![chain; 20_000]);
    huge["learned"]["ended"] = json!(vec![ended; 20_000]);
    huge["learned"]["drive"] = json!({"reposition_ns": 0, "transfer_ns_per_mib": 0});
    exaggerate(&mut huge["learned"]);
    let cases = [
        ("a later version", later.to_string().into_bytes(), true),
        ("noise", noise(&mut seed, 5_000), true),
        ("nothing", Vec::new(), true),
        ("nested lists", vec![b'['; 1 << 20], true),
        ("huge numbers", huge.to_string().into_bytes(), false),
    ];
    for (what, bytes, is_said) in cases {
        eprintln!("{what}");
        fs::write(&file, bytes).expect("written");
        // The facts of a later version have a file of their own.
        let facts = ["media-1.facts", "media-2.facts"].map(|name| state.join(name));
        let unknown = noise(&mut seed, 4_807);
        for path in &facts {
            fs::write(path, &unknown).expect("written");
        }
        let output = output_of(serve(&root, &state));
        assert_eq!(output.contains(ignored), is_said, "{what}: {output}");
        assert!(output.contains("they are ignored"), "{what}: {output}");
        assert_eq!(fs::read(&facts[1]).expect("kept"), unknown, "{what}");
        // Its own state is in its place.
        let written: Value = serde_json::from_slice(&fs::read(&file).expect("read")).expect(what);
        assert_eq!(written["version"], own["version"], "{what}");
        assert_eq!(written["roots"], own["roots"], "{what}");
        let output = output_of(serve(&root, &state));
        assert!(!output.contains("ignored"), "{what}: {output}");
        assert!(!output.contains(ignored), "{what}: {output}");
    }
}

#[test]
fn slices_of_later_version_or_noise_are_fetched_again() {
    let mut seed = Seed::announced("slices_of_later_version", 48);
    let (origin, cache) = ground();
    let path = "/vod/6-300000";
    let mut server = edge(&origin, cache.path(), "");
    right_range(&server, path, 6, 0, TITLE_BYTES);
    for what in ["a later version", "noise"] {
        settle(&server);
        server.stop();
        let files = files_below(cache.path());
        let about = files.iter().find(|path| path.ends_with("about.json"));
        let about = about.expect("a description");
        match what {
            // Its slices could be encoded, for example.
            "a later version" => {
                let text = fs::read(about).expect("read");
                let mut text: Value = serde_json::from_slice(&text).expect("JSON");
                text["coding"] = json!("another");
                fs::write(about, text.to_string()).expect("written");
            }
            _ => fs::write(about, noise(&mut seed, 300)).expect("written"),
        }
        let is_of_title = |path: &&PathBuf| path.parent() == about.parent() && *path != about;
        for slice in files.iter().filter(is_of_title) {
            let bytes = fs::metadata(slice).expect("there").len() as usize;
            fs::write(slice, noise(&mut seed, bytes)).expect("written");
        }
        let sent = origin.sent_bytes();
        server = edge(&origin, cache.path(), "");
        right_range(&server, path, 6, 0, TITLE_BYTES);
        assert_eq!(origin.sent_bytes() - sent, TITLE_BYTES, "{what}");
    }
}
