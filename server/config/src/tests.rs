//! Tests of the configuration: error messages, round trips, precedence.

use std::fs;
use std::path::{Path, PathBuf};

use headlong_engine::{Control, Order, Policy, Prefetch};
use headlong_settings::Tier;
use headlong_storage::IoMode;
use headlong_telemetry::LogTarget;
use headlong_units::{Duration, MIB};
use proptest::prelude::*;

use crate::keys::{device_rows, rows};
use crate::settings::{Admin, Config};
use crate::{Flags, manual, manual_expert};

/// Flags that name one root.
fn flags(root: impl Into<PathBuf>) -> Flags {
    Flags {
        roots: vec![root.into()],
        ..Flags::default()
    }
}

fn load(text: &str) -> Result<Config, super::Mistakes> {
    Config::from_text(Path::new("h.toml"), text, &flags("/videos"))
}

/// A folder with files of a machine, and with its configuration.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Loads a configuration; in mistakes the folder is called `T/`.
    fn load(&self, text: impl AsRef<[u8]>, flags: &Flags) -> Result<Config, String> {
        let file = self.path("h.toml");
        fs::write(&file, text).expect("written");
        let judged = Config::load(Some(Path::new(&file)), flags);
        judged.map_err(|mistakes| mistakes.to_string().replace(&self.path(""), "T/"))
    }
}

fn errors_of(text: &str) -> String {
    load(text).expect_err("the file has mistakes").to_string()
}

#[test]
fn quoted_file_content_stays_on_one_line() {
    let text = "policy = \"a\\nb\"\n[device.\"sd\\u001b[2J\"]\nio = 3\n[\"lim\\nits\"]\n";
    let errors = load(text).expect_err("every line has a mistake");
    assert_eq!(errors.iter().count(), errors.to_string().lines().count());
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!errors.to_string().contains(control), "{errors:?}");
    let served = load("[device.\"sd\\na\"]\noptional = true\n").expect("valid");
    let warnings = served.warnings(&[("sda".to_string(), true)]);
    assert!(
        warnings[0].starts_with("device.sd\\na: the optional device is absent"),
        "{warnings:?}"
    );
}

#[test]
fn piece_defaults_to_flash_format_unless_set() {
    let piece = |text: &str| load(text).expect("valid").engine.piece_bytes;
    assert_eq!(piece(""), 64 << 10);
    assert_eq!(piece("flash = [\"/ssd\"]\n"), 128 << 10);
    assert_eq!(piece("flash = [\"/ssd\"]\npiece = \"32KiB\"\n"), 32 << 10);
}

/// Compares with a file beside the tests; `UPDATE=1` rewrites it, so that the difference can be
/// reviewed.
fn golden(path: &Path, found: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        fs::write(path, found).expect("the file is written");
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == found,
        "{} is out of date; run this test with UPDATE=1 and review the difference:\n{found}",
        path.display()
    );
}

