//! The real program and nginx, each in a folder of its own.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::client::Connection;

/// A running `cannery up`.
pub(crate) struct Ours {
    pub(crate) address: String,
    pub(crate) token: String,
    pub(crate) workspace: PathBuf,
    up: Child,
}

impl Ours {
    /// Starts it with a workspace below `folder`.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let workspace = folder.join("workspace");
        let mut up = Command::new(env!("CARGO_BIN_EXE_cannery"))
            .args(["up", "--json", "--listen", "127.0.0.1:0", "--workspace"])
            .arg(&workspace)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut lines = BufReader::new(up.stdout.take().unwrap());
        lines.read_line(&mut first).unwrap();
        let started: serde_json::Value = serde_json::from_str(&first).unwrap();
        let url = started["dashboard"].as_str().unwrap();
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        let token = std::fs::read_to_string(workspace.join("token")).unwrap();
        Self {
            address: address.to_owned(),
            token: token.trim().to_owned(),
            workspace,
            up,
        }
    }

    pub(crate) fn put(&self, path: &str, content: &[u8]) {
        assert_eq!(self.request("PUT", path, content), 204, "{path}");
    }

    /// A request on a connection of its own; its status.
    pub(crate) fn request(&self, method: &str, path: &str, body: &[u8]) -> u16 {
        Connection::open(&self.address).send(method, path, &self.token, body)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.up.id()
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        end(&mut self.up);
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        end(&mut self.up);
    }
}

/// Killed, nginx would leave its workers behind.
fn end(child: &mut Child) {
    if child.try_wait().unwrap().is_none() {
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        child.wait().unwrap();
    }
}

/// The memory of a process.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib * 1024
}

/// Ours and nginx, with the same bytes.
pub(crate) struct Servers {
    pub(crate) ours: Ours,
    /// Address of nginx.
    pub(crate) nginx: String,
    pub(crate) folder: TempDir,
    reference: Child,
    files: PathBuf,
}

impl Servers {
    pub(crate) fn start() -> Self {
        let folder = TempDir::with_prefix_in("bench-serve-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let ours = Ours::start(folder.path(), &[]);
        let files = folder.path().join("files");
        std::fs::create_dir(&files).unwrap();
        let (reference, nginx) = nginx(&folder);
        Self {
            ours,
            nginx,
            reference,
            files,
            folder,
        }
    }

    pub(crate) fn pids(&self) -> [u32; 2] {
        [self.ours.pid(), self.reference.id()]
    }

    /// The same bytes for both.
    pub(crate) fn store(&self, name: &str, content: &[u8]) {
        std::fs::write(self.files.join(name), content).unwrap();
        self.ours.put(&format!("/local/public/{name}"), content);
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        end(&mut self.reference);
    }
}

/// As it comes: a process a core, `sendfile`, connections kept open, no log.
fn nginx(folder: &TempDir) -> (Child, String) {
    // Free a moment ago, which is as sure as it gets for a server that takes a number.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let root = folder.path().display();
    let mut config = String::new();
    write!(
        config,
        "daemon off; master_process on; worker_processes auto; pid {root}/nginx.pid; error_log {root}/nginx.log; user root;
         events {{ worker_connections 4096; }}
         http {{ sendfile on; tcp_nopush on; access_log off; keepalive_requests 10000000;
           client_body_temp_path {root}/body; proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fastcgi;
           uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
           server {{ listen {address}; root {root}/files; }} }}"
    )
    .unwrap();
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, config).unwrap();
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"]
        .into_iter()
        .find(|program| Path::new(program).exists())
        .expect("nginx is not installed; run `cargo xtask setup --long`");
    let mut child = Command::new(program).arg("-c").arg(&file).spawn().unwrap();
    for _ in 0..200 {
        if std::net::TcpStream::connect(&address).is_ok() {
            return (child, address);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("nginx did not start");
}
