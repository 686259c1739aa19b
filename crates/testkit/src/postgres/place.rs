//! Where a server's files lie and who runs its programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cannery_runtime::RealDisk;
use cannery_runtime::disk::write_durably;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::{Error, Result, server, tools};

/// Making the files of a server takes seconds, on a busy machine a minute.
const MAKE_LIMIT: Duration = Duration::from_secs(120);

/// A folder with the files of one server, gone when dropped.
#[derive(Debug)]
pub(super) struct Place {
    dir: TempDir,
    settings: Vec<String>,
    /// Set when we are root, because PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
}

impl Place {
    /// A place among the system's temporary files.
    pub(super) fn make(settings: &[(&str, &str)]) -> Result<Self> {
        Self::own(server::temp_dir("postgres")?, settings)
    }

    /// A place below `parent`.
    pub(super) fn make_in(parent: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let doing = format!("make a folder in `{}`", parent.display());
        // The programs run in another folder than the caller does.
        let dir = parent.canonicalize().and_then(|parent| {
            tempfile::Builder::new()
                .prefix("cannery-postgres-")
                .tempdir_in(parent)
        });
        let dir = dir.map_err(Error::io(doing))?;
        Self::own(dir, settings)
    }

    fn own(dir: TempDir, settings: &[(&str, &str)]) -> Result<Self> {
        let user = if geteuid().is_root() {
            Some(account("postgres")?)
        } else {
            None
        };
        if let Some((uid, gid)) = user {
            chown(dir.path(), Some(uid), Some(gid))
                .map_err(Error::io("give the server's folder to the user `postgres`"))?;
            can_be_entered(dir.path())?;
        }
        let settings = settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        Ok(Self {
            dir,
            settings,
            user,
        })
    }

    /// Makes the files of a new server.
    pub(super) async fn init(&self) -> Result<()> {
        let mut initdb = Command::new(tools::postgres("initdb")?);
        initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8"]);
        // What is lost with the machine's power is a server that nobody has used yet.
        initdb.args(["--locale=C", "--no-sync"]);
        initdb.arg("-D").arg(self.data());
        self.make_files(initdb).await
    }

    /// Makes the files of a standby of the server at `conninfo`, which gets the replication slot `slot` for it.
    pub(super) async fn follow(&self, conninfo: &str, slot: &str) -> Result<()> {
        let mut backup = Command::new(tools::postgres("pg_basebackup")?);
        backup.args(["-R", "-X", "stream", "-C", "-S", slot, "-d", conninfo]);
        backup.args(["-c", "fast", "--no-sync"]);
        backup.arg("-D").arg(self.data());
        self.make_files(backup).await
    }

    /// Gives the server a certificate, and lets in only who speaks TLS; gives the authority's certificate.
    pub(super) fn certify(&self) -> Result<String> {
        let failed = |error: rcgen::Error| Error::failed("make a certificate", &error);
        let authority_key = KeyPair::generate().map_err(failed)?;
        let mut authority = CertificateParams::new(Vec::new()).map_err(failed)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = authority.self_signed(&authority_key).map_err(failed)?.pem();
        let authority = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().map_err(failed)?;
        let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).map_err(failed)?;
        let own = own.signed_by(&key, &authority).map_err(failed)?;
        self.write("server.crt", &own.pem())?;
        self.write("server.key", &key.serialize_pem())?;
        self.write("pg_hba.conf", "hostssl all all 127.0.0.1/32 trust\n")?;
        Ok(pem)
    }

    /// Writes a file that only the server may read.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.data().join(name);
        let write = || {
            write_durably(&RealDisk, &path, text.as_bytes())?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
            match self.user {
                Some((uid, gid)) => chown(&path, Some(uid), Some(gid)),
                None => Ok(()),
            }
        };
        write().map_err(Error::io(format!("write `{}`", path.display())))
    }

    async fn make_files(&self, mut command: Command) -> Result<()> {
        self.as_user(&mut command);
        server::run(&mut command.into(), MAKE_LIMIT).await.map(drop)
    }

    /// The command that runs the server.
    pub(super) fn command(&self, program: &Path, port: u16) -> Command {
        let mut command = server::command(program);
        command.arg("-D").arg(self.data());
        // No socket in the file system: the path of one may be too long.
        command.args(["-k", ""]);
        command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        self.as_user(&mut command);
        command
    }

    pub(super) fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn as_user(&self, command: &mut Command) {
        // The caller's folder may be one that the user must not enter.
        command.current_dir(self.dir.path());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
    }
}

/// Refuses a folder that only root may reach; PostgreSQL's own message would not say which one is in the way.
fn can_be_entered(folder: &Path) -> Result<()> {
    for above in folder.ancestors().skip(1) {
        let doing = || format!("run PostgreSQL in `{}`", folder.display());
        let mode = fs::metadata(above).map_err(Error::io(doing()))?;
        if mode.permissions().mode() & 0o001 == 0 {
            let why = format!(
                "the user `postgres` may not enter `{}`; choose a folder that everybody may enter",
                above.display()
            );
            return Err(Error::failed(doing(), &why));
        }
    }
    Ok(())
}

/// User and group id of a local account.
fn account(name: &str) -> Result<(u32, u32)> {
    let accounts = fs::read_to_string("/etc/passwd").map_err(Error::io("read the accounts"))?;
    let found = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        is_it.then_some((uid, gid))
    });
    found.ok_or_else(|| {
        Error::failed(
            format!("find the user `{name}`"),
            &"no such account; run `cargo xtask setup`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_closed_to_others_is_named() {
        let closed = tempfile::tempdir().unwrap();
        let inside = closed.path().join("inside");
        let set_mode = |mode| {
            fs::set_permissions(closed.path(), fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(0o700);
        let error = can_be_entered(&inside).unwrap_err().to_string();
        let named = format!("may not enter `{}`", closed.path().display());
        assert!(error.contains(&named), "{error}");

        set_mode(0o755);
        can_be_entered(&inside).unwrap();
    }
}
