//! Components that are unavailable at startup: the server starts without them, serves the rest,
//! reports them, and uses them after they recover. A real process, and the exit statuses that the
//! real unit treats as final.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use headlong_e2e_tests::tier;
use headlong_testkit::server::{Server, ServerBuilder, free_address};
use headlong_testkit::{ProgramRun, Scratch, pattern};
use serde_json::Value;

/// Longer than any retry interval.
const PATIENCE: Duration = Duration::from_secs(60);

const TITLE_BYTES: u64 = 256 << 10;

fn root_with_title(scratch: &Scratch, name: &str, title: u64) -> PathBuf {
    let root = scratch.directory(name).expect("a folder");
    write_title(&root, title);
    root
}

fn write_title(root: &Path, title: u64) {
    let path = root.join(format!("{title}.mp4"));
    pattern::write_file(&path, title, TITLE_BYTES).expect("written");
}

fn status_of(server: &Server, path: &str) -> u16 {
    server.get(path).status()
}

fn health(server: &Server) -> (u16, String) {
    let reply = server.admin_request("GET", "/healthz", &[]);
    (reply.status(), reply.text())
}

/// Components out of service in `/status`: kinds and names.
fn degraded(server: &Server) -> Vec<(String, String)> {
    let reply = server.admin_request("GET", "/status", &[]);
    let status: Value = serde_json::from_str(&reply.text()).expect("JSON");
    let parts = status["degraded"].as_array().expect("a list").iter();
    let text = |part: &Value, key: &str| part[key].as_str().expect("a text").to_owned();
    parts
        .map(|part| (text(part, "kind"), text(part, "name")))
        .collect()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

/// Exit statuses after which the unit does not restart the server.
fn final_statuses() -> Vec<i32> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/headlong.service");
    let unit = fs::read_to_string(unit).expect("the unit");
    assert!(unit.contains("Restart=on-failure"));
    let mut lines = unit.lines();
    let line = lines.find_map(|line| line.strip_prefix("RestartPreventExitStatus="));
    let words = line
        .expect("the unit has a line of statuses")
        .split_whitespace();
    words.map(|word| word.parse().expect("a number")).collect()
}

/// Runs a server that ends by itself; returns its exit status and its output.
fn run_to_end(mut command: Command) -> (i32, String) {
    let run = ProgramRun::of(&mut command);
    (run.code.expect("an exit status"), run.stderr)
}

fn arguments(scratch: &Scratch, roots: &[&Path], config: &str) -> Command {
    let file = scratch.path().join("headlong.toml");
    fs::write(&file, config).expect("written");
    let (address, admin) = (free_address().to_string(), free_address().to_string());
    let file = display(&file);
    let arguments = [
        "--listen", &address, "--admin", &admin, "--memory", "32MiB", "--config", &file,
    ];
    ServerBuilder::arguments(scratch, roots, &arguments)
}

#[test]
fn starts_without_failed_ssds_and_uses_them_after_recovery() {
    let scratch = Scratch::new("ill-flash").expect("a folder");
    let root = root_with_title(&scratch, "root", 0);
    let names = ["missing", "empty", "cut", "longer", "wiped", "good"];
    let tiers = names.map(|name| scratch.path().join(name));
    let [missing, empty, cut, longer, wiped, good] = &tiers;
    for path in [cut, longer, wiped, good] {
        tier::format(path, &["--size", "32MiB"]);
    }
    fs::write(empty, "").expect("written");
    let open = |path: &Path| OpenOptions::new().write(true).open(path).expect("opens");
    open(cut).set_len(16 << 20).expect("cut");
    open(longer).set_len((32 << 20) + 1).expect("longer");
    let zeros = vec![0; 1 << 20];
    std::os::unix::fs::FileExt::write_all_at(&open(wiped), &zeros, 0).expect("wiped");

    let list: Vec<String> = tiers.iter().map(|path| format!("{path:?}")).collect();
    let server = ServerBuilder::new([&root])
        .config(&format!("flash = [{}]", list.join(", ")))
        .start();
    assert_eq!(status_of(&server, "/0.mp4"), 200);
    let mut ill: Vec<_> = [missing, empty, cut, longer, wiped]
        .map(|path| ("flash".to_owned(), display(path)))
        .to_vec();
    ill.sort();
    assert_eq!(degraded(&server), ill);
    let (status, text) = health(&server);
    assert_eq!(status, 200, "{text}");
    assert!(text.starts_with("ok, but degraded"), "{text}");
    for (_, path) in &ill {
        assert!(text.contains(path.as_str()), "{text}");
    }
    let metrics = server.metrics();
    assert!(
        metrics.contains("headlong_degraded_parts{kind=\"flash\"} 5"),
        "{metrics}"
    );

    tier::format(missing, &["--size", "32MiB"]);
    wait_until("the new tier is used", || {
        let reply = server.admin_request("GET", "/status", &[]);
        let status: Value = serde_json::from_str(&reply.text()).expect("JSON");
        let ssds = status["devices"][0]["flash"]["ssds"].as_array();
        let online = ssds.map_or(0, |ssds| {
            ssds.iter().filter(|ssd| ssd["state"] == "online").count()
        });
        online == 2 && degraded(&server).len() == 4
    });
    assert_eq!(status_of(&server, "/0.mp4"), 200);
    assert!(server.stop().expect("the server ends").success());
}