/// Pairs of a name and a file with at least one mistake.
const WRONG: &[(&str, &str)] = &[
    ("a misspelt key", "memroy = \"1GiB\"\n"),
    (
        "a misspelt key in a table",
        "[limits]\nidle_timout = \"5s\"\n",
    ),
    (
        "a misspelt table",
        "[limit]\nidle_timeout = \"5s\"\n[lmits]\nheader_bytes_maxx = 3\n",
    ),
    (
        "a key in the wrong table",
        "idle_timeout = \"5s\"\n[log]\nmemory = \"1GiB\"\n",
    ),
    ("a key without a similar one", "colour = \"red\"\n"),
    ("a table instead of a value", "[memory]\nsize = 3\n"),
    (
        "a value instead of a table",
        "limits = 3\ndevice = \"sda\"\n",
    ),
    (
        "sizes",
        "memory = \"1GIB\"\npiece = 131072\nread_max = \"MiB\"\nprefetch = \"99999999TiB\"\n",
    ),
    (
        "times",
        "patience = \"30\"\nrescan = 60\nrevalidate = \"5 fortnights\"\nchain_gap = -1\n",
    ),
    (
        "names",
        "policy = \"squareroot\"\norder = \"lifo\"\nio = true\nretention = \"LRU\"\n",
    ),
    (
        "numbers",
        "errors_offline = -1\nopen_files_max = 99999999999999999999\noutstanding_reads_rotating = 1.5\n",
    ),
    (
        "addresses",
        "listen = [\"localhost:8080\", \"8080\"]\nadmin = \"on\"\n",
    ),
    (
        "invalid socket paths and modes",
        "listen = [\"unix:web.sock\", \"unix:\"]\nadmin = \"/run/admin.sock\"\nunix_mode = \"rw\"\n",
    ),
    ("a mode as a number", "unix_mode = 660\n"),
    (
        "one socket path used twice",
        "listen = [\"unix:/run/a.sock\"]\nadmin = \"unix:/run/a.sock\"\n",
    ),
    ("an address outside a list", "listen = \"127.0.0.1:8080\"\n"),
    ("no address at all", "listen = []\n"),
    (
        "not TOML in two places",
        "memory = \npolicy = \"fixed\nprefetch = \"8MiB\"\n",
    ),
    ("a key twice", "memory = \"1GiB\"\nmemory = \"2GiB\"\n"),
    ("a piece that is not a power of two", "piece = \"100KiB\"\n"),
    (
        "memory smaller than eight pieces",
        "memory = \"1MiB\"\npiece = \"256KiB\"\nprefetch = \"1MiB\"\n",
    ),
    (
        "prefetch larger than memory",
        "memory = \"64MiB\"\nprefetch = \"65MiB\"\n",
    ),
    ("prefetch smaller than a piece", "prefetch = \"32KiB\"\n"),
    (
        "the longest read smaller than a piece",
        "read_max = \"32KiB\"\n",
    ),
    (
        "no outstanding reads",
        "outstanding_reads_rotating = 0\noutstanding_max = 0\n",
    ),
    (
        "two listeners on one port",
        "listen = [\"0.0.0.0:80\", \"127.0.0.1:80\"]\n",
    ),
    (
        "viewers and operator on one port",
        "listen = [\"0.0.0.0:8081\"]\nadmin = \"127.0.0.1:8081\"\n",
    ),
    (
        "operator and agent on one port",
        "agent = \"127.0.0.1:8081\"\n",
    ),
    (
        "a fleet without the name of this server",
        "[steering]\nfleet = \"fleet.toml\"\n",
    ),
    (
        "a name in no fleet",
        "[steering]\nbox = \"a\"\nfleets = \"fleet.toml\"\n",
    ),
    (
        "a certificate without a key",
        "[tls]\ncertificate = \"cert.pem\"\n",
    ),
    ("a key without a certificate", "[tls]\nkey = \"key.pem\"\n"),
    (
        "limits that allow nothing",
        "[limits]\nconnections_max = 0\nheader_timeout = \"0s\"\nheader_bytes_max = \"100B\"\n",
    ),
    (
        "a minimum rate that no client reaches",
        "[limits]\nsend_bytes_min = \"1TiB\"\n",
    ),
    (
        "invalid header values",
        "cache_control = \"no\\nstore\"\n[session]\nheader = \"X Session\"\nquery = \"\"\n[cors]\norigins = [\"example.org\", \"https://a.example\"]\nheaders = [\"a:b\"]\n",
    ),
    (
        "devices",
        "memory = \"1GiB\"\n[device.\"sda\"]\nmemory = \"900MiB\"\nprefech = \"8MiB\"\n[device.\"sdb\"]\nmemory = \"200MiB\"\noutstanding_reads = 0\n[device.\"sdc\"]\nmemory = \"256KiB\"\nprefetch = \"4KiB\"\n[device.\"sdd\"]\nmemory = \"4MiB\"\n",
    ),
    (
        "host names and socket options",
        "admin_hosts = [\"a.example\", \"b.example:80\"]\nopen_files_max = 0\n[tcp]\ncongestion_control = \"\"\n",
    ),
    (
        "proxies",
        "[proxies]\ntrusted = [\"10.0.0.1/8\", \"10.0.0.0/33\", \"cdn.example\", \"2001:db8::1/32\", \"192.0.2.1\"]\nheader = \"x-real-ip\"\nlisten = [\":80\"]\n",
    ),
    (
        "a port for proxies and no trusted proxy",
        "[proxies]\nlisten = [\"127.0.0.1:8082\"]\n",
    ),
    (
        "viewers, proxies and operator on one port",
        "listen = [\"127.0.0.1:8080\"]\nadmin = \"127.0.0.1:8082\"\n[proxies]\ntrusted = [\"127.0.0.0/8\"]\nlisten = [\"0.0.0.0:8080\", \"127.0.0.1:8082\"]\n",
    ),
    ("a device that is not a table", "device.sda = 3\n"),
    (
        "settings of simulations",
        "send_window = \"1MiB\"\nsweep = \"2s\"\nsweeep = \"2s\"\n",
    ),
    (
        "places of tokens",
        "[path.\"/a/\"]\nsecure_link = \"$arg_md5\"\njwt_from = [\"ticket\", \"header:a b\", \"query:\"]\n",
    ),
];

