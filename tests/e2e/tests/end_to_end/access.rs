//! Access control: nginx's `secure_link` and the server accept and refuse the same signed URLs; a
//! token in the path or a JSON Web Token opens one title and nothing else; and an auth subrequest
//! is sent as nginx sends it.

use std::net::TcpListener;
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

/// Signs as nginx's manual does: with openssl, base64 and tr.
fn sign(text: &str) -> String {
    by_openssl("md5", text)
}

/// A digest by openssl, as in this manual and nginx's.
fn by_openssl(digest: &str, text: &str) -> String {
    let encoded = format!("openssl {digest} -binary | {ENCODED}");
    by_shell(&format!("printf %s \"$1\" | {encoded}"), text)
}

/// Base64 for URLs, without padding.
const ENCODED: &str = "openssl base64 -A | tr +/ -_ | tr -d =";

fn by_shell(script: &str, text: &str) -> String {
    let mut command = std::process::Command::new("sh");
    let output = command.args(["-c", script, "sh", text]).output();
    let text = String::from_utf8(output.expect("a shell").stdout).expect("text");
    text.trim().to_owned()
}

fn write(root: &Path, name: &str) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, vec![b'x'; 5000]).expect("a file");
}

#[test]
fn signed_links_get_the_same_answers_as_from_nginx() {
    let test = "signed_links_get_the_same_answers_as_from_nginx";
    if !have_or_skip(test, "nginx") || !have_or_skip(test, "openssl") {
        return;
    }
    let root = Scratch::new("access").expect("a folder");
    for name in ["films/a b.mp4", "films/c.mp4", "free.mp4"] {
        write(root.path(), name);
    }
    let nginx = Nginx::start_with(root.path(), DIRECTIVES).expect("nginx");
    let server = ServerBuilder::new([root.path()]).config(RULE).start();
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
            let by_us = server.request(method, target, &[]);
            let statuses = (by_nginx.status(), by_us.status());
            assert_eq!(statuses, (*status, *status), "{method} {target}");
        }
    }
    let range = [("Range", "bytes=10-19")];
    let part = server.request("GET", &cases[0].1, &range);
    assert_eq!((part.status(), part.body.len()), (206, 10));
    let log = server.output();
    assert!(log.contains("md5=-"), "{log}");
    assert!(!log.contains(&good) && !log.contains(&old), "{log}");
}

#[test]
fn path_token_opens_playlist_and_segments_and_is_not_logged() {
    let test = "path_token_opens_playlist_and_segments_and_is_not_logged";
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
    let rule =
        format!("[path.\"/films/\"]\naccess = \"signed\"\nkeys = [{key:?}]\nlisting = \"html\"\n");
    let server = ServerBuilder::new([root.path()]).config(&rule).start();
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
        // Its folder is listed, with links that keep the token.
        (200, format!("/t/{name}/films/a/")),
        (200, format!("/t/{name}/films/a/hd/")),
        (301, format!("/t/{name}/films/a/hd")),
        (403, "/films/a/".to_owned()),
        (403, format!("/t/{name}/films/")),
        (404, "/".to_owned()),
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
        let reply = server.request("GET", &target, &fields);
        assert_eq!(reply.status(), status, "{target}");
    }
    let log = server.output();
    assert!(log.contains("/t/-/films/a/hd/1.ts"), "{log}");
    assert!(!log.contains(&token[..20]), "{log}");
}

