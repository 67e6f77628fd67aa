//! `listen` and certificates.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use headlong_settings::quote;

use crate::finding::Findings;
use crate::scope::Scope;
use crate::syntax::Directive;
use crate::table::{Table, list};

/// Addresses of viewers, by what is spoken there.
#[derive(Debug, Default)]
pub(crate) struct Addresses<'a> {
    plain: Vec<String>,
    tls: Vec<String>,
    proxies: Vec<String>,
    redirects: Vec<String>,
    first_redirect: Option<&'a Directive>,
    first: Option<&'a Directive>,
    first_tls: Option<&'a Directive>,
    first_proxies: Option<&'a Directive>,
    /// The servers with certificates.
    tls_servers: Vec<&'a [Directive]>,
}

/// The address of a `listen`, as Headlong writes it.
fn address(text: &str) -> Option<String> {
    let any = |port: u16| format!("0.0.0.0:{port}");
    if text.starts_with("unix:/") {
        return Some(text.to_owned());
    }
    if let Ok(port) = text.parse() {
        return Some(any(port));
    }
    if let Some(port) = text.strip_prefix("*:") {
        return port.parse().ok().map(any);
    }
    let text = match text.strip_prefix("localhost") {
        Some(port) => &format!("127.0.0.1{port}"),
        None => text,
    };
    let whole = text.parse::<SocketAddr>().ok();
    let alone = || text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    let address = whole.or_else(|| alone().map(|ip| SocketAddr::new(ip, 80)))?;
    Some(address.to_string())
}

/// The port that a `listen` names, by which nginx tells servers apart.
pub(crate) fn port(listen: &str) -> &str {
    match listen.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port,
        _ if listen.bytes().all(|b| b.is_ascii_digit()) => listen,
        _ => "80",
    }
}

/// Whether only programs of this machine reach a server.
pub(crate) fn is_local(server: &Directive) -> bool {
    let is_of_machine = |listen: &str| match address(listen) {
        Some(text) => {
            let address = text.parse::<SocketAddr>();
            address.map_or(text.starts_with("unix:"), |of| of.ip().is_loopback())
        }
        None => false,
    };
    let listens = server.inside().iter().filter(|of| of.name == "listen");
    let mut listens = listens.map(|of| is_of_machine(of.arg(0))).peekable();
    listens.peek().is_some() && listens.all(|is_of_machine| is_of_machine)
}

impl<'a> Addresses<'a> {
    /// Adds those of a server.
    pub(crate) fn add(&mut self, server: &'a [Directive], findings: &mut Findings) {
        let is_old_tls = server
            .iter()
            .any(|of| of.name == "ssl" && of.arg(0) == "on");
        for of in server.iter().filter(|of| of.name == "listen") {
            let has = |option: &str| of.args.iter().any(|arg| arg == option);
            if has("quic") {
                findings.add(
                    of,
                    "HTTP/3 is not served: keep nginx or HAProxy in front (features.md)",
                );
                continue;
            }
            let Some(address) = address(of.arg(0)) else {
                findings.add(
                    of,
                    "not a numeric address: write address and port in `listen`",
                );
                continue;
            };
            let is_tls = has("ssl") || is_old_tls;
            let (list, first) = match (has("proxy_protocol"), is_tls) {
                (true, true) => {
                    let text = "TLS behind the PROXY protocol beside other addresses: let the \
                        proxy \
                                end TLS, and write the address in proxies.listen";
                    findings.add(of, text);
                    continue;
                }
                (true, false) => (&mut self.proxies, &mut self.first_proxies),
                (false, true) => (&mut self.tls, &mut self.first_tls),
                (false, false) => (&mut self.plain, &mut self.first),
            };
            if is_tls && !self.tls_servers.contains(&server) {
                self.tls_servers.push(server);
            }
            first.get_or_insert(of);
            if !list.contains(&address) {
                list.push(address);
            }
        }
    }

    /// Adds those of a server that redirects everything to TLS.
    pub(crate) fn add_redirect(&mut self, server: &'a Directive, findings: &mut Findings) {
        let listens = server.inside().iter().filter(|of| of.name == "listen");
        let mut is_any = false;
        for of in listens {
            is_any = true;
            self.first_redirect.get_or_insert(of);
            match address(of.arg(0)) {
                Some(address) if !self.redirects.contains(&address) => {
                    self.redirects.push(address);
                }
                Some(_) => {}
                None => findings.add(
                    of,
                    "not a numeric address: write address and port in `redirect` of [tls]",
                ),
            }
        }
        if !is_any {
            self.first_redirect.get_or_insert(server);
            self.redirects.push("0.0.0.0:80".to_owned());
        }
    }

