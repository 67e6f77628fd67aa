//! Contradictions between settings whose values are valid individually.

use std::net::SocketAddr;

use headlong_engine::{ConfigError as EngineError, Prefetch};
use headlong_net::ListenAddress;
use headlong_settings::Document;
use headlong_units::Bytes;

use crate::cors;
use crate::settings::{Admin, Config};
use crate::steering;

/// A link of 10 Gbit/s in bytes per second: as the least rate of a client it ends every reply.
const SEND_RATE_MAX: u64 = 1_250_000_000;

/// Reports every contradiction. A setting with an earlier mistake is not reported again.
pub(crate) fn contradictions(document: &mut Document, config: &Config) {
    disks(document, config);
    addresses(document, config);
    cors::contradictions(document, config);
    steering::contradictions(document, config);
    let mut lacks = |has: &str, lacks: &str, what: &str| {
        if !document.mistakes.is_about(lacks) {
            let text =
                format!("has no {what} beside it; add {lacks}, or remove it to serve without TLS");
            document.wrong(has, text);
        }
    };
    match (config.tls.certificate.len(), config.tls.key.len()) {
        (1.., 0) => lacks("tls.certificate", "tls.key", "private key"),
        (0, 1..) => lacks("tls.key", "tls.certificate", "certificate"),
        (0, 0) => {
            for (key, addresses) in [
                ("tls.listen", &config.tls.listen),
                ("tls.redirect", &config.tls.redirect),
            ] {
                if !addresses.is_empty() {
                    lacks(key, "tls.certificate", "certificate");
                }
            }
        }
        (certificates, keys) if certificates != keys => {
            let text = format!(
                "names {keys} keys for {certificates} certificates; name the key of each \
                 certificate, in the same order"
            );
            document.wrong_too("tls.key", text);
        }
        _ => {}
    }
    let rate = config.limits.send_bytes_per_second();
    if rate > SEND_RATE_MAX {
        let text = format!(
            "is {} a second with send_timeout, more than any client accepts, so every reply would be \
             cut; lower it",
            Bytes(rate).rounded()
        );
        document.wrong("limits.send_bytes_min", text);
    }
    if config.folders().is_empty() {
        let text = "nothing to serve; name at least one folder: headlong serve DIR";
        document.wrong_too("roots", text);
    }
}

/// Contradictions between the settings of disks.
pub(crate) fn disks(document: &mut Document, config: &Config) {
    engine(document, config);
    memory(document, config);
}

/// Errors that the engine reports.
fn engine(document: &mut Document, config: &Config) {
    for error in config.engine.check() {
        if document.mistakes.is_about("piece") {
            continue;
        }
        let text = match error {
            EngineError::Memory if config.process_memory.is_some() => {
                let text = "leaves less than eight pieces for file data beside connections and \
                            the program; raise process_memory or lower limits.connections_max";
                document.wrong_too("process_memory", text);
                continue;
            }
            EngineError::Memory => {
                let piece = config.engine.piece_bytes;
                let (piece, least) = (Bytes(piece), Bytes(8 * piece));
                format!(
                    "must hold at least eight pieces of {piece}, {least}; raise it or lower piece"
                )
            }
            other => other.reason().to_owned(),
        };
        document.wrong_too(error.setting(), text);
    }
}

