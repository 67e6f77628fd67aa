//! What is different below a path: who may watch, and what caches are told.
//!
//! The one idea: as nginx chooses a `location` by prefix, the longest prefix of the decoded path
//! names the one table that is in force, so that no two rules are mixed.
//!
//! A rule is turned into a gate when it is checked, and by the same function when it is used.

use headlong_settings::{Document, Rows, flag, named, text, time};

use super::kinds::{field_value, of_query};
use super::path_rule::{Access, PathRule};
use super::settings::Config;

/// What may be said for one path.
pub(super) fn path_rows() -> Rows<PathRule> {
    let mut rows = Rows::<PathRule>::default();
    rows.add("access", named(Access::ALL, Access::name), |p| &mut p.access,
        "Who may watch: everybody, nobody, who has a link signed as nginx's `secure_link` does it, or who has a token by HMAC-SHA256. A wrong token is answered 403, one that is too old 410. See access.md.");
    rows.add("secure_link_md5", text().optional(), |p| &mut p.secure_link_md5,
        "The expression of nginx's `secure_link_md5` with its secret; `$secure_link_expires`, `$uri` and `$remote_addr` are known. Without the first, links do not expire. A secret: let only the server's user read this file.");
    rows.add(
        "md5_argument",
        of_query(),
        |p| &mut p.md5_argument,
        "The argument of `secure_link` that holds the MD5: `md5` for `$arg_md5`.",
    );
    rows.add(
        "expires_argument",
        of_query(),
        |p| &mut p.expires_argument,
        "The argument of `secure_link` that holds the end, in seconds since 1970.",
    );
    rows.add("keys", text().list(), |p| &mut p.keys,
        "One or two keys of tokens by HMAC-SHA256; either may have signed, so that a new one can be taken up while URLs of the old one are about. Secrets, too.");
    rows.add(
        "bind_address",
        flag(),
        |p| &mut p.bind_address,
        "Whether such a token is good only from the address that is signed in it.",
    );
    rows.add("clock_skew", time(), |p| &mut p.clock_skew,
        "How much longer a token is good than it says, where the clocks of who signs and of the server differ.");
    rows.add("cache_control", field_value().optional(), |p| &mut p.cache_control,
        "The Cache-Control sent with files below this path, instead of that at the top; empty for none.");
    rows
}

/// Reads every `[path."PREFIX"]` and notes what is wrong with it.
pub(super) fn read(document: &mut Document, config: &mut Config) {
    for prefix in document.children("path") {
        let table = format!("path.{prefix}");
        let mut rule = PathRule::default();
        path_rows().read(document, &table, &mut rule);
        if !prefix.starts_with('/') || prefix.contains("//") || prefix.contains('%') {
            let text = "is not a path; write it decoded and from the root, like \"/films/\"";
            document.wrong(&table, text);
        }
        if let Err((setting, text)) = rule.gate() {
            document.wrong_too(&format!("{table}.{setting}"), text);
        }
        if let (Ok(gate), Some(query)) = (rule.gate(), &config.session.query)
            && gate.is_secret(query)
        {
            let text = format!("is the argument of tokens of [{table}]; logs would show them");
            document.wrong_too("session.query", text);
        }
        config.path.insert(prefix, rule);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Flags;

    #[test]
    fn every_mistake_in_rules_is_reported_at_once_and_no_secret_with_it() {
        let text = "roots = [\"/srv\"]\n[session]\nquery = \"Token\"\n\
            [path.films]\n[path.\"/a/\"]\naccess = \"signed\"\nkeys = [\"tooshort\"]\n\
            [path.\"/b/\"]\naccess = \"secure-link\"\nsecure_link_md5 = \"$arg_x$uri hush\"\n\
            [path.\"/c/\"]\naccess = \"signed\"\nkeys = [\"0123456789abcdef\"]\n";
        let wrong = Config::from_text(Path::new("x.toml"), text, &Flags::default());
        let wrong = wrong.expect_err("four mistakes").to_string();
        for said in [
            "path.films",
            "path./a/.keys",
            "path./b/.secure_link_md5",
            "session.query",
        ] {
            assert!(wrong.contains(said), "{said} in {wrong}");
        }
        assert!(
            !wrong.contains("tooshort") && !wrong.contains("hush"),
            "{wrong}"
        );
    }
}
