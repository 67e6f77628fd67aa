//! TLS, HTTP/2 over it, and a certificate that is renewed while the server runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headlong_e2e_tests::{Library, bounded, eventually};
use headlong_testkit::client::{SecureClient, Version, fetch};
use headlong_testkit::server::{ServerBuilder, binary, free_address};
use headlong_testkit::{ProgramRun, Scratch, Server, pattern};
use rustix::process::Signal;

const MIB: u64 = 1 << 20;
/// Ends a test that hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A self-signed certificate for `localhost`, in two files.
struct Certificate {
    der: Vec<u8>,
    chain: String,
    key: String,
}

impl Certificate {
    fn new() -> Self {
        Self::until(4096)
    }

    /// A certificate that is valid until the end of a year.
    fn until(year: i32) -> Self {
        let names = vec!["localhost".to_owned()];
        let mut params = rcgen::CertificateParams::new(names).expect("names");
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        let key = rcgen::KeyPair::generate().expect("a key");
        let made = params.self_signed(&key).expect("a certificate");
        Self {
            der: made.der().to_vec(),
            chain: made.pem(),
            key: key.serialize_pem(),
        }
    }

    fn write(&self, folder: &Path) -> (PathBuf, PathBuf) {
        let (chain, key) = (folder.join("chain.pem"), folder.join("key.pem"));
        std::fs::write(&chain, &self.chain).expect("write");
        std::fs::write(&key, &self.key).expect("write");
        (chain, key)
    }
}

fn start(library: &Library, folder: &Path, certificate: &Certificate) -> Server {
    let (chain, key) = certificate.write(folder);
    ServerBuilder::new([library.root()])
        .config(&format!("[tls]\ncertificate = {chain:?}\nkey = {key:?}"))
        .start()
}

/// Ranges of one title, as requests for a TLS client.
fn ranges(count: u64, length: u64) -> Vec<(String, Vec<(String, String)>)> {
    let range = |n| format!("bytes={}-{}", n * length, (n + 1) * length - 1);
    (0..count)
        .map(|n| {
            (
                "/title-0.bin".to_owned(),
                vec![("range".to_owned(), range(n))],
            )
        })
        .collect()
}

fn check_ranges(version: Version) {
    let library = Library::new(1, 8 * MIB).expect("a library");
    let folder = Scratch::new("tls").expect("a folder");
    let certificate = Certificate::new();
    let server = start(&library, folder.path(), &certificate);
    let client = SecureClient::new(&certificate.der, version).expect("a client");
    let length = 100_000;
    let requests = ranges(60, length);
    let replies = client.fetch_all(server.address(), "GET", &requests);
    let replies = bounded(LIMIT, replies).expect("served");
    assert_eq!(replies.len(), 60);
    for (n, reply) in (0..).zip(&replies) {
        assert_eq!(reply.status(), 206);
        let first = n * length;
        assert_eq!(
            reply.head.content_range(),
            Some((first, first + length - 1, 8 * MIB))
        );
        pattern::verify(0, first, &reply.body).expect("correct bytes");
    }
    let whole = [("/title-0.bin".to_owned(), Vec::new())];
    let replies = client.fetch_all(server.address(), "GET", &whole);
    let replies = bounded(LIMIT, replies).expect("served");
    pattern::verify(0, 0, &replies[0].body).expect("correct bytes");
    assert_eq!(replies[0].body.len() as u64, 8 * MIB);
}

#[test]
fn ranges_over_tls_are_correct_with_http_1() {
    check_ranges(Version::Http1);
}

#[test]
fn sixty_concurrent_ranges_on_one_http_2_connection() {
    check_ranges(Version::Http2);
}