#[test]
fn error_messages_match_golden_file() {
    let mut page = String::new();
    for (name, text) in WRONG {
        page.push_str(&format!("== {name}\n{text}--\n{}\n\n", errors_of(text)));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/config_errors.txt");
    golden(&path, &page);
}

#[test]
fn reports_all_mistakes_of_file_and_flags_in_order() {
    let flags = Flags {
        memory: Some("1Gig".into()),
        process_memory: None,
        ..Flags::default()
    };
    let text = "ordr = 1\npolicy = 3\n[tls]\nkey = \"k\"\n";
    let errors = Config::from_text(Path::new("h.toml"), text, &flags).expect_err("wrong");
    let places: Vec<_> = errors
        .iter()
        .map(|e| format!("{} {}", e.place, e.key))
        .collect();
    let expected = [
        "h.toml:1 ordr",
        "h.toml:2 policy",
        "h.toml:4 tls.key",
        "h.toml roots",
        "--memory memory",
    ];
    assert_eq!(places, expected, "{errors}");
}

#[test]
fn unreadable_file_does_not_hide_mistakes_in_flags() {
    let flags = Flags {
        admin: Some("nowhere".into()),
        ..Flags::default()
    };
    let missing = Path::new("/nonexistent/h.toml");
    let errors = Config::load(Some(missing), &flags)
        .expect_err("wrong")
        .to_string();
    assert!(
        errors.starts_with("/nonexistent/h.toml: cannot be read:"),
        "{errors}"
    );
    assert!(
        errors.contains("\n--admin: `nowhere` is not an address"),
        "{errors}"
    );
}

#[test]
fn flags_override_file_and_file_overrides_defaults() {
    let file = "roots = [\"a\"]\nlisten = [\"127.0.0.1:1\"]\nadmin = \"off\"\nmemory = \"2GiB\"\n\
                policy = \"fixed\"\norder = \"fcfs\"\nprefetch = \"1MiB\"\nread_max = \"1MiB\"\n\
                [tls]\ncertificate = \"c\"\nkey = \"k\"\nlisten = [\"0.0.0.0:443\"]\n";
    let path = Path::new("/etc/headlong/h.toml");
    let by_file = Config::from_text(path, file, &Flags::default()).expect("valid");
    assert_eq!(by_file.roots, [PathBuf::from("/etc/headlong/a")]);
    assert_eq!(
        (by_file.admin, by_file.engine.memory_bytes),
        (Admin::Off, 2048 * MIB)
    );
    assert_eq!(
        (by_file.engine.sizing.policy, by_file.engine.order),
        (Policy::Fixed, Order::Fcfs)
    );

    let flags = Flags {
        roots: vec!["b".into(), "c".into()],
        listen: vec!["127.0.0.1:2".into(), "[::1]:2".into()],
        tls_listen: vec!["127.0.0.1:4".into()],
        tls_redirect: vec!["127.0.0.1:5".into()],
        admin: Some("127.0.0.1:3".into()),
        memory: Some("3GiB".into()),
        process_memory: None,
        policy: Some("first-grow".into()),
        order: Some("elevator".into()),
        prefetch: Some("2MiB".into()),
        time_scale: Some("10.0".into()),
    };
    let by_flags = Config::from_text(path, file, &flags).expect("valid");
    assert_eq!((by_file.time_scale, by_flags.time_scale), (1, 10));
    assert_eq!(by_flags.roots, [PathBuf::from("b"), PathBuf::from("c")]);
    assert_eq!(
        by_flags.listen,
        ["127.0.0.1:2", "[::1]:2"].map(|a| a.parse().expect("valid"))
    );
    let at = |address: &str| vec![address.parse().expect("valid")];
    assert_eq!(by_flags.tls.listen, at("127.0.0.1:4"));
    assert_eq!(by_flags.tls.redirect, at("127.0.0.1:5"));
    assert_eq!(
        by_flags.admin,
        Admin::Address("127.0.0.1:3".parse().expect("valid"))
    );
    assert_eq!(
        (by_flags.engine.memory_bytes, by_flags.engine.prefetch()),
        (3072 * MIB, Prefetch::Size(2 * MIB))
    );
    assert_eq!(
        (by_flags.engine.sizing.policy, by_flags.engine.order),
        (Policy::FirstGrow, Order::Elevator)
    );
    assert_eq!(by_flags.engine.read_bytes_max, MIB);
    assert_eq!(by_flags.engine.patience, Config::default().engine.patience);
}

#[test]
fn shown_settings_can_be_parsed_again() {
    let mut config = Config {
        roots: vec!["/videos".into()],
        ..Config::default()
    };
    assert_eq!(load(&config.show()).expect("valid defaults"), config);

    let unusual = "memory = \"3GiB\"\nadmin = \"off\"\ndirect = false\nio = \"pread\"\n\
        cache_control = \"max-age=1, \\\"x\\\"\"\n[tls]\ncertificate = \"/c\"\nkey = \"/k\"\n\
        [cors]\norigins = [\"https://a.example\"]\nheaders = [\"X-A\"]\n[session]\nheader = \"X-S\"\n\
        [log]\naccess = \"/var/log/a b\"\nformat = \"combined\"\n\
        [device.\"sda\"]\nmemory = \"1GiB\"\nrotational = true\nio = \"io_uring\"\n[device.\"a b\"]\n";
    config = load(unusual).expect("valid");
    assert_eq!(load(&config.show()).expect("still valid"), config);
    assert_eq!(config.log.access, LogTarget::File("/var/log/a b".into()));
}

#[test]
fn setting_names_are_unique_and_in_the_manual() {
    let (rows, device_rows) = (rows(), device_rows());
    let mut names: Vec<_> = rows.iter().map(|row| row.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name occurs twice");
    let tables: Vec<_> = rows.iter().map(|row| row.split().0).collect();
    assert!(
        tables
            .windows(2)
            .all(|pair| pair[0] == pair[1] || !pair[1].is_empty()),
        "top keys first"
    );
    let texts = rows.iter().map(|row| row.text);
    for text in texts.chain(device_rows.iter().map(|row| row.text)) {
        assert!(text.ends_with('.') && text.is_ascii(), "{text}");
    }
}

#[test]
fn manual_page_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    golden(&root.join("docs/operate/configuration.md"), &manual());
    let expert = root.join("docs/operate/configuration-expert.md");
    golden(&expert, &manual_expert());
}

#[test]
fn page_of_important_settings_has_all_basic_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/operate/settings.md")).expect("a page");
    let rows = rows();
    let basic = rows.iter().filter(|row| row.tier == Tier::Basic);
    let names: Vec<_> = basic.map(|row| row.split()).collect();
    assert!((10..=18).contains(&names.len()), "{names:?}");
    for (table, name) in names {
        let is_there = page.contains(&format!("`{name}`")) || page.contains(&format!("{name} = "));
        let has_table = table.is_empty() || page.contains(&format!("[{table}]"));
        assert!(is_there && has_table, "{table} {name}");
    }
}

