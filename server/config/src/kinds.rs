//! Kinds of settings specific to the server: addresses, paths, log destinations, parts of HTTP.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use headlong_net::ListenAddress;
use headlong_settings::{Rejection, Value, ValueKind, quote, text};
use headlong_telemetry::LogTarget;
use ipnet::IpNet;

use crate::path_rule::{TokenLocation, secure_link_arguments};
use crate::settings::Admin;

pub(crate) fn address() -> ValueKind<ListenAddress> {
    let read = |value: &Value| {
        let text = value.text().ok_or(Rejection::Unfit)?;
        text.parse().map_err(|error: String| error.into())
    };
    let form = "an address and port such as \"127.0.0.1:8080\" or \"[::]:8080\", or a unix socket such \
                as \"unix:/run/headlong-serve/web.sock\"";
    ValueKind::new(form, read, |address: &ListenAddress| {
        quote(&address.to_string())
    })
}

/// A file mode in octal.
pub(crate) fn mode() -> ValueKind<u32> {
    let read = |value: &Value| {
        let text = value.text().ok_or(Rejection::Unfit)?;
        let mode = u32::from_str_radix(text, 8).ok();
        mode.filter(|mode| *mode <= 0o777).ok_or_else(|| {
            let form = "write three digits from 0 to 7, like \"0660\"";
            format!("`{text}` is not a mode; {form}").into()
        })
    };
    let form = "a mode in octal such as \"0660\"";
    ValueKind::new(form, read, |mode: &u32| quote(&format!("{mode:04o}")))
}

/// A network, or a single address.
pub(crate) fn network() -> ValueKind<IpNet> {
    let read = |value: &Value| {
        let text = value.text().ok_or(Rejection::Unfit)?;
        let address = text.parse::<IpAddr>().map(IpNet::from);
        let network: IpNet = address.or_else(|_| text.parse()).map_err(|_| {
            let form = "write it like 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1";
            format!("`{text}` is not a network; {form}")
        })?;
        match network.trunc() == network {
            true => Ok(network),
            false => {
                let meant = network.trunc();
                Err(format!("`{text}` has bits beyond its prefix length; write {meant}").into())
            }
        }
    };
    let form = "a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or an address";
    ValueKind::new(form, read, |network: &IpNet| quote(&network.to_string()))
}

pub(crate) fn admin() -> ValueKind<Admin> {
    // `off` has no address and is shown as the word.
    let from = |admin: &Admin| match admin {
        Admin::Off => SocketAddr::from(([0, 0, 0, 0], 0)).into(),
        Admin::Address(address) => address.clone(),
    };
    address()
        .map(Admin::Address, from)
        .or_word("off", Admin::Off)
}

pub(crate) fn path() -> ValueKind<PathBuf> {
    let read = |value: &Value| match value.text() {
        Some("") => Err("the path is empty; name a file or folder".into()),
        Some(text) if text.contains('\0') => {
            Err("the path holds a NUL character; name a file or folder".into())
        }
        text => text.map(PathBuf::from).ok_or(Rejection::Unfit),
    };
    ValueKind::new("a path in quotes", read, |path: &PathBuf| {
        quote(&path.to_string_lossy())
    })
}

/// A path, or a list of paths.
pub(crate) fn one_or_more_paths() -> ValueKind<Vec<PathBuf>> {
    let (one, list) = (path(), path().list());
    let (shown_alone, shown) = (path(), path().list());
    let read = move |value: &Value| match value.text() {
        Some(_) => one.read(value).map(|path| vec![path]),
        None => list.read(value),
    };
    ValueKind::new(
        "a path in quotes, or a list of paths in square brackets",
        move |value| match value.text().is_some() || value.items().is_some() {
            true => read(value).map_err(Rejection::Told),
            false => Err(Rejection::Unfit),
        },
        move |paths: &Vec<PathBuf>| match &paths[..] {
            [] => String::new(),
            [path] => shown_alone.show(path),
            _ => shown.show(paths),
        },
    )
}

pub(crate) fn sink() -> ValueKind<LogTarget> {
    let file = path().map(LogTarget::File, |sink| match sink {
        LogTarget::File(path) => path.clone(),
        LogTarget::Off | LogTarget::Stdout => PathBuf::new(),
    });
    file.or_word("stdout", LogTarget::Stdout)
        .or_word("off", LogTarget::Off)
}

/// A text for which `is_good` holds; `wrong` describes the mistake and the remedy.
fn text_that(is_good: fn(&str) -> bool, wrong: &'static str) -> ValueKind<String> {
    text().check(move |text, written| match is_good(text) {
        true => Ok(()),
        false => Err(format!("{} {wrong}", written.quoted())),
    })
}

/// Whether a text is a token of RFC 9110, as used for names of fields and cookies.
fn is_token(text: &str) -> bool {
    let marks = b"!#$%&'*+-.^_`|~";
    let is_fit = |b: u8| b.is_ascii_alphanumeric() || marks.contains(&b);
    !text.is_empty() && text.bytes().all(is_fit)
}

/// Whether a text is valid as a field value.
fn is_value(text: &str) -> bool {
    text.bytes()
        .all(|b| b == b'\t' || (b' '..=b'~').contains(&b))
}

fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://");
    let host = host.or_else(|| text.strip_prefix("http://"));
    let is_host =
        |host: &str| is_value(host) && !host.is_empty() && !host.contains(['/', ' ', '*']);
    text == "*" || host.is_some_and(is_host)
}

