use std::format;
use std::string::{String, ToString};

use super::*;
use crate::parse;

fn of(server: &str) -> Conversion {
    let text = format!("http {{ server {{ listen 80; {server} }} }}");
    convert(&parse("n", &text).expect(&text)).expect(server)
}

/// The lines of the file without remarks.
fn lines(conversion: &Conversion) -> Vec<String> {
    let lines = conversion
        .toml
        .lines()
        .filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| line.split("  # ").next().unwrap_or_default().to_string());
    lines.collect()
}

fn table(conversion: &Conversion, name: &str) -> Option<Vec<String>> {
    let lines = lines(conversion);
    let at = lines.iter().position(|line| line == name)?;
    let inside = lines[at + 1..].iter().take_while(|line| !line.is_empty());
    Some(inside.cloned().collect())
}

fn findings(conversion: &Conversion) -> String {
    let findings = conversion.findings.iter().map(ToString::to_string);
    findings.collect::<Vec<_>>().join("\n")
}

#[test]
fn site_with_secure_link_gets_the_same_rule() {
    let found = of(
        "root /srv/videos; location /films/ { secure_link $arg_st,$arg_e;\n\
        secure_link_md5 \"$arg_e$uri$remote_addr secret\"; expires 30d; limit_rate 1m;\n\
        if ($secure_link = \"\") { return 403; } if ($secure_link = \"0\") { return 410; } }",
    );
    assert_eq!(lines(&found)[0], "roots = [\"/srv/videos\"]");
    assert_eq!(lines(&found)[1], "listen = [\"0.0.0.0:80\"]");
    let expected = [
        "expires = \"30d\"",
        "bytes_per_second_max = \"1MiB\"",
        "access = \"secure-link\"",
        "secure_link_md5 = \"$secure_link_expires$uri$remote_addr secret\"",
        "secure_link = \"$arg_st,$arg_e\"",
    ];
    let films = table(&found, "[path.\"/films/\"]").expect("a table");
    assert_eq!(films, expected);
    assert_eq!(findings(&found), "");
}

#[test]
fn restriction_without_place_closes_its_path() {
    for (server, directive) in [
        ("location /a/ { auth_basic x; }", "auth_basic"),
        ("location /a/ { allow 10.0.0.0/8; deny all; }", "allow"),
        ("location /a/ { if ($http_x = \"\") { return 403; } }", "if"),
        ("location /a/ { if ($scheme = http) { return 403; } }", "if"),
        ("location /a/ { internal; }", "internal"),
        (
            "location /a/ { proxy_pass http://127.0.0.1:8096; }",
            "proxy_pass",
        ),
        ("location /a/ { return 301 /b/; }", "return"),
        (
            "location /a/ { secure_link $cookie_a,$arg_e; secure_link_md5 \"$uri s\"; }",
            "secure_link_md5",
        ),
        (
            "location /a/ { secure_link_secret s; }",
            "secure_link_secret",
        ),
        (
            "location /a/ { auth_request /q; } location = /q { proxy_pass \
                http://auth.example/; }",
            "auth_request",
        ),
        (
            "location /a/ { auth_request /q; deny all; } location = /q { proxy_pass \
                http://127.0.0.1:9/; }",
            "deny",
        ),
        ("location /a/ { alias /srv/other; }", "alias"),
        ("location /a/ { root /srv/$host; }", "root"),
        (
            "location /a/ { } location ~ \\.mp4$ { deny all; }",
            "location",
        ),
    ] {
        let found = of(&format!("root /srv/videos; {server}"));
        let tables = [
            table(&found, "[path.\"/a/\"]"),
            table(&found, "[path.\"/\"]"),
        ];
        let is_closed = |of: &Vec<String>| of.contains(&"access = \"closed\"".to_string());
        let closest = tables.iter().flatten().next().expect(server);
        assert!(is_closed(closest), "{server}: {}", found.toml);
        let said = format!("n:1: {directive}: ");
        assert!(
            findings(&found).contains(&said),
            "{server}: {}",
            findings(&found)
        );
    }
}

