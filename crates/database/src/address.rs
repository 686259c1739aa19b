//! Where a database is: a file, or a server.

use std::fmt;
use std::path::PathBuf;

use crate::error::Error;
use crate::postgres::Server;

/// The address of a database. Whatever shows it leaves the password out.
#[derive(Clone, Debug)]
pub enum Address {
    /// A file on the local disk.
    Sqlite(PathBuf),
    /// A server.
    Postgres(Box<Server>),
}

impl Address {
    /// Reads `postgres://user@host/database` (see [`Server::parse`]), `sqlite:<path>`, or a path. `who` is what the server
    /// shows of its clients.
    ///
    /// # Errors
    /// `Invalid` for what is no address, `Denied` when the server's certificate could not be checked.
    pub fn parse(text: &str, who: &str) -> Result<Self, Error> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(Box::new(Server::parse(text, who)?)));
        }
        match text.strip_prefix("sqlite:").unwrap_or(text) {
            "" => Err(Error::invalid("the address names no file")),
            path => Ok(Self::Sqlite(PathBuf::from(path))),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "database `sqlite:{}`", path.display()),
            Self::Postgres(server) => server.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_or_a_server() {
        for text in ["a/b.db", "sqlite:a/b.db"] {
            let address = Address::parse(text, "test").unwrap();
            assert_eq!(address.to_string(), "database `sqlite:a/b.db`");
        }
        for text in [
            "postgres://me:canary-pass@h/d",
            "postgresql://me:canary-pass@h/d",
        ] {
            let address = Address::parse(text, "test").unwrap();
            assert!(matches!(address, Address::Postgres(_)));
            assert!(!format!("{address} {address:?}").contains("canary"));
        }
        for text in ["", "sqlite:"] {
            assert!(Address::parse(text, "test").is_err(), "{text}");
        }
    }
}