pub(crate) fn token() -> ValueKind<String> {
    text_that(
        is_token,
        "cannot be a name in HTTP; use letters, digits and hyphens",
    )
}

/// Request fields that belong to the connection, not to the client.
const OF_CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request field that may be forwarded to the auth server.
pub(crate) fn asked_field() -> ValueKind<String> {
    text_that(
        |text| {
            let is_own = OF_CONNECTION
                .iter()
                .any(|own| text.eq_ignore_ascii_case(own));
            is_token(text) && !is_own
        },
        "cannot be forwarded; name a header that identifies the client, like \"Cookie\"",
    )
}

/// Request fields that hold credentials.
const CREDENTIALS: &[&str] = &["authorization", "cookie", "proxy-authorization"];

/// A request field for the access log.
pub(crate) fn logged_field() -> ValueKind<String> {
    text_that(
        |text| {
            let is_secret = CREDENTIALS
                .iter()
                .any(|secret| text.eq_ignore_ascii_case(secret));
            is_token(text) && !is_secret
        },
        "cannot be logged; name a header without credentials, like \"Host\"",
    )
}

pub(crate) fn of_query() -> ValueKind<String> {
    text_that(
        |text| !text.is_empty(),
        "is empty; name a key of the query, or remove it",
    )
}

/// Where a request may carry a token.
pub(crate) fn token_place() -> ValueKind<TokenLocation> {
    let read = |value: &Value| {
        let text = value.text().ok_or(Rejection::Unfit)?;
        let place = match text.split_once(':') {
            Some(("query", name)) if !name.is_empty() => TokenLocation::Query(name.to_owned()),
            Some(("header", name)) if is_token(name) => TokenLocation::Header(name.to_owned()),
            Some(("cookie", name)) if is_token(name) => TokenLocation::Cookie(name.to_owned()),
            _ => {
                let form = "write one like \"query:token\", \"header:Authorization\" or \
                            \"cookie:ticket\"";
                return Err(format!("`{text}` is not a place of a request; {form}").into());
            }
        };
        Ok(place)
    };
    let form = "a place such as \"query:token\", \"header:Authorization\" or \"cookie:ticket\"";
    ValueKind::new(form, read, |place: &TokenLocation| {
        quote(&place.to_string())
    })
}

/// The expression of nginx's `secure_link`.
pub(crate) fn secure_link() -> ValueKind<String> {
    text_that(
        |text| secure_link_arguments(text).is_some(),
        "is not an expression of secure_link; write it like \"$arg_md5,$arg_expires\"",
    )
}

pub(crate) fn congestion_control() -> ValueKind<String> {
    text_that(
        is_token,
        "is not a name; write one such as \"cubic\", or remove it",
    )
}

pub(crate) fn host() -> ValueKind<String> {
    text_that(
        |text| {
            let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
            !text.is_empty() && text.chars().all(is_fit)
        },
        "is not a host name; write it like disks.example.org, without a port",
    )
}

pub(crate) fn region() -> ValueKind<String> {
    text_that(
        |text| {
            let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            !text.is_empty() && text.chars().all(is_fit)
        },
        "is not an S3 region; write one like \"eu-west-1\", or the region name of your S3 server",
    )
}

/// Fields that only the server sets.
const OWN_FIELDS: &[&str] = &[
    "accept-ranges",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "transfer-encoding",
    "upgrade",
];

fn is_own(name: &str) -> bool {
    // Browsers refuse a reply with two of these fields.
    let cors = ["access-control-", "timing-allow-origin"];
    let name = name.to_ascii_lowercase();
    OWN_FIELDS.contains(&name.as_str()) || cors.iter().any(|cors| name.starts_with(cors))
}

/// A field of a reply, `Name: value`.
pub(crate) fn field() -> ValueKind<String> {
    text_that(
        |text| {
            text.split_once(':').is_some_and(|(name, value)| {
                is_token(name) && !is_own(name) && is_value(value) && !value.trim().is_empty()
            })
        },
        "cannot be added; write a field like \"X-Frame-Options: DENY\", and none that the server \
         sets itself, like Content-Length or Access-Control-Allow-Origin (those of CORS are cors_origins \
         and [cors])",
    )
}

/// A site in a Referer rule.
pub(crate) fn site() -> ValueKind<String> {
    text_that(
        |text| {
            let host = text.strip_prefix("*.").unwrap_or(text);
            let is_fit = |c: char| c.is_ascii_alphanumeric() || "-.:".contains(c);
            !host.is_empty() && host.chars().all(is_fit)
        },
        "is not a site; write a host like example.org, *.example.org for those below it, none or blocked",
    )
}

pub(crate) fn field_value() -> ValueKind<String> {
    text_that(
        is_value,
        "holds characters that no header may; write it like \"max-age=3600\"",
    )
}

/// A URL of a server, without a path.
pub(crate) fn media_url() -> ValueKind<String> {
    text_that(
        |text| text != "*" && is_origin(text),
        "is not the URL of a server; write scheme and host, such as \"https://films.example\"",
    )
}

pub(crate) fn origin() -> ValueKind<String> {
    text_that(
        is_origin,
        "is not an origin; write \"*\", or scheme and host such as \"https://example.org\"",
    )
}
