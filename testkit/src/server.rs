//! The real server as a child process on its own ports: started, awaited, observed, stopped.
//!
//! Dropping it sends SIGTERM and, after a timeout, SIGKILL, and always waits for the exit. If the
//! test is killed first, the guardian of its directory kills the server.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::{self, Response};
use crate::replacements::Replacements;
use crate::scratch::Scratch;

/// Timeout for becoming ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout for the exit after SIGTERM, before SIGKILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Limit on the output kept of one server.
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// Path of the binary under test: the environment variable `HEADLONG_BIN`, else the one that cargo
/// builds beside the running test (rebuilt if it is older than its sources).
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("HEADLONG_BIN") {
            return PathBuf::from(path);
        }
        let test = std::env::current_exe().expect("the path of the test");
        // target/PROFILE/deps/TEST-HASH
        let profile = test
            .ancestors()
            .nth(2)
            .expect("a test in target/PROFILE/deps");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let mut build = Command::new(cargo);
        build.args([
            "build",
            "--quiet",
            "--package",
            "headlong",
            "--package",
            "headlong-lab",
        ]);
        if profile.file_name().is_some_and(|name| name == "release") {
            build.arg("--release");
        }
        build
            .arg("--target-dir")
            .arg(profile.parent().expect("a profile in a target folder"));
        build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
        let status = build.status().expect("cargo");
        assert!(status.success(), "cargo build -p headlong failed: {status}");
        profile.join("headlong")
    })
}

