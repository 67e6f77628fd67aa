//! What can be wrong although every single value is right: contradictions, and this machine.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;

use headlong_engine::ConfigError as EngineError;
use headlong_units::{Bytes, Duration};

use super::engine::key_of;
use super::error::{ConfigErrors, Place};
use super::load::Loader;
use super::settings::{Admin, Config, LogSink};

/// Notes every contradiction. A key that is wrong already is not blamed again.
pub(super) fn contradictions(loader: &mut Loader<'_>) {
    nothing(loader);
    engine(loader);
    memory(loader);
    addresses(loader);
    texts(loader);
    let tls = &loader.config.tls;
    match (&tls.certificate, &tls.key) {
        (Some(_), None) if !loader.errors.is_about("tls.key") => loader.wrong(
            "tls.certificate",
            "has no private key beside it; add tls.key, or remove it to serve without TLS",
        ),
        (None, Some(_)) if !loader.errors.is_about("tls.certificate") => loader.wrong(
            "tls.key",
            "has no certificate beside it; add tls.certificate, or remove it to serve without TLS",
        ),
        _ => {}
    }
    if loader.config.roots.is_empty() && !loader.errors.is_about("roots") {
        let text = "nothing to serve; name at least one folder: headlong serve DIR";
        loader.wrong("roots", text);
    }
}

/// What the engine itself refuses, with its own words, for rotating devices and for flash.
fn engine(loader: &mut Loader<'_>) {
    // The devices named in the file have checks of their own.
    let alike = Config {
        device: BTreeMap::new(),
        ..loader.config.clone()
    };
    for rotational in [true, false] {
        let config = alike.engine_for("", rotational, 1);
        let errors: Vec<_> = config.check().collect();
        for error in errors {
            let key = key_of(error, rotational);
            let is_named = |name: &&str| loader.errors.is_about(name);
            let tables = ["chains_max", "streams_max"].iter().any(is_named);
            if tables && error == EngineError::EmptyTable || [key, "piece"].iter().any(is_named) {
                continue;
            }
            // Its words begin with the key, which is shown in front of them anyway.
            let text = error.to_string();
            let text = text.strip_prefix(key).unwrap_or(&text).trim_start();
            loader.wrong(key, text);
        }
    }
    let (piece, window) = (loader.config.piece, loader.config.send_window);
    if window < piece && !loader.errors.is_about("piece") && !loader.errors.is_about("send_window")
    {
        let text =
            format!("{window} is smaller than a piece ({piece}); raise send_window or lower piece");
        loader.wrong("send_window", text);
    }
}

/// Sizes against the budget.
fn memory(loader: &mut Loader<'_>) {
    let Config {
        memory,
        prefetch,
        piece,
        ..
    } = loader.config;
    if ["memory", "prefetch", "piece"]
        .iter()
        .any(|key| loader.errors.is_about(key))
    {
        return;
    }
    if prefetch > memory {
        let text = format!(
            "{prefetch} is larger than the whole memory ({memory}); raise memory or lower prefetch"
        );
        loader.wrong("prefetch", text);
    }
    let mut left = memory;
    for (name, device) in loader.config.device.clone() {
        let key = |key| format!("device.{name}.{key}");
        if device.outstanding_reads == Some(0) {
            let text = "no read could ever be made; write at least 1";
            loader.wrong(&key("outstanding_reads"), text);
        }
        if let Some(own) = device.memory {
            if own.0 / piece.0.max(1) < 8 {
                let text = format!("{own} holds fewer than eight pieces of {piece}; raise it");
                loader.wrong(&key("memory"), text);
            } else if own > left {
                let text = format!(
                    "{own} is more than what is left of memory ({left} of {memory}); raise memory \
                     or lower this"
                );
                loader.wrong(&key("memory"), text);
            }
            left = Bytes(left.0.saturating_sub(own.0));
        }
        let (own_memory, own_prefetch) = (device.memory, device.prefetch);
        if let Some(own) = own_prefetch.filter(|own| *own < piece) {
            let text = format!("{own} is smaller than a piece ({piece}); raise it or lower piece");
            loader.wrong(&key("prefetch"), text);
        }
        let (budget, reference) = (
            own_memory.unwrap_or(memory),
            own_prefetch.unwrap_or(prefetch),
        );
        if reference > budget && (own_memory.is_some() || own_prefetch.is_some()) {
            let written = if own_prefetch.is_some() {
                "prefetch"
            } else {
                "memory"
            };
            let text = format!(
                "one prefetch ({reference}) is larger than the device's memory ({budget}); raise \
                 memory or lower prefetch"
            );
            loader.wrong(&key(written), text);
        }
    }
}

