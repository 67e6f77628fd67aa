//! The servers of an experiment: `[server.NAME]` with its kind.

use std::collections::BTreeMap;
use std::path::Path;

use headlong_config::{Config, Flags};
use headlong_engine::{EngineConfig, knobs};
use headlong_settings::{
    Document, Mistakes, Rows, Tier, Value, ValueKind, choice, flag, key_part, quote, rate, size,
    suggestion, text, whole,
};

use super::drive::{CacheKind, cache};
use super::{
    ApacheSettings, BlockQueueOverrides, FrontProxy, NginxSettings, ServerKind, ServerSpec,
    WorkloadSpec,
};

#[derive(Clone, Copy, PartialEq)]
enum ServerKindName {
    Headlong,
    Nginx,
    Apache,
    Command,
}

const KINDS: [(&str, ServerKindName); 4] = [
    ("headlong", ServerKindName::Headlong),
    ("nginx", ServerKindName::Nginx),
    ("apache", ServerKindName::Apache),
    ("command", ServerKindName::Command),
];

const FRONTS: [(&str, FrontProxy); 2] = [
    (FrontProxy::Nginx.name(), FrontProxy::Nginx),
    (FrontProxy::HaProxy.name(), FrontProxy::HaProxy),
];

fn nginx_rows() -> Rows<NginxSettings> {
    let mut rows = Rows::<NginxSettings>::default();
    let aio = choice(&[("threads", true), ("off", false)]);
    rows.add("aio", aio, |n| &mut n.aio_threads, "");
    rows.add("threads", some(), |n| &mut n.threads, "");
    rows.add("workers", some(), |n| &mut n.workers, "");
    rows.add("sendfile", flag(), |n| &mut n.sendfile, "");
    rows.add("directio", size().optional(), |n| &mut n.directio_bytes, "");
    rows.add("directives", text(), |n| &mut n.directives, "");
    rows
}

fn apache_rows() -> Rows<ApacheSettings> {
    let mut rows = Rows::<ApacheSettings>::default();
    rows.add("mmap", flag(), |a| &mut a.mmap, "");
    rows.add("sendfile", flag(), |a| &mut a.sendfile, "");
    rows.add("workers", some(), |a| &mut a.workers, "");
    rows.add("directives", text(), |a| &mut a.directives, "");
    rows
}

