//! Settings of the whole server: limits, logs, proxies, compression.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::net::IpAddr;

use headlong_settings::quote;
use headlong_units::{Bytes, KIB};

use crate::finding::Findings;
use crate::quantity;
use crate::scope::Scope;
use crate::syntax::{Directive, variable};
use crate::table::{Table, list};

/// Adds the settings of the server in `scope`.
pub(crate) fn convert(scope: &Scope<'_>, tables: &mut Vec<Table>, findings: &mut Findings) {
    compression(scope, &mut tables[0]);
    tables.extend([limits(scope, findings), log(scope, findings)]);
    proxies(scope, tables, findings);
}

fn compression(scope: &Scope<'_>, top: &mut Table) {
    let gzip = scope.last("gzip");
    let ready = scope.last("gzip_static").filter(|of| of.arg(0) != "off");
    let is_off = gzip.is_some_and(|of| of.arg(0) == "off");
    let kinds = [("dynamic", !is_off), ("static", ready.is_some())];
    let kinds: Vec<&str> = kinds
        .into_iter()
        .filter(|(_, is_on)| *is_on)
        .map(|(name, _)| name)
        .collect();
    // The default.
    if kinds != ["dynamic"]
        && let Some(of) = ready.or(gzip)
    {
        top.set("gzip", list(kinds), of);
    }
}

fn limits(scope: &Scope<'_>, findings: &mut Findings) -> Table {
    let mut table = Table::new("limits");
    for (name, key) in [
        ("client_header_timeout", "header_timeout"),
        ("keepalive_timeout", "idle_timeout"),
        ("send_timeout", "send_timeout"),
    ] {
        let Some(of) = scope.last(name) else { continue };
        match quantity::time(of.arg(0)) {
            Some(time) if time.0 > 0 => table.set(key, quote(&time.to_string()), of),
            _ => findings.add(of, format!("0 is not possible: lower {key} instead")),
        }
    }
    if let Some(of) = scope.last("keepalive_requests") {
        match of.arg(0).parse::<u32>() {
            Ok(number) if number > 0 => {
                table.set("requests_per_connection_max", number.to_string(), of)
            }
            _ => findings.add(of, "not a number: the default is used"),
        }
    }
    if let Some(of) = scope.last("large_client_header_buffers") {
        let bytes = of.arg(0).parse::<u64>().ok().zip(quantity::size(of.arg(1)));
        match bytes.and_then(|(number, size)| number.checked_mul(size.0)) {
            Some(bytes) if bytes >= 8 * KIB => {
                table.set("header_bytes_max", quote(&Bytes(bytes).to_string()), of);
            }
            _ => findings.add(of, "less than the least, 8 KiB: the default is used"),
        }
    }
    table
}

fn log(scope: &Scope<'_>, findings: &mut Findings) -> Table {
    let mut table = Table::new("log");
    let all = scope.all(&["access_log"]);
    let Some((of, others)) = all.split_first() else {
        return table;
    };
    for other in others {
        findings.add(other, "there is one access log: the first is converted");
    }
    match (of.arg(0), scope.constant(of.arg(0))) {
        ("off", _) => table.set("access", quote("off"), of),
        (text, _) if text.starts_with("syslog:") => {
            findings.add(
                of,
                "write `access = \"stdout\"` and let systemd send it on (logs.md)",
            );
        }
        (_, Ok(path)) if path.starts_with('/') => {
            if let Some(condition) = of.args.iter().find(|arg| arg.starts_with("if=")) {
                findings.add(of, format!("{condition}: here all requests are logged"));
            }
            table.set("access", quote(&path), of);
            log_format(scope, of, &mut table, findings);
        }
        _ => findings.add(of, "not one whole path: write the file in log.access"),
    }
    table
}

fn log_format(scope: &Scope<'_>, of: &Directive, table: &mut Table, findings: &mut Findings) {
    table.set("format", quote("combined"), of);
    let name = match of.arg(1) {
        "" | "combined" => return,
        name if name.contains('=') => return,
        name => name,
    };
    let format = scope
        .everywhere()
        .find(|of| of.name == "log_format" && of.arg(0) == name);
    let words = format.map(|of| of.args.join(" ")).unwrap_or_default();
    let (mut fields, mut rest): (Vec<String>, _) = (Vec::new(), words.as_str());
    while let Some((_, name, after)) = variable(rest) {
        let field = match name.as_str() {
            "host" | "http_host" => Some("Host".to_owned()),
            // These are in each line.
            "http_user_agent" | "http_referer" | "http_range" => None,
            name => name
                .strip_prefix("http_")
                .map(|name| name.replace('_', "-")),
        };
        fields.extend(field.filter(|field| !fields.contains(field)));
        rest = after;
    }
    if !fields.is_empty() {
        table.set("headers", list(fields), format.unwrap_or(of));
    }
    findings.add(
        of,
        format!(
            "the format {name} becomes `combined`, which begins as nginx's and has more \
            at its end (logs.md)"
        ),
    );
}

fn proxies(scope: &Scope<'_>, tables: &mut Vec<Table>, findings: &mut Findings) {
    let from = scope.all(&["set_real_ip_from"]);
    let mut networks = Vec::new();
    for of in &from {
        match (of.arg(0), network(of.arg(0))) {
            // Peers on a unix socket are trusted.
            ("unix:", _) => {}
            (_, Some(network)) => networks.push(network),
            (_, None) => findings.add(of, "not a network: write it in proxies.trusted"),
        }
    }
    let Some(first) = from.first().filter(|_| !networks.is_empty()) else {
        return;
    };
    let position = tables.iter().position(|table| table.name == "proxies");
    let position = position.unwrap_or_else(|| {
        tables.push(Table::new("proxies"));
        tables.len() - 1
    });
    tables[position].set("trusted", list(networks), first);
    if let Some(of) = scope.last("real_ip_header") {
        match of.arg(0).to_ascii_lowercase().as_str() {
            "x-forwarded-for" | "proxy_protocol" => {}
            "forwarded" => tables[position].set("header", quote("forwarded"), of),
            _ => findings.add(
                of,
                "let the proxy set X-Forwarded-For or Forwarded: no other field is read",
            ),
        }
    }
}

/// A network without bits beyond its prefix, or an address.
fn network(text: &str) -> Option<String> {
    let Some((address, length)) = text.split_once('/') else {
        return text
            .parse::<IpAddr>()
            .ok()
            .map(|address| address.to_string());
    };
    let length: u32 = length.parse().ok()?;
    let address = match address.parse().ok()? {
        IpAddr::V4(address) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) if length <= 128 => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
        _ => return None,
    };
    Some(format!("{address}/{length}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_lose_bits_beyond_their_prefix() {
        for (text, expected) in [
            ("10.0.0.1/8", Some("10.0.0.0/8")),
            ("2001:db8::1/32", Some("2001:db8::/32")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("10.0.0.0/33", None),
            ("cdn.example", None),
        ] {
            assert_eq!(network(text).as_deref(), expected, "{text}");
        }
    }
}
