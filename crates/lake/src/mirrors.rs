//! Several lakes that hold the same objects. What is written counts once every one of them has it.

use cannery_formats::Key;
use futures::future::join_all;

use crate::body::Body;
use crate::error::{Error, Result};
use crate::lake::Lake;
use crate::put::PutNew;

/// At least one lake; the first is the one that is read.
#[derive(Clone, Debug)]
pub struct Mirrors(Vec<Lake>);

/// How a put ended in each mirror.
#[derive(Debug)]
pub struct Put(Vec<(String, Result<PutNew>)>);

impl Mirrors {
    /// The lakes in the order of the configuration; `None` without any.
    #[must_use]
    pub fn new(lakes: Vec<Lake>) -> Option<Self> {
        (!lakes.is_empty()).then_some(Self(lakes))
    }

    /// The lake that is read.
    #[must_use]
    pub fn first(&self) -> &Lake {
        &self.0[0]
    }

    /// The lake with this id.
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<&Lake> {
        self.0.iter().find(|lake| lake.id() == id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Lake> {
        self.0.iter()
    }

    /// Creates an object in every mirror at once.
    pub async fn put_new(&self, key: &Key, body: impl Into<Body>) -> Put {
        let body = body.into();
        let puts = self.0.iter().map(|lake| {
            let body = body.clone();
            async move { (lake.id().to_owned(), lake.put_new(key, body).await) }
        });
        Put(join_all(puts).await)
    }
}

impl Put {
    /// Whether every mirror now has these bytes: only then may the source be removed.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        self.0
            .iter()
            .all(|(_, outcome)| matches!(outcome, Ok(PutNew::Created | PutNew::Same)))
    }

    /// The outcome in each mirror, by its id.
    pub fn outcomes(&self) -> impl Iterator<Item = (&str, Result<&PutNew, &Error>)> {
        self.0
            .iter()
            .map(|(id, outcome)| (id.as_str(), outcome.as_ref()))
    }
}