/// No two listeners can have one port of one address.
fn addresses(loader: &mut Loader<'_>) {
    let listen = loader.config.listen.clone();
    if listen.is_empty() {
        loader.wrong(
            "listen",
            "no address for viewers; write at least one, such as 127.0.0.1:8080",
        );
    }
    for (index, address) in listen.iter().enumerate() {
        if listen[..index]
            .iter()
            .any(|other| collide(*other, *address))
        {
            let text = format!("{address} is taken by another address of the list; remove one");
            loader.wrong("listen", text);
        }
    }
    let Admin::Address(admin) = loader.config.admin else {
        return;
    };
    if loader.errors.is_about("admin") || loader.errors.is_about("listen") {
        return;
    }
    if let Some(address) = listen.iter().find(|address| collide(**address, admin)) {
        let text = format!(
            "{admin} is taken by listen = {address}; give the operator's pages a port of their own"
        );
        loader.wrong("admin", text);
    }
}

/// Whether both cannot be bound; port 0 asks for any free one.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_address = one.ip() == other.ip()
        || one.is_ipv4() == other.is_ipv4()
            && (one.ip().is_unspecified() || other.ip().is_unspecified());
    one.port() != 0 && one.port() == other.port() && same_address
}

/// Keys for which zero would mean that nothing ever happens.
fn nothing(loader: &mut Loader<'_>) {
    let config = &loader.config;
    let limits = &config.limits;
    let counts = [
        ("errors_offline", config.errors_offline),
        ("requests_max", config.requests_max),
        ("chains_max", config.chains_max),
        ("streams_max", config.streams_max),
        ("limits.connections_max", limits.connections_max),
        (
            "limits.requests_per_connection_max",
            limits.requests_per_connection_max,
        ),
        ("limits.ranges_max", limits.ranges_max),
    ];
    let times = [
        ("read_timeout", config.read_timeout),
        ("error_window", config.error_window),
        ("offline_retry", config.offline_retry),
        ("limits.header_timeout", limits.header_timeout),
        ("limits.idle_timeout", limits.idle_timeout),
        ("limits.send_timeout", limits.send_timeout),
        ("log.session_gap", config.log.session_gap),
    ];
    let rates = [
        ("reference_bit_rate", config.reference_bit_rate),
        ("pace_default", config.pace_default),
    ];
    let is_small = limits.header_bytes_max.0 < 8 << 10;
    for (key, count) in counts {
        if count == 0 {
            loader.wrong(key, "0 would let nothing through; write at least 1");
        }
    }
    for (key, time) in times {
        if time == Duration::ZERO {
            loader.wrong(
                key,
                "0s would end everything at once; write a time such as \"10s\"",
            );
        }
    }
    for (key, rate) in rates {
        if rate.0 == 0 {
            loader.wrong(
                key,
                "0bps plays nothing; write a bit rate such as \"2000kbps\"",
            );
        }
    }
    if is_small {
        let text = "is too small for the headers of some browsers; write at least \"8KiB\"";
        loader.wrong("limits.header_bytes_max", text);
    }
}

