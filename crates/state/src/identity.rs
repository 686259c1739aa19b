//! Who may do what: users, their SSH public keys, and tokens.
//!
//! The id of a user is drawn once and never used again, so that what belonged to a user who was removed does not fall to the
//! next one of that name. Of a token only a hash is stored.

mod error;
mod keys;
mod records;
mod scope;
mod tokens;
mod users;

pub use error::{IdentityError, IdentityErrorKind};
pub use keys::{SignatureAlgorithm, UserKey};
pub use scope::{Scope, Scopes, UnknownScope};
pub use tokens::{IssuedToken, Token};
pub use users::{LOCAL_USER, User};