#[test]
fn head_cache_works_over_tls_in_both_versions() {
    for version in [Version::Http1, Version::Http2] {
        let library = Library::new(1, MIB).expect("a library");
        let folder = Scratch::new("tls").expect("a folder");
        let certificate = Certificate::new();
        let (chain, key) = certificate.write(folder.path());
        let server = ServerBuilder::new([library.root()])
            // The memory for copies is a part of it.
            .memory("256MiB")
            .config(&format!("[tls]\ncertificate = {chain:?}\nkey = {key:?}"))
            .start();
        let client = SecureClient::new(&certificate.der, version).expect("a client");
        let requests = vec![ranges(1, 100_000).remove(0); 60];
        let mut known = None;
        let mut is_at_hand = false;
        for _ in 0..20 {
            let replies = client.fetch_all(server.address(), "GET", &requests);
            for reply in bounded(LIMIT, replies).expect("served") {
                pattern::verify(0, 0, &reply.body).expect("correct bytes");
                let mut fields = reply.head.fields.clone();
                // The first reply has another date, and comes from the disk.
                fields.retain(|(name, _)| !["date", "cache-status"].contains(&name.as_str()));
                let told = (reply.status(), fields, reply.body.len());
                assert_eq!(known.get_or_insert_with(|| told.clone()), &told);
            }
            let metrics = server.metrics();
            is_at_hand = !metrics.contains("headlong_cached_head_replies_total 0\n");
        }
        assert!(is_at_hand, "{version:?}");
    }
}

#[test]
fn reload_loads_renewed_certificate_but_not_a_broken_one() {
    let library = Library::new(1, MIB).expect("a library");
    let folder = Scratch::new("tls").expect("a folder");
    let (first, second) = (Certificate::new(), Certificate::until(4095));
    let server = start(&library, folder.path(), &first);
    let shown = |trusted: &Certificate| {
        let client = SecureClient::new(&trusted.der, Version::Http1).expect("a client");
        bounded(LIMIT, client.certificate(server.address())).ok()
    };
    assert_eq!(shown(&first), Some(first.der.clone()));

    second.write(folder.path());
    server.signal(Signal::HUP).expect("signal");
    eventually(
        "the second certificate",
        || shown(&second),
        |der| *der == Some(second.der.clone()),
    );
    assert_eq!(shown(&first), None, "the first is no longer shown");
    let text = eventually(
        "the log",
        || server.output(),
        |text| text.contains("certificate renewed"),
    );
    let expires = text
        .lines()
        .find(|line| line.contains("certificate renewed"));
    let expires = expires.expect("a line");
    assert!(
        expires.contains("chain.pem") && expires.contains("Dec 31 00:00:00 4095"),
        "{expires}"
    );
    let metrics = server.metrics();
    let series = "headlong_certificate_expires_seconds{file=\"";
    assert!(metrics.contains(series), "{metrics}");

    std::fs::write(folder.path().join("chain.pem"), "not a certificate").expect("write");
    server.signal(Signal::HUP).expect("signal");
    eventually(
        "the message",
        || server.output(),
        |text| text.contains("chain.pem"),
    );
    assert_eq!(
        shown(&second),
        Some(second.der.clone()),
        "the good one stays"
    );
}

