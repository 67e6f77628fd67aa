//! Texts that go into headers, are looked for in them, or are given to the kernel as names.

use super::load::Loader;
use super::settings::Config;

/// What is wrong with one key.
type Wrong = (&'static str, String);

/// Notes every text that cannot be what it is for.
pub(super) fn check(loader: &mut Loader<'_>) {
    let mut wrong = Vec::new();
    names(&loader.config, &mut wrong);
    values(&loader.config, &mut wrong);
    for (key, text) in wrong {
        loader.wrong(key, text);
    }
}

/// A token of RFC 9110, which names of fields and cookies are.
fn is_token(text: &str) -> bool {
    let marks = b"!#$%&'*+-.^_`|~";
    let is_fit = |b: u8| b.is_ascii_alphanumeric() || marks.contains(&b);
    !text.is_empty() && text.bytes().all(is_fit)
}

/// What the value of a field may hold.
fn is_value(text: &str) -> bool {
    text.bytes()
        .all(|b| b == b'\t' || (b' '..=b'~').contains(&b))
}

fn names(config: &Config, wrong: &mut Vec<Wrong>) {
    let session = &config.session;
    let names = [
        ("session.header", session.header.as_ref()),
        ("session.cookie", session.cookie.as_ref()),
    ];
    let names = names
        .into_iter()
        .filter_map(|(key, name)| Some((key, name?)));
    let headers = config.cors.headers.iter();
    for (key, name) in names.chain(headers.map(|name| ("cors.headers", name))) {
        if !is_token(name) {
            let remedy = "use letters, digits and hyphens";
            wrong.push((key, format!("`{name}` cannot be a name in HTTP; {remedy}")));
        }
    }
    if session.query.as_ref().is_some_and(String::is_empty) {
        let text = "is empty; name a key of the query, or remove it";
        wrong.push(("session.query", text.into()));
    }
    let congestion = config.tcp.congestion_control.as_ref();
    if congestion.is_some_and(|name| !is_token(name)) {
        let text = "is not a name; write one such as \"cubic\", or remove it";
        wrong.push(("tcp.congestion_control", text.into()));
    }
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    for host in &config.admin_hosts {
        if host.is_empty() || !host.chars().all(is_of_name) {
            let remedy = "write it like disks.example.org, without a port";
            wrong.push((
                "admin_hosts",
                format!("`{host}` is not a host's name; {remedy}"),
            ));
        }
    }
}

fn values(config: &Config, wrong: &mut Vec<Wrong>) {
    if !is_value(&config.cache_control) {
        let text = "holds characters that no header may; write it like \"max-age=3600\"";
        wrong.push(("cache_control", text.into()));
    }
    for origin in &config.cors.origins {
        let host = origin
            .strip_prefix("https://")
            .or_else(|| origin.strip_prefix("http://"));
        let is_host =
            |host: &str| is_value(host) && !host.is_empty() && !host.contains(['/', ' ', '*']);
        if origin != "*" && !host.is_some_and(is_host) {
            let text = format!(
                "`{origin}` is not an origin; write \"*\", or scheme and host such as \
                 \"https://example.org\""
            );
            wrong.push(("cors.origins", text));
        }
    }
}