#[test]
fn second_server_on_a_tier_exits_with_2() {
    let scratch = Scratch::new("one-tier").expect("a folder");
    let root = root_with_title(&scratch, "root", 0);
    let tier = scratch.path().join("tier");
    tier::format(&tier, &["--size", "32MiB"]);
    let config = format!("flash = [{tier:?}]");
    let _server = ServerBuilder::new([&root]).config(&config).start();
    let (code, text) = run_to_end(arguments(&scratch, &[&root], &config));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("in use by another process"), "{text}");
    assert!(!final_statuses().contains(&2));
}

#[test]
fn starts_without_missing_root_and_serves_it_later() {
    let scratch = Scratch::new("ill-root").expect("a folder");
    let there = root_with_title(&scratch, "there", 0);
    let away = scratch.path().join("mount/videos");
    let server = ServerBuilder::new([&away, &there])
        // A title of the missing disk.
        .config("[device.sdz9]\nmemory = \"8MiB\"")
        .start();
    assert_eq!(status_of(&server, "/0.mp4"), 200);
    assert_eq!(
        status_of(&server, "/1.mp4"),
        504,
        "the title may exist on the missing disk"
    );
    assert_eq!(degraded(&server), [("root".to_owned(), display(&away))]);
    let (status, text) = health(&server);
    assert!(status == 200 && text.contains(&display(&away)), "{text}");

    fs::create_dir_all(&away).expect("made");
    write_title(&away, 1);
    wait_until("the root is served", || degraded(&server).is_empty());
    assert_eq!(status_of(&server, "/1.mp4"), 200);
    assert_eq!(status_of(&server, "/2.mp4"), 404);
    assert_eq!(health(&server), (200, "ok".to_owned()));
    let library = server.admin_request("GET", "/library.json", &[]);
    assert!(library.text().contains("/1.mp4"), "{}", library.text());
}

#[test]
fn starts_without_state_and_logs_and_uses_them_later() {
    let scratch = Scratch::new("ill-folders").expect("a folder");
    let root = root_with_title(&scratch, "root", 0);
    let (state, logs) = (scratch.path().join("state"), scratch.path().join("logs"));
    let log = logs.join("access.log");
    let server = ServerBuilder::new([&root])
        .config(&format!("state = {state:?}\n[log]\naccess = {log:?}"))
        .start();
    assert_eq!(status_of(&server, "/0.mp4"), 200);
    let ill = [("state", &state), ("log", &log)];
    let ill = ill.map(|(kind, path)| (kind.to_owned(), display(path)));
    assert_eq!(degraded(&server), ill);
    let text = health(&server).1;
    assert!(text.starts_with("ok, but degraded"), "{text}");

    fs::create_dir(&state).expect("made");
    fs::create_dir(&logs).expect("made");
    wait_until("both are used", || degraded(&server).is_empty());
    assert_eq!(status_of(&server, "/0.mp4"), 200);
    wait_until("a line in the log", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("/0.mp4"))
    });
    use std::os::unix::fs::PermissionsExt as _;
    let files = fs::read_dir(&state).expect("there");
    let files = files.map(|entry| entry.expect("an entry").path());
    for path in files.chain([log]) {
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{}", path.display());
    }
}

#[test]
fn only_configuration_errors_exit_with_a_final_status() {
    let scratch = Scratch::new("final-status").expect("a folder");
    let root = root_with_title(&scratch, "root", 0);
    let away = [scratch.path().join("a"), scratch.path().join("b")];
    let (code, text) = run_to_end(arguments(&scratch, &[&away[0], &away[1]], ""));
    assert!(
        code != 0 && !final_statuses().contains(&code),
        "{code}: {text}"
    );
    for path in &away {
        assert!(text.contains(&display(path)), "{text}");
    }
    let (code, text) = run_to_end(arguments(&scratch, &[&root], "memmory = 1"));
    assert!(final_statuses().contains(&code), "{code}: {text}");
    let (code, text) = run_to_end(arguments(&scratch, &[&root, &root], ""));
    assert!(final_statuses().contains(&code), "{code}: {text}");
}

#[test]
fn full_log_is_named_by_setting_and_file() {
    let scratch = Scratch::new("full-log").expect("a folder");
    let root = root_with_title(&scratch, "root", 0);
    let server = ServerBuilder::new([&root])
        .config("[log]\naccess = \"/dev/full\"\n")
        .start();
    assert_eq!(status_of(&server, "/0.mp4"), 200);
    wait_until("a message", || {
        let output = server.output();
        let mut lines = output
            .lines()
            .filter(|line| line.contains("lines are lost"));
        lines.any(|line| line.contains("log=\"log.access\"") && line.contains("path=/dev/full"))
    });
}
