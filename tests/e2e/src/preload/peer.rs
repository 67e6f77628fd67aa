//! nginx and Apache, under `headlong run` or without it, each with all its read methods, and
//! clients that verify every byte.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use headlong_testkit::{Scratch, Seed, pattern, server::free_address};

use crate::Title;
use crate::program::Program;

/// Largest range of a request; some requests are for a whole title.
const RANGE_BYTES_MAX: u64 = 400_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server; stopped when dropped.
pub struct Peer {
    program: Program,
    /// Folders in its URLs, one for each read method.
    pub ways: &'static [&'static str],
}

impl Peer {
    /// nginx with two workers. Without `open_file_cache`: with it, nginx toggles `O_DIRECT` on a
    /// descriptor that requests share, and sends short replies even without the library.
    pub fn nginx(root: &Path, under: &[String]) -> io::Result<Self> {
        let (scratch, address) = (Scratch::new("nginx")?, free_address());
        let (folder, root) = (scratch.path().display(), root.display());
        let way = |name: &str, directives: &str| {
            format!("location /{name}/ {{ alias {root}/; {directives} }}\n")
        };
        let ways = [
            way("default", "sendfile off;"),
            way("large-buffers", "sendfile off; output_buffers 2 1m;"),
            way("sendfile", "sendfile on; sendfile_max_chunk 512k;"),
            way("threads", "sendfile on; aio threads;"),
            way("threads-read", "sendfile off; aio threads;"),
            way("direct", "sendfile on; aio threads; directio 512;"),
        ];
        let config = format!(
            "daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/errors;
             events {{ worker_connections 512; }}
             http {{
                 access_log off; tcp_nopush on;
                 client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
                 fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
                 scgi_temp_path {folder}/scgi;
                 server {{ listen {address}; {} }}
             }}",
            ways.concat()
        );
        let file = scratch.path().join("nginx.conf");
        std::fs::write(&file, config)?;
        let mut command = command(&scratch, under, "/usr/sbin/nginx");
        command.arg("-c").arg(&file).arg("-p").arg(scratch.path());
        Ok(Self {
            program: Program::start(scratch, &mut command, address)?,
            ways: &[
                "default",
                "large-buffers",
                "sendfile",
                "threads",
                "threads-read",
                "direct",
            ],
        })
    }

    /// Apache with its event MPM.
    pub fn apache(root: &Path, under: &[String]) -> io::Result<Self> {
        let (scratch, address) = (Scratch::new("apache")?, free_address());
        let (folder, root) = (scratch.path().display(), root.display());
        let modules = ["mpm_event", "authz_core", "alias"];
        let modules = modules.map(|name| {
            format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
        });
        let way = |name: &str, directives: &str| {
            format!("Alias /{name}/ {root}/\n<Location /{name}/>\n{directives}</Location>\n")
        };
        let config = format!(
            "{}ServerRoot {folder}\nDefaultRuntimeDir {folder}\nPidFile {folder}/pid
ServerName localhost\nUser www-data\nGroup www-data\nErrorLog {folder}/errors
Listen {address}\nStartServers 2\nThreadsPerChild 16\nMaxRequestWorkers 32\nKeepAliveTimeout 60\nMaxKeepAliveRequests 0
<Directory {root}>\nRequire all granted\n</Directory>\n{}{}{}",
            modules.concat(),
            way("default", ""),
            way("sendfile", "EnableSendfile On\n"),
            way("no-mmap", "EnableMMAP Off\n"),
        );
        let file = scratch.path().join("apache.conf");
        std::fs::write(&file, config)?;
        let mut command = command(&scratch, under, "/usr/sbin/apache2");
        command.args(["-D", "FOREGROUND", "-f"]).arg(&file);
        Ok(Self {
            program: Program::start(scratch, &mut command, address)?,
            ways: &["default", "sendfile", "no-mmap"],
        })
    }

    /// Process id of its main process.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// Its processes that were ended by a signal, from its error log.
    pub fn crashes(&self) -> Vec<String> {
        let log = self.program.folder().join("errors");
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let crashes = log.lines().filter(|line| line.contains("signal"));
        // It logs the signal of an ordinary stop, too.
        let crashes =
            crashes.filter(|line| line.contains("exit signal") || line.contains("exited on"));
        crashes.map(str::to_owned).collect()
    }

    /// A client that uses this read method.
    pub fn client(&self, way: &str, seed: u64) -> io::Result<Client> {
        Client::new(self.program.address, way, seed)
    }
}

/// A program with this command prefix, or without a prefix if it is empty.
fn command(scratch: &Scratch, under: &[String], program: &str) -> Command {
    let words = under.iter().map(String::as_str).chain([program]);
    let words: Vec<&str> = words.collect();
    let mut command = scratch.command(words[0]);
    command.args(&words[1..]);
    command
}

/// A client that requests parts of titles over one connection.
pub struct Client {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
    way: String,
    seed: Seed,
}

impl Client {
    fn new(address: SocketAddr, way: &str, seed: u64) -> io::Result<Self> {
        Ok(Self {
            address,
            stream: connect(address)?,
            way: way.to_owned(),
            seed: Seed::new(seed),
        })
    }

    /// Requests a random part of a title, or sometimes all of it, and verifies status, length and
    /// every byte.
    pub fn ask(&mut self, titles: &[Title]) -> Result<(), String> {
        let title = &titles[self.seed.below(titles.len() as u64) as usize];
        let (start, end) = match self.seed.below(12) {
            0 => (0, title.size_bytes),
            _ => {
                let start = self.seed.below(title.size_bytes);
                let length = 1 + self.seed.below(RANGE_BYTES_MAX);
                (start, (start + length).min(title.size_bytes))
            }
        };
        let is_whole = (start, end) == (0, title.size_bytes);
        let range = match is_whole {
            true => String::new(),
            false => format!("Range: bytes={start}-{}\r\n", end - 1),
        };
        let (way, target) = (&self.way, &title.target);
        let request = format!("GET /{way}{target} HTTP/1.1\r\nHost: x\r\n{range}\r\n");
        let asked = format!("{way} {target} {start}..{end}");
        let failed = |error: io::Error| format!("{asked}: {error}");
        let mut head = self.head(&request);
        if head.as_ref().is_ok_and(String::is_empty) || head.is_err() {
            // A server may close an idle connection: retry once, on a new one.
            self.stream = connect(self.address).map_err(failed)?;
            head = self.head(&request);
        }
        let head = head.map_err(failed)?;
        let status = if is_whole { " 200 " } else { " 206 " };
        let length = format!("content-length: {}\r\n", end - start);
        if !head.contains(status) || !head.contains(&length) {
            return Err(format!("{asked}: {head:?}"));
        }
        let mut body = vec![0; (end - start) as usize];
        self.stream.read_exact(&mut body).map_err(failed)?;
        pattern::verify(title.number, start, &body).map_err(|wrong| format!("{asked}: {wrong}"))
    }

    /// Sends a request; returns the head of the reply in lower case, empty if the connection was
    /// closed.
    fn head(&mut self, request: &str) -> io::Result<String> {
        self.stream.get_mut().write_all(request.as_bytes())?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                break;
            }
        }
        Ok(head.to_ascii_lowercase())
    }
}

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}