#[test]
fn send_window_holds_a_piece_of_any_size() {
    let config = load("piece = \"2MiB\"\n").expect("valid");
    let engine = config.engine_for("sda", true, 1);
    assert_eq!(engine.send_window_bytes, 2 * MIB);
}

#[test]
fn shipped_configurations_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in ["packaging/headlong.toml", "scripts/run.toml"] {
        let text = fs::read_to_string(root.join(file)).expect("it is there");
        Config::from_text(Path::new(file), &text, &flags("/videos"))
            .unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn budget_is_divided_except_for_devices_with_own_memory() {
    let text = "memory = \"1GiB\"\n[device.\"sda\"]\nmemory = \"256MiB\"\nprefetch = \"4MiB\"\n\
                rotational = false\nio = \"pread\"\n";
    let config = load(text).expect("valid");
    let devices = [
        ("sda".to_string(), true),
        ("sdb".to_string(), true),
        ("nvme0n1".to_string(), false),
    ];
    let engines = config
        .engines_for(&devices, true)
        .expect("the budget suffices");
    let memory: Vec<_> = engines
        .iter()
        .map(|engine| engine.memory_bytes / MIB)
        .collect();
    assert_eq!(memory, [256, 384, 384]);
    let reads: Vec<_> = engines
        .iter()
        .map(|engine| engine.outstanding_reads_max)
        .collect();
    assert_eq!(reads, [16, 8, 16]);
    assert_eq!(engines[0].prefetch(), Prefetch::Size(4 * MIB));
    assert_eq!(engines[1].prefetch(), Prefetch::Found(Control::Auto));
    assert_eq!(
        (config.io_for("sda"), config.io_for("sdb")),
        (IoMode::Pread, IoMode::Auto)
    );
}

#[test]
fn table_of_absent_device_is_a_mistake_unless_optional() {
    let text = "[device.\"sdb\"]\nmemory = \"256MiB\"\n";
    let config = load(text).expect("valid");
    let devices = [("sda1".to_string(), true), ("sdb".to_string(), true)];
    config.engines_for(&devices, true).expect("both are there");
    let mistakes = config
        .engines_for(&devices[..1], true)
        .expect_err("one is not");
    let expected = "this machine: device.sdb: no root lies on a device of that name; those served \
                    are sda1 (did you mean `sda1`?). If the disk may be away, write optional = true \
                    in its table";
    assert_eq!(mistakes.to_string(), expected);

    let config = load(&format!("{text}optional = true\n")).expect("valid");
    assert_eq!(config.warnings(&devices), Vec::<String>::new());
    let expected = "device.sdb: the optional device is absent";
    assert_eq!(config.warnings(&devices[..1]), [expected]);
    let engines = config
        .engines_for(&devices[..1], true)
        .expect("it is optional");
    assert_eq!(
        engines[0].memory_bytes,
        768 * MIB,
        "its memory stays reserved"
    );
}

#[test]
fn insufficient_budget_names_the_device() {
    let config = load("memory = \"8MiB\"\n").expect("valid for one device");
    let devices: Vec<_> = (0..20).map(|n| (format!("sd{n}"), true)).collect();
    let errors = config
        .engines_for(&devices, true)
        .expect_err("too many devices")
        .to_string();
    assert!(
        errors.contains("the share of `sd7`, 419430B of 8MiB for 20 devices"),
        "{errors}"
    );
    assert!(errors.contains("raise memory"), "{errors}");
}

#[test]
fn reports_everything_missing_on_the_machine() {
    let machine = Machine::new();
    let path = |name: &str| machine.path(name);
    fs::write(path("file"), "x").expect("a file");
    let text = format!(
        "memory = \"8TiB\"\n[tls]\ncertificate = {:?}\nkey = {:?}\n[log]\naccess = {:?}\nsessions = {:?}\n",
        path("no-cert.pem"),
        path("file"),
        path("no/a.log"),
        path(""),
    );
    let roots = [path("missing"), path("file"), path(""), path(".")]
        .map(PathBuf::from)
        .to_vec();
    let flags = Flags {
        roots,
        ..Flags::default()
    };
    let errors = machine.load(format!("memroy = 1\n{text}"), &flags);
    let errors = errors.expect_err("nothing is there");
    let found: Vec<_> = errors.lines().collect();
    let expected = [
        "T/h.toml:1: memroy: unknown key; did you mean `memory`?",
        "T/h.toml:2: memory: 8TiB is more than this machine has",
        "T/h.toml:4: tls.certificate: T/no-cert.pem cannot be read: No such file or directory (os error 2); name a PEM file",
        "DIR: roots: folder T/.: the same directory as T/; name it once",
        "DIR: roots: folder T/file: not a directory; name the directory that holds the titles",
        "DIR: roots: folder T/missing: no such directory; create it or correct the path",
    ];
    assert_eq!(found.len(), expected.len(), "{errors}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let text = "[pull.\"/v/\"]\norigin = \"http://127.0.0.1:9/\"\nfolder = \"gone\"\nbytes_max = \"1GiB\"\n";
    let judged = machine.load(text, &Flags::default());
    judged.expect("a missing folder is not a mistake");
}

#[test]
fn unavailable_parts_are_listed_but_are_not_mistakes() {
    let machine = Machine::new();
    let path = |name: &str| machine.path(name);
    let text = format!(
        "roots = [{:?}, {:?}]\nmemory = \"8MiB\"\nflash = [{:?}]\nstate = \"/proc\"\n[log]\naccess = {:?}\n",
        path("videos"),
        path("missing"),
        path("ssd"),
        path("no/a.log"),
    );
    fs::create_dir(path("videos")).expect("a folder");
    let config = machine.load(text, &Flags::default()).expect("no mistake");
    let ill = config.ill_parts();
    let ill: Vec<_> = ill.iter().map(|of| of.replace(&path(""), "T/")).collect();
    let expected = [
        "roots: folder T/missing: no such directory",
        "flash: T/ssd: cannot be opened",
        "log.access: the folder of T/no/a.log does not exist; create T/no",
        "state: /proc cannot be written to",
    ];
    assert_eq!(ill.len(), expected.len(), "{ill:?}");
    for (ill, expected) in ill.iter().zip(expected) {
        assert!(ill.starts_with(expected), "{ill}\n{expected}");
    }
}

#[test]
fn unclosed_list_is_reported_once() {
    let errors = errors_of("memroy = 1\nroots = [\"/a\"\nlisten = [\"127.0.0.1:0\"]\n");
    assert!(errors.contains("h.toml:3: not TOML"), "{errors}");
    assert!(errors.contains("h.toml:1: memroy: unknown key"), "{errors}");
    assert!(!errors.contains("roots:"), "{errors}");
}

#[test]
fn unusable_certificate_is_reported_at_load() {
    let machine = Machine::new();
    let path = |name: &str| machine.path(name);
    for name in ["one", "two"] {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
        fs::write(path(&format!("{name}.pem")), made.cert.pem()).expect("written");
        let key = made.signing_key.serialize_pem();
        fs::write(path(&format!("{name}.key")), key).expect("written");
    }
    fs::write(path("text"), "no PEM").expect("written");
    fs::create_dir(path("videos")).expect("a folder");
    let check = |certificate: &str, key: &str| {
        let (certificate, key) = (path(certificate), path(key));
        let text = format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
        machine.load(text, &flags(path("videos")))
    };
    let wrong = |certificate, key| check(certificate, key).expect_err("wrong");
    let no_pair = wrong("one.pem", "two.key");
    let expected =
        "T/h.toml:3: tls.key: the key in T/two.key is not the key of the certificate in T/one.pem";
    assert!(no_pair.starts_with(expected), "{no_pair}");
    let none = wrong("text", "one.key");
    let expected = "T/h.toml:2: tls.certificate: no certificate in T/text";
    assert!(none.starts_with(expected), "{none}");
    let none = wrong("one.pem", "text");
    let expected = "T/h.toml:3: tls.key: no private key in T/text";
    assert!(none.starts_with(expected), "{none}");
    check("two.pem", "two.key").expect("a pair");
}

#[test]
fn several_certificates_need_a_key_each() {
    let tls = |certificates: &str, keys: &str| {
        load(&format!(
            "[tls]\ncertificate = {certificates}\nkey = {keys}\n"
        ))
    };
    let config = tls("[\"a\", \"b\"]", "[\"c\", \"d\"]").expect("valid");
    let files = config.tls.files();
    let names: Vec<_> = files.iter().map(|of| (&of.certificate, &of.key)).collect();
    let path = PathBuf::from;
    assert_eq!(names, [(&path("a"), &path("c")), (&path("b"), &path("d"))]);
    assert!(config.show().contains("certificate = [\"a\", \"b\"]"));
    let one = tls("\"a\"", "\"c\"").expect("valid");
    assert!(one.show().contains("certificate = \"a\""));
    for (certificates, keys, said) in [
        ("[\"a\", \"b\"]", "\"c\"", "names 1 keys for 2 certificates"),
        ("\"a\"", "[\"c\", \"d\"]", "names 2 keys for 1 certificates"),
        (
            "3",
            "\"c\"",
            "does not fit; write a path in quotes, or a list",
        ),
        ("[\"\"]", "\"c\"", "the path is empty"),
    ] {
        let wrong = tls(certificates, keys).expect_err(said).to_string();
        assert!(wrong.contains(said), "{wrong}");
    }
}

#[test]
fn redirect_alone_is_no_address_for_viewers() {
    let text =
        "listen = []\n[tls]\ncertificate = \"a\"\nkey = \"b\"\nredirect = [\"0.0.0.0:80\"]\n";
    let wrong = load(text).expect_err("no address").to_string();
    assert!(wrong.contains("no address for viewers"), "{wrong}");
    let wrong = load("[tls]\nredirect = [\"127.0.0.1:8080\"]\n");
    let wrong = wrong.expect_err("two mistakes").to_string();
    assert!(
        wrong.contains("tls.redirect: has no certificate"),
        "{wrong}"
    );
    assert!(wrong.contains("is taken by another address"), "{wrong}");
}

#[test]
fn unsupported_congestion_control_is_reported_at_load() {
    let machine = Machine::new();
    let text = "[tcp]\ncongestion_control = \"nosuch\"\n";
    let mistakes = machine
        .load(text, &flags(machine.path("")))
        .expect_err("wrong");
    let expected = ":2: tcp.congestion_control: congestion control `nosuch` is not available";
    assert!(mistakes.contains(expected), "{mistakes}");
}

#[test]
fn log_paths_are_checked_at_load_without_creating_files() {
    let machine = Machine::new();
    let path = |name: &str| machine.path(name);
    fs::create_dir(path("videos")).expect("a folder");
    std::os::unix::fs::symlink("loop.log", path("loop.log")).expect("a link to itself");
    let check = |access: &str, sessions: &str| {
        let (access, sessions) = (path(access), path(sessions));
        let text = format!("[log]\naccess = {access:?}\nsessions = {sessions:?}\n");
        machine.load(text, &flags(path("videos")))
    };
    let wrong = |access, sessions| check(access, sessions).expect_err("wrong");
    let ill = check("loop.log", "b.log")
        .expect("not a mistake")
        .ill_parts();
    assert!(ill[0].contains("loop.log cannot be written:"), "{ill:?}");
    let served = wrong("a.log", "videos/b.log");
    assert!(
        served.contains("T/videos/b.log is in T/videos, which is served"),
        "{served}"
    );
    let both = wrong("a.log", "videos/../a.log");
    assert!(
        both.contains("is also the file of log.access; give each log"),
        "{both}"
    );
    let (at, mode) = (path("pipe"), rustix::fs::Mode::RWXU);
    rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    let config = check("pipe", "b.log").expect("a pipe is valid");
    let warnings = config.warnings(&[]);
    let is_told = |warning: &String| warning.contains("is a pipe; while no process reads it");
    assert!(warnings.iter().any(is_told), "{warnings:?}");
    check("a.log", "b.log").expect("valid");
    assert!(!Path::new(&path("a.log")).exists(), "no file is created");
}

#[test]
fn own_files_below_a_root_are_refused_and_all_are_reported() {
    let machine = Machine::new();
    let path = |name: &str| machine.path(name);
    fs::create_dir_all(path("videos/films")).expect("a folder");
    fs::create_dir_all(path("disk2")).expect("a folder");
    std::os::unix::fs::symlink(path("videos/films"), path("link")).expect("linked");
    let text = format!(
        "roots = [{:?}]\nlink_targets = [{:?}]\nmemory = \"8MiB\"\nstate = {:?}\nflash = [{:?}]\n\
         [tls]\ncertificate = {:?}\nkey = {:?}\n\
         [pull.\"/v/\"]\norigin = \"http://b.localhost:9/\"\nfolder = {:?}\n\
         bytes_max = \"1GiB\"\ns3_region = \"r\"\ns3_keys = {:?}\n",
        path("videos"),
        path("disk2"),
        path("disk2/state"),
        path("link/ssd"),
        path("videos/pair.pem"),
        path("videos/pair.key"),
        path("edge"),
        path("videos/keys"),
    );
    let told = machine.load(text, &Flags::default()).expect_err("wrong");
    let state = "state: T/disk2/state is in T/disk2, which is served";
    assert!(told.contains(state), "{told}");
    for (key, own) in [
        ("flash", "link/ssd"),
        ("tls.key", "videos/pair.key"),
        ("pull./v/.s3_keys", "videos/keys"),
    ] {
        let expected = format!("{key}: T/{own} is in T/videos, which is served");
        assert!(told.contains(&expected), "{expected}\n{told}");
    }
}

#[test]
fn device_mistakes_are_reported_with_all_others() {
    let machine = Machine::new();
    let text = "memroy = 1\n[device.\"no such disk\"]\nmemory = \"64MiB\"\n";
    let mistakes = machine
        .load(text, &flags(machine.path("")))
        .expect_err("wrong");
    let lines: Vec<&str> = mistakes.lines().collect();
    assert!(lines[0].contains(":1: memroy: unknown key"), "{mistakes}");
    let wanted = ":2: device.no such disk: no root lies on a device of that name";
    assert!(lines[1].contains(wanted), "{mistakes}");
}

#[test]
fn size_without_unit_is_reported_with_its_minimum() {
    let flags = Flags {
        memory: Some("8".into()),
        ..flags("/videos")
    };
    let mistakes = Config::from_text(Path::new(""), "", &flags).expect_err("no unit");
    let expected = "--memory: `8` has no unit; write a size such as \"2MiB\", at least 32KiB";
    assert_eq!(mistakes.to_string(), expected);
    let small = errors_of("memory = \"256KiB\"\n");
    assert!(
        small.contains("must hold at least eight pieces of 64KiB, 512KiB"),
        "{small}"
    );
}

#[test]
fn complete_machine_has_no_mistakes() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = Flags {
        memory: Some("8MiB".into()),
        ..flags(folder.path())
    };
    let config = Config::load(None, &flags).expect("nothing is missing");
    assert_eq!(config.engine.chain_gap, Duration::from_secs(40));
}

proptest! {
    #[test]
    fn parser_never_panics_on_any_file(text in ".*") {
        let _ = load(&text);
    }

    #[test]
    fn parser_never_panics_on_any_value(index in 0..rows().iter().count(), value in "-?[0-9]{1,30}|\"[a-z0-9:./\\-]{0,20}\"|\\[[0-9, ]*\\]|true|1979-05-27|0x[0-9a-f]{1,20}|[0-9]e9|inf") {
        let name = rows().iter().nth(index).map_or("", |row| row.name);
        let _ = load(&format!("{name} = {value}\n"));
    }

    #[test]
    fn sizes_survive_the_round_trip(pieces in 8u64..1 << 20, shift in 12u32..=21) {
        let text = format!("memory = \"{}B\"\npiece = \"{}B\"\nprefetch = \"{}B\"\n", pieces << shift, 1u64 << shift, 1u64 << shift);
        let config = load(&text).expect("valid");
        prop_assert_eq!(config.engine.memory_bytes, pieces << shift);
        prop_assert_eq!(load(&config.show()).expect("still valid"), config);
    }
}

#[test]
fn conflicting_addresses_are_rejected() {
    for (listen, admin, is_right) in [
        (r#"["0.0.0.0:80", "[::]:80"]"#, "127.0.0.1:81", false),
        (r#"["[::]:80", "10.0.0.1:80"]"#, "127.0.0.1:81", false),
        (r#"["[::]:80"]"#, "127.0.0.1:80", false),
        (r#"["[::]:80"]"#, "127.0.0.1:81", true),
        (r#"["0.0.0.0:80", "[::1]:80"]"#, "127.0.0.1:81", true),
        (r#"["0.0.0.0:0", "[::]:0"]"#, "127.0.0.1:0", true),
    ] {
        let text = format!("roots = [\"/srv\"]\nlisten = {listen}\nadmin = \"{admin}\"\n");
        let config = Config::from_text(Path::new("/x.toml"), &text, &Flags::default());
        assert_eq!(config.is_ok(), is_right, "{listen} {admin}");
    }
}

#[test]
fn tls_applies_to_all_addresses_or_to_tls_listen() {
    let on = |tls: &str| {
        let text = format!(
            "roots = [\"/srv\"]\nlisten = [\"127.0.0.1:80\"]\n[proxies]\nlisten = [\"127.0.0.1:81\"]\n\
             trusted = [\"127.0.0.1\"]\n[tls]\n{tls}"
        );
        Config::from_text(Path::new("/x.toml"), &text, &Flags::default())
    };
    let pair = "certificate = \"c.pem\"\nkey = \"k.pem\"\n";
    let speaks = |tls: &str| {
        let listeners = on(tls).expect("valid").listeners();
        let speaks = listeners.iter();
        let speaks = speaks.map(|on| (on.address.to_string(), on.is_for_proxies, on.speaks_tls));
        let speaks = speaks.map(|(address, proxy, tls)| {
            let (_, port) = address.rsplit_once(':').expect("a port");
            (port.parse().expect("a number"), proxy, tls)
        });
        speaks.collect::<Vec<(u16, bool, bool)>>()
    };
    assert_eq!(speaks(""), [(80, false, false), (81, true, false)]);
    assert_eq!(speaks(pair), [(80, false, true), (81, true, true)]);
    let both = format!("{pair}listen = [\"127.0.0.1:443\"]");
    assert_eq!(
        speaks(&both),
        [(80, false, false), (81, true, false), (443, false, true)]
    );
    let wrong = on("listen = [\"127.0.0.1:80\"]").expect_err("twice, and no certificate");
    let wrong = wrong.to_string();
    assert!(wrong.contains("has no certificate beside it"), "{wrong}");
    assert!(wrong.contains("is taken by another address"), "{wrong}");
}

#[test]
fn occupied_unix_socket_path_is_a_mistake() {
    let machine = Machine::new();
    let path = machine.path("web.sock");
    let text = format!(
        "roots = [\".\"]\nadmin = \"off\"\nunix_mode = \"666\"\nmemory = \"8MiB\"\n\
         [proxies]\nlisten = [\"unix:{path}\"]\n"
    );
    let load = || machine.load(&text, &Flags::default());
    let config = load().expect("a missing folder is not a mistake");
    assert_eq!(config.unix_mode, 0o666);
    assert!(config.show().contains("unix_mode = \"0666\""));
    fs::write(&path, "precious").expect("written");
    let mistakes = load().expect_err("no socket");
    assert!(
        mistakes.contains("proxies.listen: ") && mistakes.contains("is not a socket"),
        "{mistakes}"
    );
}

#[test]
fn warns_if_slow_log_is_off_and_resolves_its_path() {
    let warnings_of = |text: &str| load(text).expect("valid").warnings(&[]);
    let off = "[log]\nslow = \"off\"\nslow_after = \"1s\"\n";
    assert!(warnings_of(off)[0].starts_with("log.slow_after: "), "{off}");
    assert_eq!(
        warnings_of("[log]\nslow_after = \"1s\"\n"),
        Vec::<String>::new()
    );
    let text = "[log]\nslow = \"slow.log\"\n[tls]\ncertificate = \"c\"\nkey = \"k\"\n";
    let mut config = load(text).expect("valid");
    config.join_paths(Path::new("/etc/x"));
    assert_eq!(config.log.slow, LogTarget::File("/etc/x/slow.log".into()));
    assert_eq!(config.tls.key, [PathBuf::from("/etc/x/k")]);
}

#[test]
fn warns_about_admin_address_beyond_loopback() {
    let warnings = |admin: &str| {
        let config = load(&format!("admin = \"{admin}\"\n")).expect("valid");
        config.warnings(&[])
    };
    for loopback in ["127.0.0.1:8081", "127.1.2.3:1", "[::1]:8081", "off"] {
        assert_eq!(warnings(loopback), Vec::<String>::new(), "{loopback}");
    }
    for others in ["0.0.0.0:8081", "[::]:8081", "192.0.2.1:8081"] {
        let told = warnings(others);
        assert!(
            told[0].starts_with("admin: ") && told[0].contains("no password"),
            "{told:?}"
        );
    }
}

#[test]
fn file_of_nginx_or_in_other_encoding_is_named_as_such() {
    let machine = Machine::new();
    for (bytes, said) in [
        (
            &b"http {\n  server { root /srv; }\n}\n"[..],
            "looks like a configuration of nginx; convert it: headlong check --nginx ",
        ),
        (b"# a\n# \xe4\n", "line 2 is not UTF-8; save the file"),
    ] {
        let wrong = machine
            .load(bytes, &flags(machine.path("")))
            .expect_err(said);
        assert!(
            wrong.lines().count() == 1 && wrong.contains(said),
            "{wrong}"
        );
    }
}

#[test]
fn missing_certificate_is_reported_beside_missing_key() {
    let machine = Machine::new();
    let flags = Flags {
        memory: Some("8MiB".into()),
        ..flags(machine.path(""))
    };
    let wrong = machine.load("[tls]\ncertificate = \"missing.pem\"\n", &flags);
    let wrong = wrong.expect_err("two mistakes");
    assert!(wrong.contains("missing.pem cannot be read"), "{wrong}");
    assert!(wrong.contains("has no private key beside it"), "{wrong}");
}
