//! nginx with one of the converter's sample files, and a server with what `headlong check --nginx`
//! makes of that file, over the same folders: the same requests to both, and how replies differ.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use headlong_testkit::client::{ClientError, Connection, Response};
use headlong_testkit::server::{Server, ServerBuilder, binary, free_address};
use headlong_testkit::{Scratch, pattern};

use crate::Nginx;

mod case;
mod compare;

pub use case::{Case, Places, usual_cases};
pub use compare::{Difference, differences};

/// Size of the title of the usual cases.
pub const SIZE: u64 = 3_000_017;
/// Its pattern.
pub const TITLE: u64 = 4711;

/// What a port of the file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Viewers, without TLS.
    Plain,
    /// Viewers, with TLS.
    Tls,
    /// Redirects to TLS.
    Redirect,
    /// The PROXY protocol; not requested here.
    Proxied,
}

/// A port that the file names, and the addresses that stand for it.
#[derive(Debug, Clone, Copy)]
struct Port {
    written: u16,
    of: Use,
    nginx: SocketAddr,
    headlong: SocketAddr,
}

/// Both servers.
pub struct Sides {
    _nginx: Nginx,
    _server: Server,
    ports: Vec<Port>,
    certificate: Vec<u8>,
    /// What the converter prints: settings, and findings.
    pub converted: (String, String),
}

/// The folder of a site, with a certificate for `localhost`.
pub struct Ground {
    scratch: Scratch,
    certificate: Vec<u8>,
}

impl Ground {
    /// An empty folder.
    pub fn new(certificate: (&[u8], &str, &str)) -> io::Result<Self> {
        let scratch = Scratch::new("side-by-side")?;
        fs::create_dir_all(scratch.path().join("root"))?;
        let (der, chain, key) = certificate;
        fs::write(scratch.path().join("cert.pem"), chain)?;
        fs::write(scratch.path().join("key.pem"), key)?;
        Ok(Self {
            scratch,
            certificate: der.to_vec(),
        })
    }

    /// The folder that stands for `@ROOT@`.
    pub fn root(&self) -> PathBuf {
        self.scratch.path().join("root")
    }

