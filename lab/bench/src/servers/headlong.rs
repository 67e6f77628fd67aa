//! `headlong serve`.

use headlong_units::{Bytes, MIB};

use super::launch::{LaunchSpec, ListenAddress, ServerEnvironment, StatusSource, text};
use crate::command_builder::CommandBuilder;

/// Fraction of a memory limit reserved for the process itself: connections, sockets, tables, and
/// the allocator's overhead.
const OWN_PART: u64 = 8;
/// Reserve at least this, or half of a small limit.
const OWN_MIN: u64 = 64 * MIB;

/// Memory for pieces, out of a limit on the whole server's memory.
pub(crate) fn pool_memory(limit: u64) -> Bytes {
    let own = (limit / OWN_PART).max(OWN_MIN).min(limit / 2);
    Bytes((limit - own) / MIB * MIB)
}

pub(super) fn launch(config: &str, place: &ServerEnvironment) -> LaunchSpec {
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