/// A free port below the range of the kernel's ephemeral ports, so that no outgoing connection can
/// take it before the server does. Other tests cannot take it either: each port is claimed until
/// this process ends.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static CLAIMS: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());
    const FIRST: u32 = 10_240;
    const COUNT: u32 = 20_000;
    // Concurrent test processes start at different ports.
    let offset = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(offset) % COUNT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, (FIRST + number) as u16));
        let Ok(claim) = claim(address.port()) else {
            continue;
        };
        if TcpListener::bind(address).is_ok() {
            CLAIMS
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(claim);
            return address;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

/// A name that only one process at a time can hold, released by the kernel at its end: otherwise
/// another test could choose the port before the server listens on it.
fn claim(port: u16) -> io::Result<UnixDatagram> {
    let name = format!("headlong-test-port-{port}");
    UnixDatagram::bind_addr(&UnixAddress::from_abstract_name(name)?)
}

/// Builder of a server.
#[derive(Debug, Clone)]
pub struct ServerBuilder {
    roots: Vec<PathBuf>,
    /// `None` if the configuration sets `process_memory`.
    memory: Option<String>,
    config: String,
    arguments: Vec<OsString>,
    open_files_max: Option<u32>,
    environment: HashMap<OsString, OsString>,
    program: Option<PathBuf>,
    is_replaceable: bool,
    address: Option<SocketAddr>,
}

/// A running server.
pub struct Server {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    config_path: PathBuf,
    output: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
    exit: Option<ExitStatus>,
    heirs: Replacements,
    _scratch: Scratch,
}

impl ServerBuilder {
    /// A server of these roots with 32 MiB of memory and an otherwise empty configuration.
    pub fn new<P: AsRef<Path>>(roots: impl IntoIterator<Item = P>) -> Self {
        Self {
            roots: roots
                .into_iter()
                .map(|root| root.as_ref().to_owned())
                .collect(),
            memory: Some("32MiB".to_owned()),
            config: String::new(),
            arguments: Vec::new(),
            open_files_max: None,
            environment: HashMap::new(),
            program: None,
            is_replaceable: false,
            address: None,
        }
    }

    /// Serves at this address instead of a free one, so that other servers can name it before.
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Receives the server's notifications of its service manager, for [`Server::replace`].
    pub fn replaceable(mut self) -> Self {
        self.is_replaceable = true;
        self
    }

    /// Starts this program instead of the binary under test, for example a copy of it.
    pub fn program(mut self, path: &Path) -> Self {
        self.program = Some(path.to_owned());
        self
    }

    /// Sets `--memory`.
    pub fn memory(mut self, size: &str) -> Self {
        self.memory = Some(size.to_owned());
        self
    }

    /// Sets `process_memory` instead of `--memory`.
    pub fn process_memory(mut self, size: &str) -> Self {
        self.memory = None;
        self.config(&format!("process_memory = \"{size}\""))
    }

    /// A server whose configuration names all that it serves.
    pub fn without_roots() -> Self {
        Self::new::<&Path>([])
    }

    /// Adds lines to the configuration file (TOML); top-level keys before any table.
    pub fn config(mut self, toml: &str) -> Self {
        let _ = writeln!(self.config, "{toml}");
        self
    }

    /// A command line that should be rejected; if the process keeps running, it ends with the
    /// directory.
    pub fn arguments(scratch: &Scratch, roots: &[&Path], arguments: &[&str]) -> Command {
        let mut command = scratch.command(binary());
        command
            .arg("serve")
            .args(roots)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Adds a command-line argument.
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Sets a limit of open files, which the server cannot raise (`ulimit -n`).
    pub fn open_files_max(mut self, files: u32) -> Self {
        self.open_files_max = Some(files);
        self
    }

    /// Sets an environment variable.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Starts the server and waits until it is ready.
    ///
    /// # Panics
    /// If it does not become ready; the message has its output.
    #[track_caller]
    pub fn start(self) -> Server {
        self.try_start().unwrap_or_else(|why| panic!("{why}"))
    }

    /// Like [`Self::start`], for a server that may refuse to start: its output is the error.
    pub fn try_start(self) -> Result<Server, String> {
        let scratch = Scratch::new("server").map_err(|error| error.to_string())?;
        let config_path = scratch.path().join("headlong.toml");
        std::fs::write(&config_path, &self.config).map_err(|error| error.to_string())?;
        let address = self.address.unwrap_or_else(free_address);
        let admin = free_address();
        let heirs = Replacements::listen(scratch.path()).map_err(|error| error.to_string())?;
        let program = self.program.as_deref().unwrap_or_else(|| binary());
        let mut command = match self.open_files_max {
            None => scratch.command(program),
            Some(files) => {
                let mut shell = scratch.command("/bin/sh");
                let limited = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
                shell.args(["-c", &limited]).arg(program);
                shell
            }
        };
        command
            .arg("serve")
            .args(&self.roots)
            .args([
                "--listen",
                &address.to_string(),
                "--admin",
                &admin.to_string(),
            ])
            .args(self.memory.iter().flat_map(|size| ["--memory", size]))
            .arg("--config")
            .arg(&config_path)
            .args(&self.arguments)
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.is_replaceable {
            command.env("NOTIFY_SOCKET", heirs.path());
        }
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", binary().display()))?;
        let output = Arc::new(Mutex::new(Vec::new()));
        let mut readers = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            readers.push(keep_output(pipe, Arc::clone(&output)));
        }
        if let Some(pipe) = child.stderr.take() {
            readers.push(keep_output(pipe, Arc::clone(&output)));
        }
        let exit = None;
        let mut server = Server {
            child,
            address,
            admin,
            config_path,
            output,
            readers,
            exit,
            heirs,
            _scratch: scratch,
        };
        server.wait_until_ready()?;
        Ok(server)
    }
}

impl Server {
    /// Address of the content service.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the admin interface.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Id of the current server process.
    pub fn pid(&self) -> u32 {
        self.heirs.last().unwrap_or_else(|| self.child.id())
    }

    /// Upgrades to a new process of the same program (SIGUSR2). Returns the id of that process,
    /// once it serves.
    pub fn replace(&mut self) -> Result<u32, String> {
        let signalled = self.signal(Signal::USR2);
        signalled.map_err(|error| error.to_string())?;
        self.heirs.wait(READY_TIMEOUT)
    }

    /// Its configuration file, to be changed before a reload.
    pub fn config_path(&self) -> &Path {
        &self.config_path
    }

    /// Its standard output and standard error so far.
    pub fn output(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&output).into_owned()
    }

    /// The reply to a request on a new connection. Panics, like the methods below, if there is no
    /// complete reply; where that is possible, use [`client::fetch`].
    #[track_caller]
    pub fn request(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
        fetched(self.address, method, target, fields)
    }

    /// The reply to a plain GET.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        fetched(self.address, "GET", target, &[])
    }

    /// The reply of the admin interface.
    #[track_caller]
    pub fn admin_request(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
        fetched(self.admin, method, target, fields)
    }

    /// A document of the admin interface.
    #[track_caller]
    pub fn admin_json(&self, target: &str) -> Value {
        let reply = fetched(self.admin, "GET", target, &[]);
        assert_eq!(reply.status(), 200, "{target}: {}", reply.text());
        serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{target}: {error}"))
    }

    /// `/status`.
    #[track_caller]
    pub fn status(&self) -> Status {
        Status(self.admin_json("/status"))
    }

    /// `/metrics` as text.
    #[track_caller]
    pub fn metrics(&self) -> String {
        fetched(self.admin, "GET", "/metrics", &[]).text()
    }

    /// Replies so far, of all statuses.
    #[track_caller]
    pub fn replies(&self) -> u64 {
        let metrics = self.metrics();
        let lines = metrics.lines();
        let lines = lines.filter(|line| line.starts_with("headlong_responses_total{"));
        let counts = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        counts.sum()
    }

    /// Memory of the process.
    pub fn memory(&self) -> io::Result<ProcessMemory> {
        ProcessMemory::of(self.pid())
    }

    /// Sends a signal to the current server process.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_raw(self.pid() as i32).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits for the exit of the process that was started first; `None` after `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + timeout;
        loop {
            if self.exit.is_none() {
                self.exit = self.child.try_wait().ok().flatten();
            }
            if self.exit.is_some() || Instant::now() >= end {
                return self.exit;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends SIGTERM and waits; `None` if the server had to be killed.
    pub fn stop(mut self) -> Option<ExitStatus> {
        let _ = self.signal(Signal::TERM);
        self.wait(STOP_TIMEOUT)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let end = Instant::now() + READY_TIMEOUT;
        while Instant::now() < end {
            if let Some(status) = self.wait(Duration::ZERO) {
                self.join_readers();
                return Err(format!(
                    "the server ended with {status}:\n{}",
                    self.output()
                ));
            }
            match client::fetch(self.admin, "GET", "/healthz", &[]) {
                Ok(response) if response.status() == 200 => return Ok(()),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        Err(format!(
            "the server was not ready after {READY_TIMEOUT:?}:\n{}",
            self.output()
        ))
    }

    fn join_readers(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = reader.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.heirs.end(STOP_TIMEOUT);
        if self.wait(Duration::ZERO).is_none() {
            if let Some(first) = Pid::from_raw(self.child.id() as i32) {
                let _ = kill_process(first, Signal::TERM);
            }
            if self.wait(STOP_TIMEOUT).is_none() {
                eprintln!("testkit: the server did not end after SIGTERM; killing it");
                let _ = self.child.kill();
                // A process in an uninterruptible read cannot even be killed before the disk
                // answers; the disk's guard, dropped later, makes it answer.
                let _ = self.wait(STOP_TIMEOUT);
            }
        }
        if self.exit.is_some() {
            self.join_readers();
        }
        if std::thread::panicking() {
            eprintln!("output of the server:\n{}", self.output());
        }
    }
}

#[track_caller]
fn fetched(address: SocketAddr, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    let reply = client::fetch(address, method, target, fields);
    reply.unwrap_or_else(|error| panic!("{method} {target}: {error}"))
}

fn keep_output(mut pipe: impl Read + Send + 'static, into: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            let mut output = into.lock().unwrap_or_else(PoisonError::into_inner);
            let room = OUTPUT_BYTES_MAX.saturating_sub(output.len());
            output.extend_from_slice(&buffer[..length.min(room)]);
        }
    })
}

