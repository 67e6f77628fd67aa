//! What can be wrong although every single value can be read: contradictions, and values for
//! which nothing would ever work.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use headlong_engine::ConfigError as EngineError;
use headlong_units::{Bytes, Duration};

use super::engine::key_of;
use super::load::Loader;
use super::settings::{Admin, Config, Prefetch};
use super::texts;

/// Notes every contradiction. A key that is wrong already is not blamed again.
pub(super) fn contradictions(loader: &mut Loader<'_>) {
    nothing(loader);
    engine(loader);
    memory(loader);
    addresses(loader);
    texts::check(loader);
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
    if loader.config.time_scale == 0 {
        loader.wrong(
            "time_scale",
            "0 would stop the clocks; write 1 for real time",
        );
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
    if let Some(prefetch) = prefetch.size().filter(|size| *size > memory) {
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
        let own_size = own_prefetch.and_then(Prefetch::size);
        if let Some(own) = own_size.filter(|own| *own < piece) {
            let text = format!("{own} is smaller than a piece ({piece}); raise it or lower piece");
            loader.wrong(&key("prefetch"), text);
        }
        let budget = own_memory.unwrap_or(memory);
        let reference = own_prefetch.unwrap_or(prefetch).size();
        let too_large = reference.filter(|reference| *reference > budget);
        if let Some(reference) = too_large
            && (own_memory.is_some() || own_prefetch.is_some())
        {
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
        ("open_files_max", config.open_files_max),
        ("limits.requests_at_once_max", limits.requests_at_once_max),
        ("limits.headers_max", limits.headers_max),
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
        ("limits.keep_alive_interval", limits.keep_alive_interval),
        ("limits.send_timeout", limits.send_timeout),
        ("log.session_gap", config.log.session_gap),
    ];
    let rates = [
        ("reference_bit_rate", config.reference_bit_rate),
        ("pace_default", config.pace_default),
    ];
    let is_small = limits.header_bytes_max.0 < 8 << 10;
    let is_huge = config.tcp.unsent_max.0 > 1 << 30;
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
    if is_huge {
        let text = "is more than the kernel can be told; write at most \"1GiB\"";
        loader.wrong("tcp.unsent_max", text);
    }
}
