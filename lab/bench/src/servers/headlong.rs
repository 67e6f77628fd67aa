//! `headlong serve`, and `headlong mount` or the preloaded library for other servers.

use std::path::PathBuf;

use headlong_units::{Bytes, MIB};

use super::launch::{
    CommandBuilder, LaunchSpec, ListenAddress, ServerEnvironment, StatusSource, scaled_ms, text,
};

/// Fraction of a memory limit reserved for the process itself: connections, sockets, tables, and
/// the allocator's overhead.
const OWN_PART: u64 = 8;
/// Reserve at least this, or half of a small limit.
const OWN_MIN: u64 = 64 * MIB;

/// Memory for pieces, out of a limit on the whole server's memory.
pub fn pool_memory(limit: u64) -> Bytes {
    let own = (limit / OWN_PART).max(OWN_MIN).min(limit / 2);
    Bytes((limit - own) / MIB * MIB)
}

pub(super) fn serve(config: &str, place: &ServerEnvironment) -> LaunchSpec {
    let file = place.folder.join("headlong.toml");
    let CommandBuilder(command) = CommandBuilder::of(&place.headlong, "serve")
        .option("--config", file.display())
        .option("--time-scale", place.time_scale);
    LaunchSpec {
        under: Vec::new(),
        command,
        files: vec![(file, whole(config, place))],
        status: StatusSource::Http("/status"),
        listens: ListenAddress::Port(place.port),
    }
}

/// The experiment's keys and those set by the bench. Keys come before tables in TOML.
fn whole(config: &str, place: &ServerEnvironment) -> String {
    let mut table: toml::Table = config.parse().unwrap_or_default();
    let mut set = |key: &str, value: toml::Value| {
        table.insert(key.to_owned(), value);
    };
    let address = |port| toml::Value::from(format!("127.0.0.1:{port}"));
    set("roots", vec![text(&place.root)].into());
    set("listen", vec![address(place.port)].into());
    set("admin", address(place.admin_port));
    if place.front.is_some() {
        let trusted = vec![toml::Value::from("127.0.0.1")];
        let proxies = toml::Table::from_iter([("trusted".to_owned(), trusted.into())]);
        table.entry("proxies").or_insert(proxies.into());
    }
    if let Some((device, tier)) = &place.flash {
        table.insert("flash".to_owned(), vec![text(device)].into());
        tier.add_keys(&mut table);
    }
    if let Some(limit) = place.memory {
        let memory = toml::Value::from(pool_memory(limit).to_string());
        table.entry("memory").or_insert(memory);
        // The benchmark measures serving, not page clearing by the kernel.
        table.entry("memory_prefault").or_insert(true.into());
    }
    // A parsed table can always be printed.
    toml::to_string(&table).unwrap_or_default()
}

/// The mount point of `headlong mount`, which a third-party server uses as its root.
pub(super) fn mount_point(place: &ServerEnvironment) -> PathBuf {
    place.folder.join("mounted")
}

/// The daemon of the mount, within the server's memory limit.
pub(super) fn mount(place: &ServerEnvironment) -> LaunchSpec {
    let point = mount_point(place);
    let (file, keys) = place.reader_file();
    let CommandBuilder(command) = CommandBuilder::of(&place.headlong, "mount")
        .word(place.root.display())
        .word(point.display())
        .option("--time-scale", place.time_scale)
        .option("--config", file.display());
    LaunchSpec {
        under: Vec::new(),
        command,
        files: vec![(file, keys)],
        status: StatusSource::Mount(point.clone()),
        listens: ListenAddress::Mount(point),
    }
}

/// Default of `headlong run`: how long a call waits for the reception, seconds of model time.
const WAIT_SECONDS: f64 = 10.0;

fn socket(place: &ServerEnvironment) -> PathBuf {
    place.folder.join("reception.sock")
}

/// Prefix of the command of a server with the preloaded library.
pub(super) fn preload_words(place: &ServerEnvironment) -> Vec<String> {
    let wait = scaled_ms(WAIT_SECONDS, place);
    let words = CommandBuilder::of(&place.headlong, "run")
        .option("--socket", socket(place).display())
        .option("--wait", format_args!("{wait}ms"));
    words.plain("--only-if-helped --").0
}

/// The reception daemon of a preloaded library, within the server's memory limit.
pub(super) fn reception(place: &ServerEnvironment) -> LaunchSpec {
    let socket = socket(place);
    let (file, keys) = place.reader_file();
    let CommandBuilder(command) = CommandBuilder::of(&place.headlong, "reception")
        .option("--socket", socket.display())
        .option("--time-scale", place.time_scale)
        .option("--config", file.display());
    LaunchSpec {
        under: Vec::new(),
        command,
        files: vec![(file, keys)],
        status: StatusSource::Reception(socket.clone()),
        listens: ListenAddress::Socket(socket),
    }
}
