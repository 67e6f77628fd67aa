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
        (
            "location /a/ { allow 10.0.0.0/8; deny 0.0.0.0/0; deny ::/0; }",
            "allow",
        ),
        (
            "location /a/ { if ($cookie_s = \"\") { return 302 /login; } }",
            "if",
        ),
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
    let folder = String::from("alias = \"/srv/films\"");
    assert_eq!(table(&found, "[path.\"/films/\"]"), Some([folder].into()));
    assert!(!found.toml.contains("roots"), "{}", found.toml);
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
fn server_of_this_machine_is_no_site_of_public_addresses() {
    let public = "server { listen 80; server_name a.example; root /srv/a; }\n";
    for listen in [
        "listen 127.0.0.1:80;",
        "listen [::1]:80; listen unix:/run/n;",
    ] {
        let local = format!("server {{ {listen} server_name b.example; root /srv/b; }}\n");
        for text in [format!("{public}{local}"), format!("{local}{public}")] {
            let found = convert(&parse("n", &text).expect(&text)).expect(&text);
            assert!(!found.toml.contains("/srv/b"), "{}", found.toml);
            assert!(
                found.toml.contains("roots = [\"/srv/a\"]"),
                "{}",
                found.toml
            );
            assert!(findings(&found).contains("server: only programs of this machine"));
        }
        let refusing = "server { listen 80 default_server; return 444; }";
        for alone in [local.clone(), format!("{refusing}{local}")] {
            let found = convert(&parse("n", &alone).expect(&alone)).expect(&alone);
            assert!(found.toml.contains("/srv/b"), "{}", found.toml);
        }
    }
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

/// The entries of paths, without quotes and spaces: `/a/: alias=/srv/a`.
fn paths(found: &Conversion) -> Vec<String> {
    let (mut paths, mut at) = (Vec::new(), None);
    for line in lines(found) {
        if line.starts_with('[') || line.is_empty() {
            let name = line
                .strip_prefix("[path.")
                .map(|name| name.replace(['"', ']'], ""));
            at = name.inspect(|name| paths.push(format!("{name}:")));
        } else if at.is_some() {
            let entry = line.replace([' ', '"'], "");
            paths
                .last_mut()
                .expect("a path")
                .push_str(&format!(" {entry}"));
        }
    }
    paths
}

#[test]
fn each_path_has_the_files_of_one_folder() {
    for (server, roots, expected) in [
        // Nothing else of /mnt is served.
        (
            "root /srv; location /hls { root /mnt; }",
            Some("/srv"),
            &["/hls: access=closed", "/hls/: alias=/mnt/hls"][..],
        ),
        (
            "location / { root /srv; } location /hls { alias /mnt/x/; }",
            Some("/srv"),
            &["/hls: access=closed", "/hls/: alias=/mnt/x"],
        ),
        (
            "root /srv; location /a/ { alias /mnt/b/; location /a/c/ { expires 1h; } }",
            Some("/srv"),
            &["/a/: alias=/mnt/b", "/a/c/: expires=1h"],
        ),
        (
            "root /srv; location /a/ { alias /srv/a/; } location /b/ { root /srv; }",
            Some("/srv"),
            &[],
        ),
        (
            "location /a/ { root /srv/; } location /b/ { root /srv/; }",
            None,
            &["/: access=closed", "/a/: alias=/srv/a", "/b/: alias=/srv/b"],
        ),
        (
            "root /srv; location / { root /mnt; } location /b/ { }",
            Some("/mnt"),
            &["/b/: alias=/srv/b"],
        ),
        (
            "root /srv; location /a.mp4 { root /mnt; }",
            Some("/srv"),
            &["/a.mp4: access=closed"],
        ),
        (
            "root /srv; location /a/ { alias /mnt/b; }",
            Some("/srv"),
            &["/a/: access=closed"],
        ),
    ] {
        let found = of(server);
        let all = lines(&found);
        let root = all.iter().find_map(|line| line.strip_prefix("roots = "));
        assert_eq!(
            root,
            roots.map(|root| format!("[\"{root}\"]")).as_deref(),
            "{server}"
        );
        assert_eq!(paths(&found), expected, "{server}");
    }
}

#[test]
fn pattern_closes_only_paths_that_it_may_match() {
    let folders = "location /a/ { expires 1h; } location ^~ /b/ { expires 2h; }";
    let all = [
        "/: access=closed",
        "/a/: expires=1h access=closed",
        "/b/: expires=2h",
    ];
    let of_a = ["/a/: expires=1h access=closed", "/b/: expires=2h"];
    let inside = ["/a/: expires=1h", "/a/x/: access=closed", "/b/: expires=2h"];
    for (pattern, expected) in [
        ("~ \\.php$ { fastcgi_pass a; }", &all[..]),
        ("~ ^/(a|c)/ { deny all; }", &all),
        ("~ ^/a/|^/c { deny all; }", &all),
        ("~ ^/a/(b)|^/c { deny all; }", &all),
        ("~ ^/a/?c { deny all; }", &all),
        ("~* ^/a/c { deny all; }", &all),
        ("~ (/\\.git|/c) { deny all; }", &all),
        ("~ /\\.?c { deny all; }", &all),
        ("~ ^/a/(.*)/x { proxy_pass http://a; }", &of_a),
        ("~ ^/a/x/y { auth_ldap x; }", &inside),
        ("~ ^/a/x/y { location ~ z { deny all; } }", &inside),
        (
            "~ \\.mp4$ { expires 3h; }",
            &["/a/: expires=1h", "/b/: expires=2h"],
        ),
    ] {
        let found = of(&format!("root /srv; {folders} location {pattern}"));
        assert_eq!(paths(&found), expected, "{pattern}");
        assert!(findings(&found).contains("regular expression"), "{pattern}");
    }
    for pattern in ["^/b/x/", "/\\.", "/\\.(ht|git)", "(^|/)\\."] {
        let found = of(&format!(
            "root /srv; {folders} location ~ {pattern} {{ deny all; }}"
        ));
        assert_eq!(
            paths(&found),
            ["/a/: expires=1h", "/b/: expires=2h"],
            "{pattern}"
        );
        assert_eq!(findings(&found), "", "{pattern}");
    }
}

#[test]
fn pattern_in_a_location_concerns_that_only() {
    let link = "secure_link $arg_md5,$arg_expires; secure_link_md5 \"$secure_link_expires$uri s\";";
    let refuse = "if ($secure_link = \"\") { return 403; }";
    let found = of(&format!(
        "root /srv; location /a/ {{ {link} location ~ m3u8$ {{ {refuse} }} }}"
    ));
    let expected = "/a/: access=secure-link secure_link_md5=$secure_link_expires$uris";
    assert_eq!(paths(&found), [expected]);
    assert!(findings(&found).contains("all files of the path need a link"));
    let found = of("root /srv; location ^~ /a/ { location ~ mp4$ { deny all; } }");
    assert_eq!(paths(&found), ["/a/: access=closed"]);
}

#[test]
fn redirect_as_certbot_writes_it_is_converted() {
    let text = "server { server_name a.example; root /srv; listen 443 ssl;\n\
        ssl_certificate /c; ssl_certificate_key /k; }\n\
        server { if ($host = a.example) { return 301 https://$host$request_uri; }\n\
        listen 80; listen [::]:80; server_name a.example; return 404; }";
    let found = convert(&parse("n", text).expect("valid")).expect("a site");
    assert!(
        found.toml.contains("redirect = [\"[::]:80\"]"),
        "{}",
        found.toml
    );
    assert_eq!(findings(&found), "");
}

#[test]
fn hosts_without_files_in_nginx_get_none() {
    let site = "server { listen 80; server_name a.example; root /srv; location /x/ { deny all; } }";
    for other in [
        "server { listen 80 default_server; return 444; }",
        "server { listen 80 default; server_name _; location / { return 404; } }",
        "server { listen 80; server_name b.example; location / { proxy_pass http://b; } }",
        "server { listen 443 ssl default_server; ssl_reject_handshake on; }",
    ] {
        let text = format!("{other} {site}");
        let found = convert(&parse("n", &text).expect("valid")).expect(other);
        let all = lines(&found);
        assert!(
            !all.iter().any(|line| line.starts_with("[path.")),
            "{}",
            found.toml
        );
        assert_eq!(all[0], "listen = [\"0.0.0.0:80\"]", "{}", found.toml);
        let own = table(&found, "[site.\"a.example\"]").expect(other);
        assert_eq!(own, ["roots = [\"/srv\"]"]);
        let closed = table(&found, "[site.\"a.example\".path.\"/x/\"]");
        assert_eq!(
            closed,
            Some([String::from("access = \"closed\"")].into()),
            "{other}"
        );
    }
    // Other hosts get files of the first server if it has any.
    let other = "server { listen 80; location / { return 404; } location ~ ^/b/ { root /b; } }";
    let found = convert(&parse("n", &format!("{other} {site}")).expect("valid")).expect("a site");
    assert!(!found.toml.contains("[path.\"/b/\"]"), "{}", found.toml);
    assert!(findings(&found).contains("regular expression"));
    // The first server answers for the names of the second pattern, too.
    let text = "server { root /srv/b; } server { server_name a.example *.a.example; root /srv; }";
    let found = convert(&parse("n", text).expect("valid")).expect("a site");
    assert!(findings(&found).contains("*.a.example is a pattern"));
}

#[test]
fn fields_set_by_method_are_those_of_get() {
    let found = of("root /srv; add_header X-Outer 1; location /a/ {\n\
        if ($request_method = 'OPTIONS') { add_header Access-Control-Allow-Origin *;\n\
        add_header Access-Control-Allow-Headers 'Range,X-Token'; return 204; }\n\
        if ($request_method = 'GET') { add_header Access-Control-Allow-Origin * always; } }");
    assert_eq!(paths(&found)[1], "/a/: cors_origins=[*]");
    assert!(lines(&found).contains(&String::from("headers = [\"X-Token\"]")));
}

#[test]
fn rate_is_that_of_a_variable_too() {
    let found = of("root /srv; location /a/ { set $limit_rate 2m; }");
    assert_eq!(paths(&found), ["/a/: bytes_per_second_max=2MiB"]);
}

#[test]
fn nothing_of_a_usual_file_is_lost_in_silence() {
    for (server, said) in [
        ("location = / { return 302 /web/; }", "return: redirects"),
        (
            "location = /up { return 200 ok; }",
            "return: no reply but files",
        ),
        (
            "location = /api { proxy_pass http://a; }",
            "proxy_pass: a program",
        ),
        (
            "location = /a.mp4 { expires 1h; }",
            "location: a [path] is a prefix",
        ),
        ("access_log /l combined if=$x;", "access_log: if=$x: "),
        (
            "location /a/ { access_log /m; }",
            "access_log: there is one",
        ),
        (
            "location /a/ { auth_ldap x; }",
            "auth_ldap: a check of another module",
        ),
        (
            "location /a/ { access_by_lua_file x; }",
            "access_by_lua_file: a check",
        ),
        (
            "location /a/ { limit_except PUT { deny all; } }",
            "limit_except: only GET",
        ),
        ("location /a/ { vod hls; }", "vod: files are sent"),
        (
            "location /a/ { if (-f $request_filename) { break; } }",
            "if: this condition",
        ),
    ] {
        let found = of(&format!("root /srv; {server}"));
        let found = findings(&found);
        assert!(
            found.starts_with(&format!("n:1: {said}")),
            "{server}: {found}"
        );
    }
    // What is reported elsewhere, or what nginx does for itself.
    for server in [
        "error_page 500 /50x.html; location = /50x.html { root /srv; internal; }",
        "location = /q { internal; proxy_pass http://127.0.0.1:9; } location /a/ { auth_request /q; }",
        "location = /favicon.ico { access_log off; log_not_found off; }",
    ] {
        let found = of(&format!("root /srv; {server}"));
        let found = findings(&found);
        assert!(!found.contains(": location"), "{server}: {found}");
        assert!(!found.contains("proxy_pass"), "{server}: {found}");
    }
}

#[test]
fn origin_that_cannot_be_asked_is_named() {
    let edge = |location: &str| {
        let text = format!(
            "proxy_cache_path /c keys_zone=z:1m; upstream u {{ server 10.0.0.1 backup;\n\
             server 10.0.0.2 down; server 10.0.0.3 weight=2; }}\n\
             server {{ proxy_cache z; location /v/ {{ proxy_pass http://u; }}\n\
             location /w/ {{ {location} }} }}"
        );
        convert(&parse("n", &text).expect("valid")).expect(location)
    };
    let found = edge("proxy_pass http://unix:/run/a:/x/; ");
    assert_eq!(
        table(&found, "[pull.\"/v/\"]").expect("a table")[0],
        "origin = \"http://10.0.0.3/v/\""
    );
    assert!(!found.toml.contains("[pull.\"/w/\"]"), "{}", found.toml);
    assert!(findings(&found).contains("an origin on a unix socket"));
    let found = edge(
        "proxy_pass http://u/; proxy_cache_valid any 1m;\n\
        proxy_set_header Authorization x; proxy_set_header X-Real-IP $remote_addr;",
    );
    let findings = findings(&found);
    assert_eq!(
        findings.matches("proxy_set_header").count(),
        1,
        "{findings}"
    );
    let of_w = table(&found, "[pull.\"/w/\"]").expect("a table");
    assert!(
        of_w.contains(&String::from("negative = \"1min\"")),
        "{of_w:?}"
    );
}