/// `/status`.
#[derive(Debug, Clone, PartialEq)]
pub struct Status(pub Value);

impl Status {
    /// The entries of the devices.
    pub fn devices(&self) -> &[Value] {
        self.0
            .get("devices")
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// The entry of the device with this name, as a status with this device only.
    pub fn device(&self, name: &str) -> Option<Self> {
        let is_it = |device: &&Value| device.get("name").and_then(Value::as_str) == Some(name);
        let device = self.devices().iter().find(is_it)?;
        Some(Self(serde_json::json!({ "devices": [device] })))
    }

    /// A counter, summed over the devices.
    ///
    /// # Panics
    /// If a device lacks it: a misspelt counter must not count as zero.
    pub fn counter(&self, name: &str) -> u64 {
        self.sum("counters", name)
    }

    /// A class of memory (`unread_bytes`), summed over the devices; panics as [`Status::counter`].
    pub fn memory(&self, class: &str) -> u64 {
        self.sum("memory", class)
    }

    /// The state of the first device.
    pub fn state(&self) -> Option<&str> {
        self.devices().first()?.get("state")?.as_str()
    }

    /// The name of the policy of the first device.
    pub fn policy(&self) -> Option<&str> {
        self.devices().first()?.get("policy")?.get("name")?.as_str()
    }

    fn sum(&self, group: &str, name: &str) -> u64 {
        let value = |device: &Value| device.get(group)?.get(name)?.as_u64();
        let known = |device| value(device).unwrap_or_else(|| panic!("no {group}.{name}: {device}"));
        self.devices().iter().map(known).sum()
    }
}

/// Resident memory of a process, from `/proc/PID/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    /// Resident set size.
    pub resident_bytes: u64,
    /// Anonymous memory: heap, stacks, pools; not the program's text.
    pub anonymous_bytes: u64,
}

