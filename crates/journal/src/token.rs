//! Fencing: who holds a lease, and nobody after him.

use std::fmt;
use std::str::FromStr;

use cannery_runtime::Rng;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Proof of one claim of one entry. None is ever given out twice: the incarnation outlives every emptying of the journal,
/// the counter counts its claims, and the nonce covers what a fail-over may have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token {
    /// Which opening of the journal gave it out.
    pub incarnation: u64,
    /// Which claim of that opening.
    pub counter: u64,
    /// Chance.
    pub nonce: u64,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:x}-{:x}-{:016x}",
            self.incarnation, self.counter, self.nonce
        )
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text
            .split('-')
            .map(|part| u64::from_str_radix(part, 16).ok());
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Some(incarnation)), Some(Some(counter)), Some(Some(nonce)), None) => Ok(Self {
                incarnation,
                counter,
                nonce,
            }),
            _ => Err(Error::invalid(format!(
                "`{text}` is not a token; a claim prints the token of each entry"
            ))),
        }
    }
}

impl TryFrom<String> for Token {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.to_string()
    }
}

/// Gives out tokens for one opening of a journal.
#[derive(Debug)]
pub struct TokenSource {
    incarnation: u64,
    counter: u64,
    rng: Rng,
}

impl TokenSource {
    /// Tokens of an incarnation that no opening had before.
    #[must_use]
    pub fn new(incarnation: u64, rng: Rng) -> Self {
        Self {
            incarnation,
            counter: 0,
            rng,
        }
    }

    /// A token that never was and never comes back.
    pub fn next_token(&mut self) -> Token {
        self.counter += 1;
        let mut nonce = [0; 8];
        self.rng.fill(&mut nonce);
        Token {
            incarnation: self.incarnation,
            counter: self.counter,
            nonce: u64::from_le_bytes(nonce),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_being_printed() {
        let mut source = TokenSource::new(0xabc, Rng::seeded(1));
        let token = source.next_token();
        assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        assert_ne!(source.next_token(), token);
        for text in ["", "1-2", "1-2-3-4", "x-1-2", "+1-1-1 "] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
