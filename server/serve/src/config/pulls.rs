//! Paths that are filled from an origin: their settings, and what can be wrong with them.

use headlong_http::QueryKey;
use headlong_settings::{Document, Kind, Rows, flag, size, text, time, whole};
use headlong_units::{Duration, KIB, MIB};

use super::kinds::{host, of_query, path, region};
use super::pull_rule::PullRule;
use super::settings::Config;

/// No time at all is a mistake.
const SHORTEST: Duration = Duration::from_millis(1);
/// Most bytes of a slice: each fetch holds one in memory.
const SLICE_BYTES_MAX: u64 = 64 * MIB;

fn origin() -> Kind<String> {
    text().check(|text, written| {
        let rule = PullRule {
            origin: text.clone(),
            ..PullRule::default()
        };
        let wrong = |error| format!("{} {error}", written.quoted());
        rule.target().map(drop).map_err(wrong)
    })
}

fn query_key() -> Kind<QueryKey> {
    let names = |key: &QueryKey| match key {
        QueryKey::Names(names) => names.clone(),
        QueryKey::Ignored | QueryKey::All => Vec::new(),
    };
    of_query()
        .list()
        .map(QueryKey::Names, names)
        .or_word("ignore", QueryKey::Ignored)
        .or_word("key", QueryKey::All)
}

/// What may be said of one path that is filled from an origin.
#[rustfmt::skip]
pub(super) fn pull_rows() -> Rows<PullRule> {
    let mut rows = Rows::<PullRule>::default();
    rows.add("origin", origin(), |p| &mut p.origin,
        "The URL of a folder of the origin, `http` or `https`; what follows the prefix in a request's path is looked for in it. Queries, cookies and headers of viewers are not handed on.").restart();
    rows.add("s3_region", region().optional(), |p| &mut p.s3_region,
        "The origin is a bucket of S3, or of what speaks as S3, in this region: requests are signed with its keys (AWS Signature Version 4).").restart();
    rows.add("s3_keys", path().optional(), |p| &mut p.s3_keys,
        "A file with `aws_access_key_id = ...`, `aws_secret_access_key = ...` and, if there is one, `aws_session_token = ...`, that only the server's user and group may read; it is read again when the bucket refuses. Without it, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the environment.").restart();
    rows.add("query", query_key(), |p| &mut p.query,
        "What of a request's query tells one title from another, and is sent to the origin: nothing (`ignore`), all of it as it is written (`key`), or the arguments of these names, in this order. Tokens, session ids and CMCD are never a part of it.").restart();
    rows.add("folder", path(), |p| &mut p.folder,
        "A folder on the disk that keeps what was fetched, in `.headlong-pull` below it; it may be a root.").restart();
    rows.add("bytes_max", size().at_least(MIB), |p| &mut p.bytes_max,
        "Most bytes that are kept. What is read least goes, ends of titles before their beginnings.").restart();
    rows.add("free_bytes_min", size(), |p| &mut p.free_bytes_min,
        "Bytes that are left free on that file system.").restart();
    rows.add("slice_bytes", size().between(64 * KIB, SLICE_BYTES_MAX), |p| &mut p.slice_bytes,
        "Titles are fetched and kept in slices of so many bytes; who waits for one waits for all of it. What was kept in slices of another size is dropped.").restart();
    rows.add("ahead_bytes", size(), |p| &mut p.ahead_bytes,
        "Bytes fetched ahead of who reads on, beyond the slice that is being read.").restart();
    rows.add("fetches_max", whole().between(1, 1024), |p| &mut p.fetches_max,
        "Slices fetched at a time; each is held in memory until it is written.").restart();
    rows.add("fresh", time(), |p| &mut p.fresh,
        "How long a title is believed to be unchanged before the origin is asked again, where it sends no `max-age`; that is believed up to a day.").restart();
    rows.add("stale_max", time(), |p| &mut p.stale_max,
        "How long after the origin last confirmed a title what is kept of it is served while the origin fails.").restart();
    rows.add("negative", time(), |p| &mut p.negative,
        "How long it is remembered that the origin has no such title.").restart();
    rows.add("redirect_hosts", host().list(), |p| &mut p.redirect_hosts,
        "Hosts that the origin may redirect to, besides itself; at most three redirects are followed, and none from https to http.").restart();
    rows.add("private_addresses", flag(), |p| &mut p.private_addresses,
        "Whether hosts that the origin redirects to may have loopback, private or link-local addresses. The origin itself may.").restart();
    rows.add("connect_timeout", time().at_least(SHORTEST), |p| &mut p.connect_timeout,
        "Longest time for a connection to the origin, with TLS.").restart();
    rows.add("idle_timeout", time().at_least(SHORTEST), |p| &mut p.idle_timeout,
        "Longest time for the origin to answer, and between two pieces of its answer.").restart();
    rows
}

/// Reads every `[pull."PREFIX"]` and notes what is wrong with it.
pub(super) fn read(document: &mut Document, config: &mut Config) {
    for prefix in document.children("pull") {
        let table = format!("pull.{prefix}");
        let mut rule = PullRule::default();
        pull_rows().read(document, &table, &mut rule);
        let is_folder = prefix.starts_with('/') && prefix.ends_with('/');
        if !is_folder || prefix.contains("//") || prefix.contains('%') {
            let text = "is not a folder's path; write it decoded, from the root and with a slash at \
                 its end, like \"/films/\"";
            document.wrong(&table, text);
        }
        for (key, is_missing, what) in [
            (
                "origin",
                rule.origin.is_empty(),
                "like \"https://origin.example/vod/\"",
            ),
            (
                "folder",
                rule.folder.as_os_str().is_empty(),
                "on the disk that is to keep it",
            ),
        ] {
            let key_path = format!("{table}.{key}");
            if is_missing && !document.mistakes.is_about(&key_path) {
                document.wrong_too(&key_path, format!("is missing; add {key}, {what}"));
            }
        }
        if rule.bytes_max < rule.slice_bytes.saturating_mul(4) {
            let text = "holds fewer than four slices; raise it, or lower slice_bytes";
            document.wrong_too(&format!("{table}.bytes_max"), text);
        }
        config.pull.insert(prefix, rule);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{Config, Flags};

    #[test]
    fn every_mistake_about_origins_is_reported_at_once() {
        let text = "[pull.films]\norigin = \"ftp://a/\"\nfolder = \"x\"\n\
            [pull.\"/a/\"]\n\
            [pull.\"/b/\"]\norigin = \"http://u:p@a/\"\nfolder = \"x\"\nbytes_max = \"1MiB\"\n\
            [pull.\"/c/\"]\norigin = \"http://a/b\"\nfolder = \"x\"\nslice_bytes = \"1B\"\n";
        let wrong = Config::from_text(Path::new("x.toml"), text, &Flags::default());
        let wrong = wrong.expect_err("wrong").to_string();
        for said in [
            "pull.films:",
            "pull.films.origin",
            "pull./a/.origin: is missing",
            "pull./a/.folder: is missing",
            "pull./b/.origin",
            "pull./b/.bytes_max",
            "pull./c/.origin",
            "pull./c/.slice_bytes",
        ] {
            assert!(wrong.contains(said), "{said} in {wrong}");
        }
    }

    #[test]
    fn a_server_may_have_an_origin_and_no_root() {
        let text = "[pull.\"/a/\"]\norigin = \"http://a/\"\nfolder = \"x\"\n";
        let config = Config::from_text(Path::new("y/z.toml"), text, &Flags::default());
        let config = config.expect("right");
        assert_eq!(config.folders(), [Path::new("y/x")]);
    }
}