impl ProcessMemory {
    /// Memory of the process with this id.
    pub fn of(pid: u32) -> io::Result<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
                .map(|kib| kib * 1024)
                .ok_or_else(|| io::Error::other(format!("no {name} in /proc/{pid}/status")))
        };
        Ok(Self {
            resident_bytes: field("VmRSS")?,
            anonymous_bytes: field("RssAnon")?,
        })
    }
}

/// Processor time of a process so far, from `/proc/PID/stat`.
///
/// # Panics
/// If the process does not exist.
pub fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process exists");
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    // Of the user and of the kernel: the 14th and 15th field of the line, which begin at the third.
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks = ticks.map(|ticks| ticks.parse::<u64>().expect("a number"));
    // A tick is a hundredth of a second on all machines.
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assigned_port_is_claimed() {
        let address = free_address();
        assert_ne!(free_address(), address);
        let error = claim(address.port()).expect_err("a claimed port");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn counters_are_summed_over_devices() {
        let status = Status(serde_json::json!({
            "devices": [
                {"name": "sda", "counters": {"jobs": 3}, "queue": {"jobs": 9}, "state": "online"},
                {"name": "sdb", "counters": {"jobs": 4}, "queue": {"jobs": 9}, "state": "offline"},
            ],
        }));
        assert_eq!(status.counter("jobs"), 7);
        let one = status.device("sdb").expect("sdb");
        assert_eq!((one.counter("jobs"), one.state()), (4, Some("offline")));
        assert!(status.device("sdc").is_none());
        assert!(std::panic::catch_unwind(|| status.counter("jbos")).is_err());
    }

    #[test]
    fn reads_memory_of_own_process() {
        let memory = ProcessMemory::of(std::process::id()).expect("/proc");
        assert!(memory.resident_bytes >= memory.anonymous_bytes && memory.anonymous_bytes > 0);
    }
}