#[test]
fn open_location_in_closed_site_stays_open() {
    let found =
        of("root /srv; location / { proxy_pass http://127.0.0.1:8096; } location /films/ { }");
    let access = |name: &str| table(&found, name);
    assert_eq!(
        access("[path.\"/\"]"),
        Some([String::from("access = \"closed\"")].into())
    );
    assert_eq!(access("[path.\"/films/\"]"), Some(Vec::new()));
}

#[test]
fn exact_location_and_prefix_become_one_table() {
    let found = of("root /srv; location /a { expires 1h; } location = /a { deny all; }");
    let closed = String::from("access = \"closed\"");
    assert_eq!(table(&found, "[path.\"/a\"]"), Some([closed].into()));
    assert_eq!(found.toml.matches("[path.").count(), 1, "{}", found.toml);
}

#[test]
fn default_port_of_admin_is_left_to_viewers() {
    let text = "server { listen 8081; listen 8082; root /srv; }";
    let found = convert(&parse("n", text).expect("valid")).expect("a site");
    assert!(
        found.toml.contains("\nadmin = \"127.0.0.1:8083\""),
        "{}",
        found.toml
    );
}

#[test]
fn root_of_one_location_is_not_open_elsewhere() {
    let found = of("location /films/ { root /srv; }");
    let closed = String::from("access = \"closed\"");
    assert_eq!(table(&found, "[path.\"/\"]"), Some([closed].into()));
    assert_eq!(table(&found, "[path.\"/films/\"]"), Some(Vec::new()));
}

#[test]
fn path_with_settings_of_outer_path_gets_no_table() {
    let found = of(
        "root /srv; expires 1h; location /a/ { } location /b/ { expires 2h; location /b/c/ { } }",
    );
    assert_eq!(table(&found, "[path.\"/a/\"]"), None);
    assert_eq!(table(&found, "[path.\"/b/c/\"]"), None);
    assert_eq!(
        table(&found, "[path.\"/b/\"]"),
        Some(["expires = \"2h\"".to_string()].into())
    );
}

#[test]
fn auth_request_finds_its_numeric_server() {
    let found = of("root /srv; location /a/ { auth_request /q; }\n\
        location = /q { internal; proxy_pass http://127.0.0.1:9000; }");
    let expected = [
        "access = \"auth-request\"",
        "auth_url = \"http://127.0.0.1:9000/q\"",
    ];
    assert_eq!(table(&found, "[path.\"/a/\"]").expect("a table"), expected);
}

#[test]
fn cached_origin_becomes_edge() {
    let text = "http { proxy_cache_path /var/cache/v levels=1:2 keys_zone=v:10m max_size=100g;\n\
        upstream o { server origin.example:8080; keepalive 8; }\n\
        server { location /vod/ { slice 1m; proxy_cache v; proxy_cache_key $uri$slice_range;\n\
        proxy_cache_valid 200 206 1h; proxy_pass http://o; } } }";
    let found = convert(&parse("n", text).expect("valid")).expect("an origin");
    let expected = [
        "origin = \"http://origin.example:8080/vod/\"",
        "folder = \"/var/cache/v\"",
        "bytes_max = \"100GiB\"",
        "slice_bytes = \"1MiB\"",
        "fresh = \"1h\"",
    ];
    assert_eq!(
        table(&found, "[pull.\"/vod/\"]").expect("a table"),
        expected
    );
    assert_eq!(lines(&found)[0], "listen = [\"0.0.0.0:80\"]");
}

#[test]
fn further_servers_are_sites_and_redirects_to_tls_are_converted() {
    let text = "http { server { listen 80; server_name a.example; return 301 https://a$request_uri;\
        location /.well-known/acme-challenge/ { root /var/acme; } }\n\
        server { listen 443 ssl; server_name a.example; root /srv/a;\
        ssl_certificate /c; ssl_certificate_key /k; }\n\
        server { listen 443 ssl; server_name b.example www.b.example *.b.example; root /srv/b;\
        ssl_certificate /d; ssl_certificate_key /l; location /x/ { deny all; } }\n\
        server { listen 443 ssl; server_name c.example; root /srv/b/c; }\n\
        server { listen 443 ssl; root /srv/d; } }";
    let found = convert(&parse("n", text).expect("valid")).expect("a site");
    assert!(!found.toml.contains("/srv/d"), "{}", found.toml);
    assert_eq!(
        table(&found, "[tls]").expect("a table"),
        [
            "certificate = [\"/c\", \"/d\"]",
            "key = [\"/k\", \"/l\"]",
            "redirect = [\"0.0.0.0:80\"]"
        ]
    );
    assert!(
        found.toml.contains("acme_folder = \"/var/acme\""),
        "{}",
        found.toml
    );
    assert_eq!(
        table(&found, "[site.\"b.example\"]").expect("a table"),
        ["names = [\"www.b.example\"]", "roots = [\"/srv/b\"]"]
    );
    assert_eq!(
        table(&found, "[site.\"b.example\".path.\"/x/\"]").expect("a table"),
        ["access = \"closed\""]
    );
    // A folder may be of several sites.
    assert_eq!(
        table(&found, "[site.\"c.example\"]").expect("a table"),
        ["roots = [\"/srv/b/c\"]"]
    );
    let findings = findings(&found);
    let named = "n:5: server: a further server without a plain host name";
    assert!(findings.contains(named), "{findings}");
}

