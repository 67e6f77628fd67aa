//! nginx: over the same folder, as a reference implementation of HTTP; or in front of a server.

use std::net::SocketAddr;
use std::path::Path;

use headlong_testkit::{Scratch, server::free_address};
use rustix::process::Signal;

use crate::program::Program;

/// A running nginx; stopped when dropped.
pub struct Nginx(Program);

impl Nginx {
    /// Serves `root` with nginx's defaults.
    pub fn start(root: &Path) -> std::io::Result<Self> {
        Self::start_with(root, "")
    }

    /// Serves `root` with further directives for the server.
    pub fn start_with(root: &Path, directives: &str) -> std::io::Result<Self> {
        let root = root.display();
        Self::start_http(|address| {
            format!("server {{ listen {address}; root '{root}'; {directives} }}")
        })
    }

    /// Starts it with the `http` block that `http` returns for the assigned address.
    pub fn start_http(http: impl FnOnce(SocketAddr) -> String) -> std::io::Result<Self> {
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
                 {}
             }}",
            http(address)
        );
        let file = scratch.path().join("nginx.conf");
        std::fs::write(&file, config)?;
        let mut command = scratch.command("/usr/sbin/nginx");
        command.arg("-c").arg(&file).arg("-p").arg(scratch.path());
        Program::start(scratch, &mut command, address).map(Self)
    }

    /// Starts it with a whole file `conf` in `scratch`, which listens on `address`. Its folders of
    /// temporary files are in `scratch`, too. `more` are further directives of the whole process.
    pub fn start_file(
        scratch: Scratch,
        conf: &str,
        address: SocketAddr,
        more: &str,
    ) -> std::io::Result<Self> {
        let (folder, file) = (scratch.path().to_owned(), scratch.path().join(conf));
        let text = std::fs::read_to_string(&file)?;
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {}/{name};", folder.display()));
        let http = format!("http {{ {}", temporary.concat());
        std::fs::write(&file, text.replacen("http {", &http, 1))?;
        let mut command = scratch.command("/usr/sbin/nginx");
        command.arg("-p").arg(&folder).arg("-c").arg(&file);
        command.arg("-g").arg(format!("daemon off; {more}"));
        Program::start(scratch, &mut command, address).map(Self)
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Makes it stop listening, and end when its last reply has ended.
    pub fn quit(&self) {
        self.0.signal(Signal::QUIT);
    }

    /// Listening address.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
}