/// Texts that go into headers, or are looked for in them.
fn texts(loader: &mut Loader<'_>) {
    let is_token = |text: &str| {
        let marks = b"!#$%&'*+-.^_`|~";
        !text.is_empty()
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || marks.contains(&b))
    };
    let is_value = |text: &str| {
        text.bytes()
            .all(|b| b == b'\t' || (b' '..=b'~').contains(&b))
    };
    let config = &loader.config;
    let mut wrong = Vec::new();
    let session = &config.session;
    let names = [
        ("session.header", &session.header),
        ("session.cookie", &session.cookie),
    ];
    let names = names
        .into_iter()
        .filter_map(|(key, name)| Some((key, name.as_ref()?)));
    let headers = config
        .cors
        .headers
        .iter()
        .map(|name| ("cors.headers", name));
    for (key, name) in names.chain(headers) {
        if !is_token(name) {
            let text =
                format!("`{name}` cannot be a name in HTTP; use letters, digits and hyphens");
            wrong.push((key, text));
        }
    }
    if session.query.as_ref().is_some_and(String::is_empty) {
        wrong.push((
            "session.query",
            "is empty; name a key of the query, or remove it".into(),
        ));
    }
    if !is_value(&config.cache_control) {
        let text = "holds characters that no header may; write it like \"max-age=3600\"";
        wrong.push(("cache_control", text.into()));
    }
    for origin in &config.cors.origins {
        let rest = origin
            .strip_prefix("https://")
            .or_else(|| origin.strip_prefix("http://"));
        let is_origin = rest.is_some_and(|host| {
            !host.is_empty() && is_value(host) && !host.contains(['/', ' ', '*'])
        });
        if origin != "*" && !is_origin {
            let text = format!(
                "`{origin}` is not an origin; write \"*\", or scheme and host such as \
                 \"https://example.org\""
            );
            wrong.push(("cors.origins", text));
        }
    }
    for (key, text) in wrong {
        loader.wrong(key, text);
    }
}

impl Config {
    /// Whether this machine has what the configuration names: folders, certificates, folders for
    /// logs, and the memory. Reads folders and files; binds no port and reads no title.
    pub fn check_machine(&self) -> Result<(), ConfigErrors> {
        let mut errors = ConfigErrors::default();
        let mut wrong = |key: &str, text: String| errors.push(Place::Machine, key, text);
        let mut seen = BTreeMap::new();
        for root in &self.roots {
            if let Err(text) = check_root(root) {
                wrong("roots", text);
            } else if let Ok(real) = fs::canonicalize(root)
                && let Some(other) = seen.insert(real, root)
            {
                let (root, other) = (root.display(), other.display());
                wrong(
                    "roots",
                    format!("{root} is the same folder as {other}; name it once"),
                );
            }
        }
        let tls = [
            ("tls.certificate", &self.tls.certificate),
            ("tls.key", &self.tls.key),
        ];
        for (key, path) in tls {
            if let Some(path) = path
                && let Err(error) = File::open(path).and_then(|file| file.metadata())
            {
                let path = path.display();
                wrong(
                    key,
                    format!("{path} cannot be read: {error}; name a PEM file"),
                );
            }
        }
        for (key, sink) in [
            ("log.access", &self.log.access),
            ("log.sessions", &self.log.sessions),
        ] {
            if let LogSink::File(path) = sink
                && let Err(text) = check_log(path)
            {
                wrong(key, text);
            }
        }
        let machine = Bytes(memory_of_machine());
        if machine.0 > 0 && self.memory > machine {
            let text = format!(
                "{} is more than this machine has ({} MiB); lower memory",
                self.memory,
                machine.0 >> 20
            );
            wrong("memory", text);
        }
        errors.or(())
    }
}

fn check_root(root: &Path) -> Result<(), String> {
    let name = root.display();
    let metadata = fs::metadata(root)
        .map_err(|error| format!("{name} cannot be found: {error}; name a folder that exists"))?;
    if !metadata.is_dir() {
        return Err(format!(
            "{name} is not a folder; name the folder that holds the titles"
        ));
    }
    fs::read_dir(root).map(drop).map_err(|error| {
        format!("{name} cannot be read: {error}; let the server's user read and enter it")
    })
}

fn check_log(path: &Path) -> Result<(), String> {
    let name = path.display();
    if path.is_dir() {
        return Err(format!("{name} is a folder; name a file in it"));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    Err(format!(
        "{name} has no folder to be in; make {}",
        folder.display()
    ))
}

/// Bytes of memory, zero if the kernel does not say.
fn memory_of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}
