//! certbot with an ACME authority: certificates are renewed by `--webroot` before, during and after
//! a move from nginx to the server and back, and no viewer is cut.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use headlong_e2e_tests::acme::Authority;
use headlong_e2e_tests::{Nginx, eventually, have_or_skip};
use headlong_testkit::client::Connection;
use headlong_testkit::server::{Server, ServerBuilder, binary, free_address};
use headlong_testkit::{Scratch, pattern};

/// More than the buffers of a connection hold, so that the server has to go on sending.
const SIZE: u64 = 48 << 20;
const TITLE: u64 = 12;
const NAME: &str = "films.test";
const PIECE: u64 = 1 << 20;

/// A viewer in the middle of a title.
struct Download {
    connection: Connection,
    at: u64,
}

impl Download {
    /// Requests the whole title and reads its beginning.
    fn start(connection: Connection) -> Self {
        let mut download = Self { connection, at: 0 };
        let request = format!("GET /film.mp4 HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
        let connection = &mut download.connection;
        connection.send(request.as_bytes()).expect("sent");
        let head = connection.receive_head().expect("a reply");
        assert_eq!((head.status, head.content_length()), (200, Some(SIZE)));
        download.read(PIECE);
        download
    }

    fn read(&mut self, length: u64) {
        let body = self.connection.receive_body(length).expect("not cut");
        pattern::verify(TITLE, self.at, &body).expect("right bytes");
        self.at += length;
    }

    fn finish(mut self) {
        self.read(SIZE - self.at);
    }
}

/// The files of one site: titles, certificates, and what renews them.
struct Site {
    folder: Scratch,
    authority: Authority,
    plain: SocketAddr,
    secure: SocketAddr,
}

impl Site {
    fn new() -> Self {
        let folder = Scratch::new("certbot").expect("a folder");
        for name in ["root", "webroot", "tls"] {
            fs::create_dir(folder.path().join(name)).expect("made");
        }
        let film = folder.path().join("root/film.mp4");
        pattern::write_file(&film, TITLE, SIZE).expect("written");
        let (plain, secure) = (free_address(), free_address());
        let site = Self {
            authority: Authority::start(folder.path(), plain).expect("an authority"),
            folder,
            plain,
            secure,
        };
        let hook = format!(
            "#!/bin/sh -e\ncp \"$RENEWED_LINEAGE\"/fullchain.pem \"$RENEWED_LINEAGE\"/privkey.pem {0}/tls\n\
             kill -HUP \"$(cat {0}/pid)\"\n",
            site.path().display()
        );
        fs::write(site.path().join("hook"), hook).expect("written");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(site.path().join("hook"), mode).expect("set");
        site
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// nginx's file; at first without TLS, for the first certificate.
    fn conf(&self, has_tls: bool) -> String {
        let Self { plain, secure, .. } = self;
        let folder = self.path().display();
        let tls = match has_tls {
            false => String::new(),
            true => format!(
                "server {{ listen {secure} ssl; server_name {NAME}; root {folder}/root;
                 ssl_certificate {folder}/tls/fullchain.pem;
                 ssl_certificate_key {folder}/tls/privkey.pem; }}"
            ),
        };
        format!(
            "user root; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/errors;
             events {{ }}
             http {{
                 access_log off;
                 server {{
                     listen {plain}; server_name {NAME};
                     location /.well-known/acme-challenge/ {{ root {folder}/webroot; }}
                     location / {{ return 301 https://$host$request_uri; }}
                 }}
                 {tls}
             }}"
        )
    }

    fn nginx(&self, has_tls: bool) -> Nginx {
        let scratch = Scratch::new("nginx").expect("a folder");
        let conf = self.conf(has_tls);
        fs::write(scratch.path().join("nginx.conf"), conf).expect("written");
        let address = if has_tls { self.secure } else { self.plain };
        let nginx = Nginx::start_file(scratch, "nginx.conf", address, "").expect("nginx");
        self.note_pid(nginx.id());
        nginx
    }

    /// The process that the deploy hook reloads.
    fn note_pid(&self, id: u32) {
        fs::write(self.path().join("pid"), id.to_string()).expect("written");
    }

    /// The server with the settings that `check --nginx` prints, on nginx's own ports.
    fn headlong(&self) -> Server {
        let file = self.path().join("nginx.conf");
        fs::write(&file, self.conf(true)).expect("written");
        let mut check = self.folder.command(binary());
        let output = check.args(["check", "--nginx"]).arg(&file).output();
        let toml = String::from_utf8(output.expect("started").stdout).expect("text");
        let server = ServerBuilder::without_roots()
            .config(&toml)
            // Viewers that would take longer than the default are cut at once when it stops.
            .config("[limits]\ndrain_timeout = \"1h\"")
            .argument("--tls-listen")
            .argument(self.secure.to_string())
            .argument("--tls-redirect")
            .argument(self.plain.to_string())
            .start();
        self.note_pid(server.pid());
        server
    }

    fn connect(&self) -> Connection {
        let der = self.path().join("authority.der");
        if !der.exists() {
            let mut command = self.folder.command("openssl");
            command.args(["x509", "-outform", "der", "-in"]);
            command
                .arg(self.authority.certificate())
                .arg("-out")
                .arg(&der);
            assert!(command.status().expect("openssl").success());
        }
        let der = fs::read(der).expect("read");
        let connection = Connection::open(self.secure).expect("connected");
        connection
            .secured(&der, NAME)
            .expect("a certificate of the authority")
    }

    /// The certificate that a new viewer is shown.
    fn certificate(&self) -> Vec<u8> {
        self.connect().certificate().expect("one").to_vec()
    }

    /// Renews the certificate; waits until new viewers get it.
    fn renew(&self) {
        let before = self.certificate();
        let arguments = ["--force-renewal", "--no-random-sleep-on-renew"];
        self.authority.certbot("renew", &arguments);
        eventually(
            "another certificate",
            || self.certificate(),
            |now| *now != before,
        );
    }

    fn until_free(&self) {
        for address in [self.plain, self.secure] {
            let is_free = || TcpStream::connect(address).is_err();
            eventually("the port is free", is_free, |is_free| *is_free);
        }
    }
}

#[test]
fn move_from_nginx_with_certbot_and_back_cuts_no_viewer() {
    let test = "move_from_nginx_with_certbot_and_back_cuts_no_viewer";
    let programs = ["nginx", "certbot", "openssl"];
    if programs.iter().any(|program| !have_or_skip(test, program)) {
        return;
    }
    let site = Site::new();
    let hook = site.path().join("hook").display().to_string();
    let webroot = site.path().join("webroot").display().to_string();
    let nginx = site.nginx(false);
    let arguments = [
        "--webroot",
        "-w",
        &webroot,
        "-d",
        NAME,
        "--register-unsafely-without-email",
        "--deploy-hook",
        &hook,
    ];
    site.authority.certbot("certonly", &arguments);
    drop(nginx);

    let nginx = site.nginx(true);
    site.renew();
    let of_nginx = Download::start(site.connect());
    nginx.quit();
    site.until_free();
    let mut server = site.headlong();
    let mut of_server = Download::start(site.connect());
    of_nginx.finish();
    site.renew();
    of_server.read(PIECE);

    server
        .signal(rustix::process::Signal::TERM)
        .expect("signalled");
    site.until_free();
    let back = site.nginx(true);
    let of_nginx = Download::start(site.connect());
    site.renew();
    of_server.finish();
    of_nginx.finish();
    let ended = server.wait(std::time::Duration::from_secs(60));
    assert!(
        ended.is_some_and(|status| status.success()),
        "{ended:?}: {}",
        server.output()
    );
    drop(back);

    let outcomes = site.authority.lines();
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    let is_valid = |line: &String| line.starts_with("films.test valid");
    assert!(outcomes.iter().all(is_valid), "{outcomes:?}");
}