/// All servers; a server of unknown kind is reported and left out.
pub(super) fn servers(
    document: &mut Document,
    workloads: &BTreeMap<String, WorkloadSpec>,
) -> BTreeMap<String, ServerSpec> {
    let mut all = BTreeMap::new();
    for name in document.children("server") {
        let table = format!("server.{name}");
        let mut kernel = BlockQueueOverrides::default();
        kernel_rows().read(document, &format!("{table}.kernel"), &mut kernel);
        let starts = format!("{table}.rate_start");
        let rate_start = by_name(document, &starts, &rate());
        known(document, &starts, rate_start.keys(), workloads);
        let about = document.get(&format!("{table}.about"), &text());
        let front = document.get(&format!("{table}.front"), &choice(&FRONTS));
        let cache = cache(document, &format!("{table}.cache"));
        let preload = document.get(&format!("{table}.preload"), &flag());
        let has_flash = document.get(&format!("{table}.flash"), &flag());
        let mount = document.get(&format!("{table}.mount"), &flag());
        let reader = keys_below(document, &format!("{table}.reader"));
        let engine = engine(document, &format!("{table}.config"));
        let Some(kind) = server_kind(document, &table) else {
            // Without a kind, the other keys cannot be checked.
            document.below(&table);
            continue;
        };
        let (preload, mount) = (preload.unwrap_or(false), mount.unwrap_or(false));
        if preload && matches!(kind, ServerKind::Headlong { .. }) {
            let text = "is for other servers: headlong serve bypasses the page cache";
            document.wrong(&format!("{table}.preload"), text);
        }
        let can_have_flash = matches!(kind, ServerKind::Headlong { .. });
        if has_flash == Some(true) && !can_have_flash {
            let text = "is for headlong: the tier is its own";
            document.wrong(&format!("{table}.flash"), text);
        } else if has_flash == Some(true) && !document.is_written("flash") {
            let text = "needs a table [flash]";
            document.wrong_too(&format!("{table}.flash"), text);
        }
        let wrong_cache = match cache {
            Some(_) if can_have_flash => Some("is for other servers: headlong has its own tier"),
            Some(_) if front.is_some() => {
                Some("cannot be combined with front; viewers connect to one of them")
            }
            Some(_) if !document.is_written("flash") => {
                Some("needs a table [flash] that says which SSD it is on")
            }
            Some(cache) if cache.kind == CacheKind::Zfs && (preload || mount) => {
                Some("of this kind is a file system; no other reader can be used")
            }
            _ => None,
        };
        if let Some(text) = wrong_cache {
            document.wrong_too(&format!("{table}.cache"), text);
        }
        if mount && matches!(kind, ServerKind::Headlong { .. }) {
            let text = "is for other servers: headlong serve needs no mount";
            document.wrong(&format!("{table}.mount"), text);
        } else if mount && preload {
            let text = "cannot be combined with preload; use one reader";
            document.wrong(&format!("{table}.mount"), text);
        }
        check_reader(
            document,
            &format!("{table}.reader"),
            &reader,
            (preload, mount),
        );
        let server = ServerSpec {
            has_flash: has_flash.unwrap_or(can_have_flash),
            kind,
            front,
            cache,
            preload,
            mount,
            engine,
            reader,
            kernel,
            rate_start,
            about: about.unwrap_or_default(),
        };
        all.insert(name, server);
    }
    all
}

fn server_kind(document: &mut Document, table: &str) -> Option<ServerKind> {
    let key = |key: &str| format!("{table}.{key}");
    let kind = document.get(&key("kind"), &choice(&KINDS));
    if kind.is_none() {
        let text = "is missing; write headlong, nginx, apache or command";
        document.wrong_too(&key("kind"), text);
    }
    Some(match kind? {
        ServerKindName::Headlong => headlong(document, &key("config")),
        ServerKindName::Nginx => ServerKind::Nginx(nginx(document, table)),
        ServerKindName::Apache => {
            let mut apache = ApacheSettings::default();
            apache_rows().read(document, table, &mut apache);
            ServerKind::Apache(apache)
        }
        ServerKindName::Command => {
            let words = document.get(&key("command"), &text().list());
            let words = words.unwrap_or_default();
            if !words.iter().any(|word| word.contains("{port}")) {
                let text = "must name its port: write {port} where it belongs, and {root}";
                document.wrong_too(&key("command"), text);
            }
            ServerKind::Command { words }
        }
    })
}

/// Takes the settings that only simulations can change from a headlong server's configuration.
fn engine(document: &mut Document, table: &str) -> Vec<(String, String)> {
    let mut taken = Vec::new();
    let knobs = knobs();
    for row in knobs.iter().filter(|row| row.tier == Tier::Lab) {
        let key = format!("{table}.{}", row.name);
        let Some(value) = document.take(&key) else {
            continue;
        };
        if let Err(text) = knobs.set(&mut EngineConfig::default(), row.name, &value) {
            document.wrong(&key, text);
        }
        taken.push((row.name.to_owned(), value.to_word()));
    }
    taken
}

/// The keys of a table, as TOML text.
fn keys_below(document: &mut Document, table: &str) -> String {
    let line = |(key, value): (String, Value)| {
        let parts: Vec<String> = key.split('.').map(key_part).collect();
        format!("{} = {}\n", parts.join("."), value.to_toml())
    };
    document.below(table).into_iter().map(line).collect()
}

