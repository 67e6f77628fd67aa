//! Status queries to a server under test, sent from inside its network namespace.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(5);
/// A status document takes a few kilobytes.
const BYTES_MAX: u64 = 1 << 22;

/// The JSON at `path`, or null: the status is optional and no result depends on it.
pub(crate) fn status(network: u32, port: u16, path: &'static str) -> Value {
    // In a separate thread: a thread that has entered the namespace cannot leave it.
    let asking = std::thread::spawn(move || ask(network, port, path));
    let answer = asking.join().ok().and_then(Result::ok);
    answer.unwrap_or_default()
}

/// Status of a reception daemon, or null.
pub(crate) fn reception_status(socket: &Path) -> Value {
    let text = headlong_reception::status(socket).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Status of a mount, or null.
pub(crate) fn mount_status(point: &Path) -> Value {
    let text = headlong_mount::status(point).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Whether a server answers a request. An open port is not enough: the server may still be
/// allocating memory, and a client that connects meanwhile would wait.
pub(crate) fn answers(network: u32, port: u16) -> bool {
    let asking = std::thread::spawn(move || {
        let mut stream = send(network, port, "/")?;
        stream.read(&mut [0; 1])
    });
    let heard = asking.join().ok().and_then(Result::ok);
    heard.is_some_and(|bytes| bytes > 0)
}

fn ask(network: u32, port: u16, path: &str) -> std::io::Result<Value> {
    let mut answer = Vec::new();
    let stream = send(network, port, path)?;
    stream.take(BYTES_MAX).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let body = text
        .split_once("\r\n\r\n")
        .map(|(_, body)| body)
        .unwrap_or_default();
    Ok(serde_json::from_str(body)?)
}

/// Connects and sends the request, from inside the network namespace of a process.
fn send(network: u32, port: u16, path: &str) -> std::io::Result<TcpStream> {
    let space = File::open(format!("/proc/{network}/ns/net"))?;
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    Ok(stream)
}
