//! nginx over the same folder, as a second opinion on what HTTP says.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use headlong_testkit::{Scratch, server::free_address};

/// A running nginx; ended when dropped.
pub struct Nginx {
    child: Child,
    address: SocketAddr,
    _scratch: Scratch,
}

impl Nginx {
    /// Serves `root` as nginx does unless told otherwise.
    pub fn start(root: &Path) -> std::io::Result<Self> {
        Self::start_with(root, "")
    }

    /// Serves `root` with further directives for the server.
    pub fn start_with(root: &Path, directives: &str) -> std::io::Result<Self> {
        let scratch = Scratch::new("nginx")?;
        let address = free_address();
        let folder = scratch.path().display();
        let config = format!(
            "daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;
             events {{ worker_connections 512; }}
             http {{
                 include /etc/nginx/mime.types;
                 access_log off;
                 client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
                 fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
                 scgi_temp_path {folder}/scgi;
                 server {{ listen {address}; root '{}'; {directives} }}
             }}",
            root.display()
        );
        let file = scratch.path().join("nginx.conf");
        std::fs::write(&file, config)?;
        let child = scratch
            .command("/usr/sbin/nginx")
            .arg("-c")
            .arg(&file)
            .arg("-p")
            .arg(scratch.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut nginx = Self {
            child,
            address,
            _scratch: scratch,
        };
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            let has_ended = nginx.child.try_wait()?.is_some();
            if has_ended || Instant::now() > end {
                return Err(std::io::Error::other("nginx does not listen"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(nginx)
    }

    /// Where it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