/// Checks the keys of a server's reader before any process starts.
fn check_reader(document: &mut Document, table: &str, keys: &str, who: (bool, bool)) {
    let checked = match who {
        _ if keys.is_empty() => return,
        (true, _) => {
            headlong_reception::Settings::from_text("reader", keys, &Default::default()).map(|_| ())
        }
        (_, true) => headlong_mount::Settings::from_text("reader", keys).map(|_| ()),
        _ => {
            let text = "is for servers with preload or mount: it sets their reader";
            return document.wrong_too(table, text);
        }
    };
    for mistake in checked.err().iter().flat_map(Mistakes::iter) {
        document.wrong(&format!("{table}.{}", mistake.key), &mistake.text);
    }
}

/// Checks the configuration with headlong's own rules before any process starts.
fn headlong(document: &mut Document, table: &str) -> ServerKind {
    let config = keys_below(document, table);
    let flags = Flags {
        roots: vec!["/".into()],
        ..Flags::default()
    };
    if let Err(mistakes) = Config::from_text(Path::new("config"), &config, &flags) {
        for mistake in mistakes.iter() {
            document.wrong(&format!("{table}.{}", mistake.key), &mistake.text);
        }
    }
    ServerKind::Headlong { config }
}

fn nginx(document: &mut Document, table: &str) -> NginxSettings {
    let mut nginx = NginxSettings::default();
    nginx_rows().read(document, table, &mut nginx);
    if !nginx.aio_threads && !document.is_written(&format!("{table}.workers")) {
        // Blocking workers: one per concurrent request.
        nginx.workers = 64;
    }
    let buffers = format!("{table}.output_buffers");
    let number = document.get(&format!("{buffers}.number"), &some());
    let size = document.get(&format!("{buffers}.size"), &size());
    if document.is_written(&buffers) && (number.is_none() || size.is_none()) {
        document.wrong(&buffers, "write both: { number = 2, size = \"512KiB\" }");
    }
    nginx.output_buffers = number.zip(size);
    nginx
}

const SCHEDULERS: &[&str] = &["none", "mq-deadline", "bfq", "kyber"];

#[rustfmt::skip]
pub(super) fn kernel_rows() -> Rows<BlockQueueOverrides> {
    let mut rows = Rows::<BlockQueueOverrides>::default();
    rows.add("scheduler", one_of(SCHEDULERS).optional(), |k| &mut k.scheduler, "");
    rows.add("read_ahead_kb", whole().at_least(0).optional(), |k| &mut k.read_ahead_kb, "");
    rows.add("max_sectors_kb", some().optional(), |k| &mut k.max_sectors_kb, "");
    rows
}

/// A whole number, at least 1.
pub(super) fn some() -> ValueKind<u32> {
    whole().at_least(1)
}

/// One of these names, as text.
pub(super) fn one_of(names: &'static [&'static str]) -> ValueKind<String> {
    let names: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
    let known = choice(&names);
    let form = known.form().to_owned();
    let read = move |value: &Value| Ok(known.read(value)?.to_owned());
    ValueKind::new(form, read, |name: &String| quote(name))
}

/// Reports names that are not in `all`.
pub(super) fn known<'n, T>(
    document: &mut Document,
    key: &str,
    names: impl Iterator<Item = &'n String>,
    all: &BTreeMap<String, T>,
) {
    for name in names.filter(|name| !all.contains_key(*name)) {
        let hint = suggestion(name, all.keys().map(String::as_str));
        document.wrong(key, format!("`{name}` is not in this experiment; {hint}"));
    }
}

/// Values keyed by user-chosen names.
pub(super) fn by_name<V: 'static>(
    document: &mut Document,
    table: &str,
    kind: &ValueKind<V>,
) -> BTreeMap<String, V> {
    let mut found = BTreeMap::new();
    for (name, value) in document.below(table) {
        match kind.read(&value) {
            Ok(value) => {
                found.insert(name, value);
            }
            Err(why) => document.wrong(&format!("{table}.{name}"), why),
        }
    }
    found
}