    /// Writes a file, dated an hour ago, so that no validator is weak.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        fs::write(&path, content)?;
        date(&path)
    }

    /// Writes the title of the usual cases.
    pub fn write_title(&self, name: &str) -> io::Result<()> {
        self.write(name, &pattern::bytes(TITLE, 0..SIZE))
    }

    /// Starts both servers. `upstreams` are the addresses of other servers in the file, and those
    /// that stand for them.
    pub fn start(
        &self,
        conf: &str,
        ports: &[(u16, Use)],
        upstreams: &[(&str, String)],
    ) -> Result<Sides, String> {
        let ports: Vec<Port> = ports
            .iter()
            .map(|&(written, of)| Port {
                written,
                of,
                nginx: free_address(),
                headlong: free_address(),
            })
            .collect();
        let text = |error: io::Error| error.to_string();
        let scratch = Scratch::new("nginx").map_err(text)?;
        let own = self.scratch.path().join("headlong");
        let on = |port: &Port| port.nginx;
        self.render(scratch.path(), (&ports, on), upstreams)
            .map_err(text)?;
        self.render(&own, (&ports, |port| port.headlong), upstreams)
            .map_err(text)?;
        // nginx makes its own.
        fs::create_dir_all(own.join("cache")).map_err(text)?;
        let first = ports.first().ok_or("no port")?.nginx;
        let nginx = Nginx::start_file(scratch, conf, first, "user root;");
        let nginx = nginx.map_err(text)?;
        let mut check = self.scratch.command(binary());
        check.args(["check", "--nginx"]).arg(own.join(conf));
        let output = check.output().map_err(text)?;
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let converted = (shown(&output.stdout), shown(&output.stderr));
        if !output.status.success() {
            return Err(converted.1);
        }
        let mut builder = ServerBuilder::without_roots().config(&converted.0);
        for port in &ports {
            let flag = match port.of {
                Use::Tls => "--tls-listen",
                Use::Redirect => "--tls-redirect",
                Use::Plain | Use::Proxied => continue,
            };
            builder = builder.argument(flag).argument(port.headlong.to_string());
        }
        let server = builder
            .try_start()
            .map_err(|error| format!("{error}\n{}", converted.0))?;
        let mut ports = ports;
        for port in ports.iter_mut().filter(|port| port.of == Use::Plain) {
            port.headlong = server.address();
        }
        Ok(Sides {
            _nginx: nginx,
            _server: server,
            ports,
            certificate: self.certificate.clone(),
            converted,
        })
    }

    /// Writes the sample files into `folder`, with the addresses of one side.
    fn render(
        &self,
        folder: &Path,
        (ports, address): (&[Port], fn(&Port) -> SocketAddr),
        upstreams: &[(&str, String)],
    ) -> io::Result<()> {
        let samples =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/headlong/tests/nginx");
        for sub in ["", "conf.d"] {
            fs::create_dir_all(folder.join(sub))?;
            for entry in fs::read_dir(samples.join(sub))? {
                let entry = entry?;
                if !entry.file_type()?.is_file() {
                    continue;
                }
                let mut text = fs::read_to_string(entry.path())?;
                for port in ports {
                    let (number, own) = (port.written, address(port));
                    for end in [' ', ';'] {
                        let written = format!("listen {number}{end}");
                        text = text.replace(&written, &format!("listen {own}{end}"));
                    }
                    text = without_statement(&text, &format!("listen [::]:{number}"));
                }
                for (written, address) in upstreams {
                    text = text.replace(written, address);
                }
                // The folder of a test may be read by its owner only.
                text = text.replace("user www-data;", "");
                for (mark, path) in [
                    ("@ROOT@", self.root()),
                    ("@CONF@", self.scratch.path().to_owned()),
                    ("@RUN@", folder.to_owned()),
                ] {
                    text = text.replace(mark, &path.display().to_string());
                }
                fs::write(folder.join(sub).join(entry.file_name()), text)?;
            }
        }
        Ok(())
    }
}

/// Removes each statement that begins with `start`, up to its semicolon.
fn without_statement(text: &str, start: &str) -> String {
    let mut pieces = text.split(start);
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        kept.push_str(piece.split_once(';').map_or("", |(_, rest)| rest));
    }
    kept
}

/// Sets the modification time of a file to an hour ago, in whole seconds.
fn date(path: &Path) -> io::Result<()> {
    let now = std::time::SystemTime::now();
    let seconds = now
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds - 3600);
    fs::File::options()
        .write(true)
        .open(path)?
        .set_modified(past)
}

/// The reply of one side, or how the connection ended without one.
pub type Outcome = Result<Response, String>;

impl Sides {
    /// Sends a case to both; the replies of nginx and of the server.
    pub fn ask(&self, case: &Case) -> (Outcome, Outcome) {
        let port = self.ports.iter().find(|port| port.written == case.port);
        let port = port.expect("a port of the file");
        let ask = |address| {
            self.ask_one(address, port.of, case)
                .map_err(|error| error.to_string())
        };
        (ask(port.nginx), ask(port.headlong))
    }

    fn ask_one(&self, address: SocketAddr, of: Use, case: &Case) -> Result<Response, ClientError> {
        let open = || {
            let connection = Connection::open(address)?;
            match of {
                Use::Tls => connection.secured(&self.certificate, "localhost"),
                _ => Ok(connection),
            }
        };
        let validators = match case.needs_validators() {
            false => None,
            true => {
                let probe = case.probe();
                let mut connection = open()?;
                connection.send(probe.text(None).as_bytes())?;
                Some(connection.receive("HEAD")?.head)
            }
        };
        let mut connection = open()?;
        for _ in 0..case.before {
            connection.send(case.text(validators.as_ref()).as_bytes())?;
            connection.receive(&case.method)?;
        }
        connection.send(case.text(validators.as_ref()).as_bytes())?;
        connection.receive(&case.method)
    }
}
