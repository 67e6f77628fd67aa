//! Who may watch: the same signed URLs are accepted and refused by nginx's `secure_link` and by the
//! server, and a token in a path opens a title and nothing else.

use std::path::Path;

use headlong_e2e_tests::{Nginx, have_or_skip};
use headlong_testkit::Scratch;
use headlong_testkit::client::fetch;
use headlong_testkit::server::ServerBuilder;

const DIRECTIVES: &str = r#"
location /films/ {
    secure_link $arg_md5,$arg_expires;
    secure_link_md5 "$secure_link_expires$uri$remote_addr secret";
    if ($secure_link = "") { return 403; }
    if ($secure_link = "0") { return 410; }
}"#;
const RULE: &str = r#"[path."/films/"]
access = "secure-link"
secure_link_md5 = "$secure_link_expires$uri$remote_addr secret"
"#;

/// As nginx's manual says to sign: by openssl, base64 and tr.
fn sign(text: &str) -> String {
    by_openssl("md5", text)
}

/// A digest of openssl, as our manual and nginx's write it.
fn by_openssl(digest: &str, text: &str) -> String {
    let script = format!(
        "printf %s \"$1\" | openssl {digest} -binary | openssl base64 | tr +/ -_ | tr -d ="
    );
    let mut command = std::process::Command::new("sh");
    let output = command.args(["-c", &script, "sh", text]).output();
    let text = String::from_utf8(output.expect("a shell").stdout).expect("text");
    text.trim().to_owned()
}

fn write(root: &Path, name: &str) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, vec![b'x'; 5000]).expect("a file");
}

#[test]
fn nginx_and_the_server_accept_and_refuse_the_same_links() {
    let test = "nginx_and_the_server_accept_and_refuse_the_same_links";
    if !have_or_skip(test, "nginx") || !have_or_skip(test, "openssl") {
        return;
    }
    let root = Scratch::new("access").expect("a folder");
    for name in ["films/a b.mp4", "films/c.mp4", "free.mp4"] {
        write(root.path(), name);
    }
    let nginx = Nginx::start_with(root.path(), DIRECTIVES).expect("nginx");
    let server = ServerBuilder::new([root.path()]).config(RULE);
    let server = server.start().expect("a server");
    let of = |expires: &str| sign(&format!("{expires}/films/a b.mp4127.0.0.1 secret"));
    let (far, past) = ("4000000000", "1000000000");
    let (good, old) = (of(far), of(past));
    let path = "/films/a%20b.mp4";
    let mut changed = good.clone().into_bytes();
    changed[3] = if changed[3] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).expect("text");
    let cases = [
        (200, format!("{path}?md5={good}&expires={far}")),
        (
            200,
            format!("//films/./a%20b.mp4?md5={good}&expires={far}").replace("/./", "//"),
        ),
        (200, format!("{path}?x=1&expires={far}&md5={good}==")),
        (200, format!("{path}?MD5={good}&Expires={far}")),
        (
            200,
            format!("{path}?md5={good}&expires={far}&md5=x&expires=1"),
        ),
        (200, "/free.mp4".to_owned()),
        (403, format!("{path}?md5=x&md5={good}&expires={far}")),
        (403, format!("{path}?md5={changed}&expires={far}")),
        (403, format!("{path}?md5={good}&expires=4000000001")),
        (403, format!("{path}?md5={good}&expires=%34000000000")),
        (403, format!("/films/c.mp4?md5={good}&expires={far}")),
        (403, format!("{path}?md5={good}")),
        (403, format!("{path}?md5={good}&expires=")),
        (403, path.to_owned()),
        (403, "/free.mp4/../films/c.mp4".replace("/free.mp4/..", "")),
        (410, format!("{path}?md5={old}&expires={past}")),
    ];
    for (status, target) in &cases {
        for method in ["GET", "HEAD"] {
            let by_nginx = fetch(nginx.address(), method, target, &[]).expect("a reply");
            let by_us = fetch(server.address(), method, target, &[]).expect("a reply");
            let statuses = (by_nginx.status(), by_us.status());
            assert_eq!(statuses, (*status, *status), "{method} {target}");
        }
    }
    let range = [("Range", "bytes=10-19")];
    let part = fetch(server.address(), "GET", &cases[0].1, &range).expect("a reply");
    assert_eq!((part.status(), part.body.len()), (206, 10));
    let log = server.output();
    assert!(log.contains("md5=-"), "{log}");
    assert!(!log.contains(&good) && !log.contains(&old), "{log}");
}

#[test]
fn a_token_in_the_path_opens_a_playlist_and_what_it_names_and_is_in_no_log() {
    let test = "a_token_in_the_path_opens_a_playlist_and_what_it_names_and_is_in_no_log";
    if !have_or_skip(test, "openssl") {
        return;
    }
    let root = Scratch::new("access").expect("a folder");
    for name in [
        "films/a/index.m3u8",
        "films/a/hd/1.ts",
        "films/b/1.ts",
        "free.mp4",
    ] {
        write(root.path(), name);
    }
    let key = "0123456789abcdef0123456789abcdef";
    let rule = format!("[path.\"/films/\"]\naccess = \"signed\"\nkeys = [{key:?}]\n");
    let server = ServerBuilder::new([root.path()]).config(&rule);
    let server = server.start().expect("a server");
    let token = by_openssl(
        &format!("dgst -sha256 -hmac {key}"),
        "4000000000\n-\nprefix /films/a/",
    );
    let name = format!("4000000000.2.{token}");
    let changed = match name.ends_with('A') {
        true => format!("{}E", &name[..name.len() - 1]),
        false => format!("{}A", &name[..name.len() - 1]),
    };
    for (status, target) in [
        (200, format!("/t/{name}/films/a/index.m3u8")),
        (200, format!("/t/{name}/films/a/hd/1.ts")),
        (200, format!("/t/{name}/films/%61/hd/1.ts?x=1")),
        (200, format!("/t/{name}/free.mp4")),
        (403, "/films/a/index.m3u8".to_owned()),
        (403, format!("/t/{name}/films/b/1.ts")),
        (403, format!("/t/{changed}/films/a/index.m3u8")),
        (
            403,
            format!("/t/{}/films/a/index.m3u8", name.replacen('4', "5", 1)),
        ),
        (
            403,
            format!("/t/{}/films/a/index.m3u8", name.replace(".2.", ".1.")),
        ),
        (400, format!("/t/{name}/films/a/../b/1.ts")),
        (400, format!("/t/{name}/films/a/%2e%2e/b/1.ts")),
        (404, format!("/t/{name}/films/a/%252e%252e/b/1.ts")),
        (400, format!("/t/{name}%2Ffilms/a/index.m3u8")),
        (404, format!("/%74/{name}/films/a/index.m3u8")),
        (
            404,
            format!("/t/{}/films/a/index.m3u8", name.replace('.', "%252E")),
        ),
        (404, format!("/t/{name}")),
    ] {
        let page = format!("http://tv.example/t/{name}/films/a/index.m3u8");
        let fields = [("Referer", page.as_str())];
        let reply = fetch(server.address(), "GET", &target, &fields).expect("a reply");
        assert_eq!(reply.status(), status, "{target}");
    }
    let log = server.output();
    assert!(log.contains("/t/-/films/a/hd/1.ts"), "{log}");
    assert!(!log.contains(&token[..20]), "{log}");
}