#[test]
fn map_of_origins_opens_to_none_but_those_it_lists() {
    let site = |map: &str| {
        let text = format!(
            "http {{ map $http_origin $ok {{ {map} }} server {{ root /srv;\n\
             add_header Access-Control-Allow-Origin $ok; }} }}"
        );
        let found = convert(&parse("n", &text).expect(&text)).expect(&text);
        assert!(findings(&found).starts_with("n:2: add_header"), "{map}");
        table(&found, "[path.\"/\"]").expect(map)
    };
    for (map, origins) in [
        ("default $http_origin;", "[\"*\"]"),
        (
            "https://a.example $http_origin; ~b $http_origin; default '';",
            "[\"https://a.example\"]",
        ),
        ("~^https://b $http_origin;", "[]"),
    ] {
        assert_eq!(site(map), [format!("cors_origins = {origins}")], "{map}");
    }
}

#[test]
fn further_server_with_an_origin_is_a_site_with_one() {
    let text = "proxy_cache_path /c keys_zone=z:1m; server { listen 80; root /srv/a;\n\
        location /v/ { proxy_cache z; proxy_pass http://10.0.0.2; } }\n\
        server { listen 80; server_name b.example;\n\
        location / { proxy_cache z; proxy_pass http://10.0.0.1; } }";
    let found = convert(&parse("n", text).expect("valid")).expect("a site");
    let pull = table(&found, "[site.\"b.example\".pull.\"/\"]").expect("a table");
    assert_eq!(pull[0], "origin = \"http://10.0.0.1/\"");
    assert!(findings(&found).contains("n:3: server: several locations share this zone"));
}

#[test]
fn server_with_one_redirected_path_is_converted() {
    let found = of("root /srv; location / { return 301 https://shop; } location /films/ { }");
    assert!(found.toml.contains("roots = [\"/srv\"]"), "{}", found.toml);
    assert!(
        findings(&found).starts_with("n:1: return: redirects"),
        "{}",
        findings(&found)
    );
}

#[test]
fn same_content_on_two_ports_is_one_site() {
    let text = "server { listen 80; root /srv; } server { listen 443 ssl; root /srv;\n\
        ssl_certificate /c; ssl_certificate_key /k; }";
    let found = convert(&parse("n", text).expect("valid")).expect("a site");
    assert_eq!(findings(&found), "");
    assert!(
        found.toml.contains("\nlisten = [\"0.0.0.0:443\"]"),
        "{}",
        found.toml
    );
}

#[test]
fn nothing_to_serve_is_an_error() {
    for text in [
        "",
        "http { }",
        "server { return 404; }",
        "server { location / { proxy_pass http://a; } }",
    ] {
        let error = convert(&parse("n", text).expect("valid")).expect_err(text);
        assert!(error.contains("; "), "{error}");
    }
}

#[test]
fn alias_of_folder_is_one_of_its_path() {
    let found = of("root /srv/videos; location /a/ { alias /mnt/other/; }");
    assert_eq!(findings(&found), "");
    assert_eq!(
        table(&found, "[path.\"/a/\"]").expect("a table"),
        ["alias = \"/mnt/other\""]
    );
    let nested = of("root /srv/videos; location /a/ { alias /srv/videos/b/; }");
    assert!(findings(&nested).contains("lie in each other"));
}
