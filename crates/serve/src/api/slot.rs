//! Where the API of a process is put once it can be used. The server answers before that, and also when it never can.

use std::sync::{Arc, PoisonError, RwLock};

use cannery_formats::UserName;
use cannery_runtime::Secret;
use cannery_state::identity::Scopes;

use super::{Api, ApiParts};

/// The place of the API; clones are the same place. As long as it is empty, requests are answered 503.
#[derive(Clone, Default)]
pub struct ApiSlot(Arc<RwLock<Option<Arc<Api>>>>);

impl ApiSlot {
    /// Requests are answered from now on.
    pub fn open(&self, parts: ApiParts) {
        self.put(Some(Api::new(parts)));
    }

    /// No further request is answered; those under way go on.
    pub fn close(&self) {
        self.put(None);
    }

    /// A link below `base`, such as `http://127.0.0.1:8420`, by which one browser becomes this user for twelve hours. It is good
    /// once, for ten minutes. Nothing while there is no API.
    #[must_use]
    pub fn login_link(&self, base: &str, user: &UserName, scopes: &Scopes) -> Option<Secret> {
        let path = self.api()?.login_path(user, scopes);
        let base = base.trim_end_matches('/');
        Some(Secret::new(format!("{base}{path}")))
    }

    fn put(&self, api: Option<Arc<Api>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = api;
    }

    pub(crate) fn api(&self) -> Option<Arc<Api>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