#[test]
fn redirecting_address_serves_challenges_and_no_files() {
    let library = Library::new(1, MIB).expect("a library");
    let folder = Scratch::new("tls").expect("a folder");
    let certificate = Certificate::new();
    let (chain, key) = certificate.write(folder.path());
    let challenges = folder.path().join(".well-known/acme-challenge");
    std::fs::create_dir_all(&challenges).expect("created");
    std::fs::write(challenges.join("a-Token_1"), "a-Token_1.key").expect("written");
    std::fs::write(challenges.join("a.txt"), "hidden").expect("written");
    let hidden = library.root().join(".well-known");
    std::fs::create_dir(&hidden).expect("created");
    std::fs::write(hidden.join("a"), "hidden").expect("written");
    let plain = free_address();
    let acme = folder.path();
    let server = ServerBuilder::new([library.root()])
        .config(&format!(
            "acme_folder = {acme:?}\n[path.\"/\"]\naccess = \"closed\"\n\
             [tls]\ncertificate = {chain:?}\nkey = {key:?}\nredirect = [\"{plain}\"]"
        ))
        .start();
    let at = |target: &str| {
        let host = [("host", "films.example:80")];
        fetch(plain, "GET", target, &host).expect("answered")
    };
    let challenge = "/.well-known/acme-challenge/a-Token_1";
    let reply = at(challenge);
    assert_eq!(
        (reply.status(), reply.text()),
        (200, "a-Token_1.key".into())
    );
    for target in [
        "/title-0.bin?a=b",
        "/",
        "/.well-known/acme-challenge/a.txt",
        "/.well-known/acme-challenge/../../chain.pem",
    ] {
        let reply = at(target);
        assert_eq!(reply.status(), 301, "{target}");
        let location = format!("https://films.example{target}");
        assert_eq!(reply.head.field("location"), Some(&*location));
        assert!(reply.body.is_empty());
    }
    assert_eq!(at("/.well-known/acme-challenge/missing").status(), 404);
    let client = SecureClient::new(&certificate.der, Version::Http2).expect("a client");
    let over_tls = |target: &str| {
        let requests = [(target.to_owned(), Vec::new())];
        let replies = client.fetch_all(server.address(), "GET", &requests);
        bounded(LIMIT, replies).expect("served").remove(0)
    };
    assert_eq!(over_tls(challenge).body, b"a-Token_1.key");
    assert_eq!(over_tls("/title-0.bin").status(), 403, "the rule applies");
    for hidden in ["/.well-known/a", "/.well-known/acme-challenge/a.txt"] {
        assert_eq!(over_tls(hidden).status(), 404, "{hidden}");
    }
}

#[test]
fn check_warns_of_expired_certificate_and_server_starts() {
    let library = Library::new(1, MIB).expect("a library");
    let folder = Scratch::new("tls").expect("a folder");
    let expired = Certificate::until(2020);
    let server = start(&library, folder.path(), &expired);
    let text = server.output();
    assert!(text.contains("expired on Dec 31"), "{text}");
    let check = |strict: &[&str]| {
        let mut command = folder.command(binary());
        let config = server.config_path();
        command.args(["check", "--quiet", "--memory", "32MiB"]);
        let command = command.args(strict).arg("--config").arg(config);
        let checked = ProgramRun::of(command.arg(library.root()));
        (checked.code == Some(0), checked.stderr)
    };
    assert!(!check(&["--strict"]).0);
    // It is not refused: that would block a reload for the other certificates.
    let (is_good, text) = check(&[]);
    assert!(is_good, "{text}");
    assert!(
        text.contains("tls.certificate: ") && text.contains("expired on Dec 31"),
        "{text}"
    );
    Certificate::new().write(folder.path());
    assert_eq!(check(&[]), (true, String::new()));
}

#[test]
fn pages_get_media_url_that_a_browser_can_use() {
    let library = Library::new(1, MIB).expect("a library");
    let folder = Scratch::new("tls").expect("a folder");
    let (chain, key) = Certificate::new().write(folder.path());
    let tls = format!("[tls]\ncertificate = {chain:?}\nkey = {key:?}");
    let secure = free_address();
    let port = |address: std::net::SocketAddr| address.port();
    let first_of = |config: &str| {
        let server = ServerBuilder::new([library.root()]).config(config).start();
        let status = server.status().0;
        let first = status["media_addresses"][0].as_str().expect("an address");
        (first.to_owned(), port(server.address()))
    };
    let (first, own) = first_of(&tls);
    assert_eq!(first, format!("https://localhost:{own}"));
    let (first, own) = first_of(&format!("{tls}\nlisten = [\"{secure}\"]"));
    assert_eq!(first, format!("http://127.0.0.1:{own}"));
    let (first, _) = first_of(&format!("media_url = \"https://films.example\"\n{tls}"));
    assert_eq!(first, "https://films.example");
}
