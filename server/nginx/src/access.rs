//! Access to a location. A restriction that cannot be converted closes it.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use headlong_http::SecureLink;
use headlong_settings::quote;

use crate::finding::Findings;
use crate::origin::upstream_url;
use crate::scope::Scope;
use crate::syntax::Directive;
use crate::table::Table;

/// Subject of the condition of an `if`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    SecureLink,
    Referer,
    Method,
    Scheme,
    Other,
}

/// The condition of an `if`.
pub(crate) fn condition(of: &Directive) -> Condition {
    let words = of.args.join(" ");
    let variable = words.trim_start_matches(['(', ' ', '!']);
    let is = |name: &str| variable.starts_with(name);
    match () {
        () if is("$secure_link") => Condition::SecureLink,
        () if is("$invalid_referer") => Condition::Referer,
        () if is("$request_method") => Condition::Method,
        () if is("$scheme") || is("$https") => Condition::Scheme,
        () => Condition::Other,
    }
}

/// Whether a condition is about what only some clients have, such as a session's cookie.
fn is_about_client(of: &Directive) -> bool {
    let words = of.args.join(" ");
    let variables = [
        "$cookie_",
        "$http_cookie",
        "$http_authorization",
        "$arg_",
        "$remote_",
        "$binary_remote_addr",
        "$ssl_client_",
        "$jwt_",
    ];
    variables.iter().any(|variable| words.contains(variable))
}

/// Whether a block sends clients elsewhere, as to a page on which they log in.
fn redirects(block: &[Directive]) -> bool {
    let mut all = block.iter();
    all.any(|of| matches!(of.name.as_str(), "return" | "rewrite"))
}

/// The `if`s of a scope, whatever they are inside of: nginx inherits `if`s of the server.
pub(crate) fn has_check(scope: &Scope<'_>, of: Condition) -> bool {
    scope
        .everywhere()
        .any(|found| found.name == "if" && condition(found) == of)
}

/// Whether a directive of another module decides on access.
pub(crate) fn is_foreign_check(of: &Directive) -> bool {
    let name = of.name.as_str();
    let is_known = ["auth_request", "auth_basic", "auth_jwt", "auth_delay"]
        .iter()
        .any(|known| name.starts_with(known));
    let is_check = name.starts_with("access_by_lua")
        || name.starts_with("rewrite_by_lua")
        || (name.starts_with("auth_") && !is_known)
        || ["akamai_token_validate", "secure_token_validate"].contains(&name);
    is_check && of.arg(0) != "off"
}

/// Whether a block refuses some requests.
pub(crate) fn refuses(block: &[Directive]) -> bool {
    block.iter().any(|of| match of.name.as_str() {
        "deny" | "secure_link" | "secure_link_md5" | "secure_link_secret" | "internal" => true,
        "auth_request" | "auth_basic" | "auth_jwt" | "ssl_verify_client" => of.arg(0) != "off",
        "return" => of.arg(0).starts_with('4'),
        "if" | "location" => refuses(of.inside()),
        _ => is_foreign_check(of),
    })
}

/// Whether a block refuses requests because of their signed links, and no others.
pub(crate) fn refuses_by_link_only(block: &[Directive]) -> bool {
    let is_link = |of: &Directive| of.name == "if" && condition(of) == Condition::SecureLink;
    let others: Vec<Directive> = block.iter().filter(|of| !is_link(of)).cloned().collect();
    others.len() < block.len()
        && !refuses(&others)
        && !others
            .iter()
            .any(|of| of.name.ends_with("_pass") || of.name == "return")
}

/// Sets the path's access to closed.
pub(crate) fn close(table: &mut Table, of: &Directive) {
    table.set("access", quote("closed"), of);
}

/// Converts the restrictions that apply to a location.
pub(crate) fn convert(scope: &Scope<'_>, table: &mut Table, findings: &mut Findings) {
    let mut kinds: Vec<&Directive> = Vec::new();
    if let Some(of) = scope.last("secure_link_secret") {
        findings.add(
            of,
            "secure_link_secret is not supported: sign with secure_link_md5, or \
            keep nginx in front; the path is closed",
        );
        kinds.push(of);
        close(table, of);
    }
    if let Some(of) = scope
        .last("secure_link_md5")
        .or_else(|| scope.last("secure_link"))
    {
        kinds.push(of);
        if let Err(text) = secure_link(scope, of, table) {
            findings.add(of, format!("{text}; the path is closed"));
            close(table, of);
        } else if !has_check(scope, Condition::SecureLink) {
            findings.add(
                of,
                "no `if ($secure_link ...)` refuses wrong links in nginx; here \
                they get 403 and 410",
            );
        }
    }
    if let Some(of) = scope.last("auth_request").filter(|of| of.arg(0) != "off") {
        kinds.push(of);
        match auth_url(scope, of) {
            Ok(url) => {
                table.set("access", quote("auth-request"), of);
                table.set("auth_url", quote(&url), of);
            }
            Err(text) => {
                findings.add(of, format!("{text}; the path is closed"));
                close(table, of);
            }
        }
    }
    for (name, text) in [
        (
            "auth_basic",
            "passwords are not supported: use access = \"auth-request\" or \"signed\" \
                (access.md), or keep nginx in front; the path is closed",
        ),
        (
            "auth_jwt",
            "write access = \"jwt\" with jwt_public_keys (access.md); the path is closed",
        ),
        (
            "ssl_verify_client",
            "client certificates are not supported: keep nginx in front; the path is closed",
        ),
    ] {
        if let Some(of) = scope.last(name).filter(|of| of.arg(0) != "off") {
            findings.add(of, text);
            kinds.push(of);
            close(table, of);
        }
    }
    kinds.extend(by_address(scope, table, findings));
    if let Some(of) = scope.everywhere().find(|of| is_foreign_check(of)) {
        findings.add(
            of,
            "a check of another module: use a rule of access.md; the path is closed",
        );
        kinds.push(of);
        close(table, of);
    }
    for of in scope.everywhere().filter(|of| of.name == "if") {
        let is_other = matches!(condition(of), Condition::Other | Condition::Scheme);
        let refuses = refuses(of.inside()) || (is_about_client(of) && redirects(of.inside()));
        if is_other && refuses {
            findings.add(
                of,
                "this condition is not supported: use a rule of access.md, or \
                keep nginx in front; the path is closed",
            );
            kinds.push(of);
            close(table, of);
        }
    }
    if let [.., other, last] = kinds.as_slice() {
        let text = format!(
            "a path has one rule, and {} applies, too; the path is closed",
            other.name
        );
        findings.add(last, text);
        close(table, last);
    }
}