    /// Writes the addresses, and the certificate of the first server with TLS.
    pub(crate) fn write(self, outer: &Scope<'_>, tables: &mut Vec<Table>, findings: &mut Findings) {
        let lists = [self.plain, self.tls, self.proxies, self.redirects];
        let [mut plain, tls, proxies, redirects] = lists.map(merged);
        let is_none = plain.is_empty() && tls.is_empty() && proxies.is_empty();
        let top = &mut tables[0];
        match (self.first, self.first_tls.or(self.first_proxies)) {
            (Some(of), _) => top.set("listen", list(&plain), of),
            (None, Some(of)) if tls.is_empty() || !proxies.is_empty() => {
                top.set("listen", "[]", of)
            }
            // Without other addresses, `listen` speaks TLS.
            (None, Some(of)) => {
                plain.clone_from(&tls);
                top.set("listen", list(&plain), of);
            }
            (None, None) if is_none => {
                top.remark("listen", list(["0.0.0.0:80"]), "nginx's default");
            }
            (None, None) => {}
        }
        let taken = |number: &u16| {
            let all = plain.iter().chain(&tls).chain(&proxies).chain(&redirects);
            all.map(|address| port(address))
                .any(|taken| taken == number.to_string())
        };
        // The default is the first.
        let admin = (8081..=u16::MAX).find(|number| !taken(number));
        if let Some(number) = admin.filter(|number| *number != 8081) {
            let address = quote(&format!("127.0.0.1:{number}"));
            top.remark("admin", address, "8081, its default, is for viewers here");
        }
        if let Some(of) = self.first_proxies {
            let mut table = Table::new("proxies");
            table.set("listen", list(&proxies), of);
            tables.push(table);
        }
        if let Some(of) = self.first_tls {
            let mut table = Table::new("tls");
            certificates(outer, &self.tls_servers, of, (&mut table, findings));
            if plain != tls {
                table.set("listen", list(&tls), of);
            }
            if let Some(of) = self.first_redirect {
                let serves = |address: &&String| plain.contains(address) || tls.contains(address);
                if let Some(address) = redirects.iter().find(serves) {
                    let text = format!(
                        "{address} also serves files of another server, and an address either \
                         serves or redirects: give one of them another address"
                    );
                    findings.add(of, text);
                } else {
                    table.set("redirect", list(&redirects), of);
                }
            }
            tables.push(table);
        } else if let Some(of) = self.first_redirect {
            findings.add(
                of,
                "redirects to TLS, which no server here speaks: add [tls]",
            );
        }
    }
}

/// Without IPv4 addresses that `[::]` includes.
fn merged(addresses: Vec<String>) -> Vec<String> {
    let is_included = |address: &String| {
        let port = address.strip_prefix("0.0.0.0:");
        port.is_some_and(|port| addresses.contains(&format!("[::]:{port}")))
    };
    let kept = addresses.iter().filter(|address| !is_included(address));
    kept.cloned().collect()
}

/// Writes the certificates of all servers with TLS: one as a text, several as a list.
fn certificates(
    outer: &Scope<'_>,
    servers: &[&[Directive]],
    listen: &Directive,
    (table, findings): (&mut Table, &mut Findings),
) {
    let mut pairs: Vec<[(String, &Directive); 2]> = Vec::new();
    for server in servers {
        let scope = outer.inside(server);
        let found = [
            ("ssl_certificate", "certificate"),
            ("ssl_certificate_key", "key"),
        ]
        .map(|names| file(&scope, names, listen, findings));
        if let [Some(certificate), Some(key)] = found
            && !pairs.iter().any(|[known, _]| known.0 == certificate.0)
        {
            pairs.push([certificate, key]);
        }
        old_protocols(&scope, findings);
    }
    for (place, key) in ["certificate", "key"].into_iter().enumerate() {
        let files = pairs.iter().map(|pair| &pair[place].0);
        match pairs.as_slice() {
            [] => {}
            [pair] => table.set(key, quote(&pair[place].0), pair[place].1),
            [pair, ..] => table.set(key, list(files), pair[place].1),
        }
    }
}

/// The file of a certificate or key.
fn file<'a>(
    scope: &Scope<'a>,
    (name, key): (&str, &str),
    listen: &Directive,
    findings: &mut Findings,
) -> Option<(String, &'a Directive)> {
    let all = scope.all(&[name]);
    let Some(of) = all.first() else {
        let text = format!("no {name} applies here: add `{key}` to [tls]");
        findings.add(listen, text);
        return None;
    };
    for further in all.iter().skip(1) {
        let text = "a second certificate of one server: add it to the list in [tls]";
        findings.add(further, text);
    }
    match scope.constant(of.arg(0)) {
        Ok(path) if path.starts_with('/') => return Some((path, of)),
        Ok(_) => findings.add(of, format!("not a whole path: add `{key}` to [tls]")),
        Err(variable) => findings.add(
            of,
            format!("${variable} depends on the request: add `{key}` to [tls]"),
        ),
    }
    None
}

fn old_protocols(scope: &Scope<'_>, findings: &mut Findings) {
    if let Some(of) = scope.last("ssl_protocols")
        && let Some(old) = of
            .args
            .iter()
            .find(|arg| ["SSLv3", "TLSv1", "TLSv1.1"].contains(&arg.as_str()))
    {
        let text = format!(
            "{old} is not spoken, only 1.2 and 1.3: for older players keep nginx in \
                front"
        );
        findings.add(of, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_nginx_are_read() {
        for (text, expected) in [
            ("80", Some("0.0.0.0:80")),
            ("*:8080", Some("0.0.0.0:8080")),
            ("[::]:80", Some("[::]:80")),
            ("[::1]", Some("[::1]:80")),
            ("192.0.2.1", Some("192.0.2.1:80")),
            ("localhost:8000", Some("127.0.0.1:8000")),
            ("unix:/run/a.sock", Some("unix:/run/a.sock")),
            ("media.example:80", None),
            ("99999", None),
        ] {
            assert_eq!(address(text).as_deref(), expected, "{text}");
        }
        let ports = ["80", "[::]:443", "[::1]", "10.0.0.1:81", "10.0.0.1"].map(port);
        assert_eq!(ports, ["80", "443", "80", "81", "80"]);
    }

    #[test]
    fn ipv6_address_includes_ipv4() {
        let all = ["0.0.0.0:80", "[::]:80", "0.0.0.0:81"].map(str::to_owned);
        assert_eq!(merged(all.into()), ["[::]:80", "0.0.0.0:81"]);
    }
}