#[test]
fn accepts_signed_web_token_in_query_header_and_cookie() {
    let test = "accepts_signed_web_token_in_query_header_and_cookie";
    if !have_or_skip(test, "openssl") {
        return;
    }
    let root = Scratch::new("access").expect("a folder");
    let keys = Scratch::new("access-keys").expect("a folder");
    for name in ["films/a/1.ts", "films/b/1.ts"] {
        write(root.path(), name);
    }
    let file = |name: &str| keys.path().join(name).display().to_string();
    let (private, public) = (file("private.pem"), file("public.pem"));
    by_shell(
        "openssl genrsa -out \"$1\" 2048 && openssl pkey -in \"$1\" -pubout -out \"${1%/*}/public.pem\"",
        &private,
    );
    let rule = format!(
        "[path.\"/films/\"]\naccess = \"jwt\"\njwt_public_keys = [{public:?}]\n\
         jwt_from = [\"query:jwt\", \"header:Authorization\", \"cookie:ticket\"]\n"
    );
    let server = ServerBuilder::new([root.path()]).config(&rule).start();
    let encoded = |text: &str| by_shell(&format!("printf %s \"$1\" | {ENCODED}"), text);
    let token = |claims: &str| {
        let signed = format!("{}.{}", encoded(r#"{"alg":"RS256"}"#), encoded(claims));
        let signature = by_openssl(&format!("dgst -sha256 -sign {private}"), &signed);
        format!("{signed}.{signature}")
    };
    let of = |times: &str| {
        token(&format!(
            r#"{{{times},"cdniuc":"regex:https?://[^/]*/films/a/[^/?]*"}}"#
        ))
    };
    let good = of(r#""exp":4000000000"#);
    let old = of(r#""exp":1000000000"#);
    let of_tomorrow = of(r#""nbf":4000000000"#);
    let unsigned = format!(
        "{}.{}.",
        encoded(r#"{"alg":"none"}"#),
        good.split('.').nth(1).expect("claims")
    );
    let bearer = format!("Bearer {good}");
    let cookie = format!("a=b; ticket={good}");
    let ask =
        |target: &str, fields: &[(&str, &str)]| server.request("GET", target, fields).status();
    let in_query = |path: &str, token: &str| ask(&format!("{path}?jwt={token}"), &[]);
    assert_eq!(in_query("/films/a/1.ts", &good), 200);
    assert_eq!(in_query("//films/%61/1.ts", &good), 200);
    assert_eq!(ask("/films/a/1.ts", &[("Authorization", &bearer)]), 200);
    assert_eq!(ask("/films/a/1.ts", &[("Cookie", &cookie)]), 200);
    let of_two = [("Cookie", "a=b"), ("Cookie", &cookie[5..])];
    assert_eq!(
        ask("/films/a/1.ts", &of_two),
        200,
        "cookies split as HTTP/2 does"
    );
    assert_eq!(ask("/films/b/1.ts", &[("Cookie", &cookie)]), 403);
    assert_eq!(ask("/films/a/1.ts?x=1", &[("Cookie", &cookie)]), 403);
    assert_eq!(ask("/films/a/1.ts", &[]), 403);
    assert_eq!(in_query("/films/b/1.ts", &good), 403);
    assert_eq!(in_query("/films/a/1.ts", &old), 410);
    assert_eq!(in_query("/films/a/1.ts", &of_tomorrow), 403);
    assert_eq!(in_query("/films/a/1.ts", &unsigned), 403);
    assert_eq!(
        in_query("/films/a/1.ts", &format!("{good}&j%77t={good}")),
        403
    );
    let log = server.output();
    assert!(log.contains("/films/a/1.ts?jwt=-"), "{log}");
    assert!(!log.contains(&good[..40]), "{log}");
}

#[test]
fn hung_auth_server_delays_only_its_own_path() {
    let test = "hung_auth_server_delays_only_its_own_path";
    if !have_or_skip(test, "nginx") {
        return;
    }
    let root = Scratch::new("access").expect("a folder");
    for name in [
        "films/a b.mp4",
        "films/premium/a.mp4",
        "hung/a.mp4",
        "free.mp4",
    ] {
        write(root.path(), name);
    }
    let asked = r#"location = /auth {
            if ($http_x_original_uri ~ "^/films/premium/") { return 403; }
            if ($http_x_original_uri ~ "^/t/") { return 204; }
            add_header WWW-Authenticate 'Basic realm="tv"' always;
            if ($http_x_original_uri !~ "^/films/a%20b.mp4") { return 500; }
            if ($http_x_real_ip != "127.0.0.1") { return 500; }
            if ($http_x_request_id = "") { return 500; }
            if ($cookie_ticket = "") { return 401; }
            if ($cookie_ticket = "moved") { return 302 /login; }
            if ($cookie_ticket != "good") { return 403; }
            return 204;
        }"#;
    let nginx = Nginx::start_with(root.path(), asked).expect("nginx");
    let hung = TcpListener::bind("127.0.0.1:0").expect("a port");
    let rule = format!(
        "[path.\"/films/\"]\naccess = \"auth-request\"\nauth_url = \"http://{}/auth\"\n\
         secret_arguments = [\"ticket\"]\n\
         [path.\"/hung/\"]\naccess = \"auth-request\"\nauth_url = \"http://{}/\"\n\
         auth_timeout = \"500ms\"\n",
        nginx.address(),
        hung.local_addr().expect("bound"),
    );
    let server = ServerBuilder::new([root.path()]).config(&rule).start();
    let address = server.address();
    let film = |cookie: &str| {
        let fields = [("Cookie", cookie)];
        server.request("GET", "/films/a%20b.mp4?ticket=hush", &fields)
    };
    for _ in 0..2 {
        assert_eq!(film("ticket=good").status(), 200);
        assert_eq!(film("ticket=bad").status(), 403);
        assert_eq!(film("ticket=moved").status(), 500);
        let unknown = film("x=y");
        let challenge = unknown.field("www-authenticate");
        assert_eq!(
            (unknown.status(), challenge),
            (401, Some("Basic realm=\"tv\""))
        );
    }
    // The rule matches the path as written, so no token may precede it.
    for before in [String::new(), format!("/t/1.0.{}", "x".repeat(43))] {
        let target = format!("{before}/films/premium/a.mp4");
        let premium = server.get(&target);
        let status = if before.is_empty() { 403 } else { 404 };
        assert_eq!(premium.status(), status, "{target}");
    }
    let waiters: Vec<_> = (0..200)
        .map(|n| {
            let ask = move || fetch(address, "GET", &format!("/hung/a.mp4?{n}"), &[]);
            std::thread::spawn(ask)
        })
        .collect();
    for _ in 0..20 {
        let free = server.get("/free.mp4");
        assert_eq!(free.status(), 200);
        assert_eq!(film("ticket=good").status(), 200);
    }
    for waiter in waiters {
        let reply = waiter.join().expect("ended").expect("a reply");
        assert_eq!(reply.status(), 503);
        assert!(reply.field("retry-after").is_some());
    }
    let log = server.output();
    assert!(log.contains("ticket=-") && !log.contains("hush"), "{log}");
    assert!(log.contains("authorization request failed"), "{log}");
}