/// `allow` and `deny`; returns the directive that restricts access.
fn by_address<'a>(
    scope: &Scope<'a>,
    table: &mut Table,
    findings: &mut Findings,
) -> Option<&'a Directive> {
    let rules = scope.all(&["allow", "deny"]);
    let is_of_all = |of: &&Directive| ["all", "0.0.0.0/0", "::/0"].contains(&of.arg(0));
    let end = rules.iter().position(is_of_all).unwrap_or(rules.len());
    let single = rules.get(..end).unwrap_or_default();
    if let Some(of) = rules.get(end).filter(|of| of.name == "deny") {
        for of in single.iter().filter(|of| of.name == "allow") {
            findings.add(
                of,
                "access by address is not supported: the path is closed for all; \
                keep nginx in front, or let a firewall decide",
            );
        }
        close(table, of);
        return Some(of);
    }
    for of in single.iter().filter(|of| of.name == "deny") {
        findings.add(
            of,
            "access by address is not supported, and the path is open for all: \
            let a firewall (nftables) refuse this address",
        );
    }
    None
}

/// The name of `$arg_NAME`.
fn argument(variable: &str) -> Option<&str> {
    variable.trim().strip_prefix("$arg_")
}

fn secure_link(scope: &Scope<'_>, of: &Directive, table: &mut Table) -> Result<(), String> {
    let Some((link, md5)) = scope.last("secure_link").zip(scope.last("secure_link_md5")) else {
        return Err("secure_link and secure_link_md5 are not both set here".to_owned());
    };
    // Words without quotes may have been split at the comma.
    let arguments = link.args.join("");
    let (token, expires) = arguments
        .split_once(',')
        .unwrap_or((&arguments, "$arg_expires"));
    let (Some(token_name), Some(expires_name)) = (argument(token), argument(expires)) else {
        return Err(format!(
            "`{arguments}` is no query argument; sign by $arg_NAME"
        ));
    };
    let expression = scope.with_constants(md5.arg(0));
    // The same value by another name.
    let expression = expression.replace(expires.trim(), "$secure_link_expires");
    SecureLink::parse(&expression, token_name, expires_name).map_err(|error| format!("{error}"))?;
    table.set("access", quote("secure-link"), of);
    table.set("secure_link_md5", quote(&expression), md5);
    if arguments != "$arg_md5,$arg_expires" {
        table.set(
            "secure_link",
            quote(&format!("{},{}", token.trim(), expires.trim())),
            link,
        );
    }
    Ok(())
}

/// The URL behind the location of an `auth_request`.
fn auth_url(scope: &Scope<'_>, of: &Directive) -> Result<String, String> {
    let at = of.arg(0);
    let is_it = |found: &&Directive| {
        found.name == "location"
            && found
                .args
                .last()
                .is_some_and(|arg| arg.trim_start_matches('=') == at)
    };
    let location = scope.everywhere().find(is_it);
    let pass = location.and_then(|of| of.inside().iter().find(|of| of.name == "proxy_pass"));
    let pass = pass.ok_or_else(|| {
        format!(
            "no location {at} with proxy_pass: write its server in \
            auth_url"
        )
    })?;
    let url = scope.constant(pass.arg(0)).map_err(|variable| {
        format!("${variable} of proxy_pass depends on the request: write the server in auth_url")
    })?;
    let url = upstream_url(scope, &url).0;
    let path = |rest: &str| match rest.contains('/') {
        true => url.clone(),
        false => format!("{url}{at}"),
    };
    let rest = url.strip_prefix("http://").unwrap_or_default();
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    };
    let is_numeric = host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    match is_numeric {
        true => Ok(path(rest)),
        false => Err(format!(
            "{url} has no numeric address or speaks TLS: write one in auth_url"
        )),
    }
}