/// Sizes that exceed the memory budget.
fn memory(document: &mut Document, config: &Config) {
    let wrong = |key: &&str| document.mistakes.is_about(key);
    if ["memory", "prefetch", "piece"].iter().any(wrong) {
        return;
    }
    let engine = &config.engine;
    let (memory, piece) = (Bytes(engine.memory_bytes), Bytes(engine.piece_bytes));
    if let Some(prefetch) = engine.prefetch().size().filter(|size| *size > memory.0) {
        let prefetch = Bytes(prefetch);
        let text = format!(
            "{prefetch} is larger than the whole memory ({memory}); raise memory or lower prefetch"
        );
        document.wrong("prefetch", text);
    }
    let mut left = memory;
    for (name, device) in &config.device {
        let key = |key| format!("device.{name}.{key}");
        if let Some(own) = device.memory.map(Bytes) {
            if own.0 / piece.0.max(1) < 8 {
                let text = format!("{own} holds fewer than eight pieces of {piece}; raise it");
                document.wrong(&key("memory"), text);
            } else if own > left {
                let text = format!(
                    "{own} is more than what is left of memory ({left} of {memory}); raise memory \
                     or lower this"
                );
                document.wrong(&key("memory"), text);
            }
            left = Bytes(left.0.saturating_sub(own.0));
        }
        let own_size = device.prefetch.and_then(Prefetch::size).map(Bytes);
        if let Some(own) = own_size.filter(|own| *own < piece) {
            let text = format!("{own} is smaller than a piece ({piece}); raise it or lower piece");
            document.wrong(&key("prefetch"), text);
        }
        let written = match (device.prefetch, device.memory) {
            (Some(_), _) => "prefetch",
            (None, Some(_)) => "memory",
            (None, None) => continue,
        };
        let budget = Bytes(device.memory.unwrap_or(memory.0));
        let size = device.prefetch.unwrap_or(engine.prefetch()).size();
        if let Some(size) = size.map(Bytes).filter(|size| *size > budget) {
            let text = format!(
                "one prefetch ({size}) is larger than the device's memory ({budget}); raise \
                 memory or lower prefetch"
            );
            document.wrong(&key(written), text);
        }
    }
}

/// Addresses that two listeners cannot share.
fn addresses(document: &mut Document, config: &Config) {
    let for_proxies = &config.proxies.listen;
    let keys = [
        ("listen", &config.listen),
        ("proxies.listen", for_proxies),
        ("tls.listen", &config.tls.listen),
        ("tls.redirect", &config.tls.redirect),
    ];
    if config.listeners().iter().all(|on| on.redirects) {
        document.wrong_too(
            "listen",
            "no address for viewers; write at least one, such as 127.0.0.1:8080",
        );
    }
    let is_ip = |address: &ListenAddress| matches!(address, ListenAddress::Ip(_));
    if for_proxies.iter().any(is_ip) && config.proxies.trusted.is_empty() {
        let text = "no proxy could connect there, as none is trusted; write the proxies' addresses \
                    in proxies.trusted";
        document.wrong_too("proxies.listen", text);
    }
    let mut seen: Vec<&ListenAddress> = Vec::new();
    for (key, address) in keys
        .iter()
        .flat_map(|(key, all)| all.iter().map(move |a| (*key, a)))
    {
        if seen.iter().any(|other| collide(other, address)) {
            let text = format!(
                "{address} is taken by another address of the list ([::] and 0.0.0.0 are all \
                 addresses, and [::] is IPv4, too); remove one"
            );
            document.wrong(key, text);
        }
        seen.push(address);
    }
    let taken = keys.iter();
    let mut taken: Vec<_> = taken
        .flat_map(|(key, all)| all.iter().map(move |address| (*key, address)))
        .collect();
    let admin = match &config.admin {
        Admin::Off => None,
        Admin::Address(admin) => Some(("admin", admin, "the operator's pages one of their own")),
    };
    let agent = config.agent.as_ref();
    let agent = agent.map(|agent| ("agent", agent, "the agent one of its own"));
    for (own, wanted, remedy) in admin.into_iter().chain(agent) {
        for (key, address) in &taken {
            if collide(address, wanted) && !document.mistakes.is_about(key) {
                let text = format!("{wanted} is taken by {key} = {address}; give {remedy}");
                document.wrong_too(own, text);
            }
        }
        taken.push((own, wanted));
    }
}

/// Whether the two addresses conflict; port 0 means any free port.
fn collide(one: &ListenAddress, other: &ListenAddress) -> bool {
    let (ListenAddress::Ip(one), ListenAddress::Ip(other)) = (one, other) else {
        return one == other;
    };
    // `[::]` includes IPv4.
    let takes = |one: &SocketAddr, other: &SocketAddr| {
        one.ip().is_unspecified() && (one.is_ipv6() || other.is_ipv4())
    };
    let same_address = one.ip() == other.ip() || takes(one, other) || takes(other, one);
    one.port() != 0 && one.port() == other.port() && same_address
}
