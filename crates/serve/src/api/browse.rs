//! What the page of objects shows of a user who is logged in: the same rules as for programs, other words.

use cannery_formats::ObjectEntry;
use cannery_formats::object_log::StoredObject;
use cannery_objects::{Conditions, RequestedChange};
use cannery_state::identity::{Scopes, User};
use cannery_state::objects::{EntryKey, ListedEntry, PageStart, SortKey, SortOrder};

use super::Api;
use super::access::{self, Intent};
use super::address::ApiAddress;
use super::caller::Caller;
use super::error::ApiError;
use super::listing::time;

/// Entries of a page.
const ENTRIES: usize = 100;
/// What is shown of an object.
const PREVIEW_BYTES: u64 = 64 * 1024;

/// What is at a path.
pub(crate) enum Browsed {
    Directory {
        entries: Vec<BrowsedEntry>,
        /// How many there are in all.
        children: u64,
        /// The name that the next page begins behind.
        next: Option<String>,
    },
    Object {
        bytes: u64,
        modified: String,
        media_type: String,
        /// Its beginning, if that is text.
        preview: Option<String>,
    },
}

/// A line of a directory.
pub(crate) struct BrowsedEntry {
    pub(crate) name: String,
    /// Its length; nothing for a directory.
    pub(crate) bytes: Option<u64>,
    pub(crate) modified: String,
}

fn admit((user, scopes): (User, Scopes), path: &str, intent: Intent) -> Result<EntryKey, ApiError> {
    let address = ApiAddress::parse(&format!("/{}{path}", user.name))?;
    let account = user.id.clone();
    access::check(&Caller::User { user, scopes }, intent, &address)?;
    let path = address.path;
    Ok(EntryKey { account, path })
}

/// Looks at a path such as `/stor/a%20b`; `after` is the name that a page of a directory begins behind.
pub(crate) async fn look(
    api: &Api,
    who: (User, Scopes),
    path: &str,
    after: Option<String>,
) -> Result<Browsed, ApiError> {
    let at = admit(who, path, Intent::Read)?;
    let namespace = &api.parts.namespace;
    let found = namespace.find(&at).await?;
    match found.ok_or_else(|| ApiError::absent(path))?.entry {
        ObjectEntry::Directory { .. } => {
            let start = after.map_or(PageStart::First, |name| PageStart::After {
                mtime_us: 0,
                name,
            });
            let sort = (SortKey::Name, SortOrder::Forward);
            let page = namespace.list(&at, sort, &start, None, ENTRIES).await?;
            let last = page.entries.last().filter(|_| page.has_more);
            Ok(Browsed::Directory {
                next: last.map(|last| last.name.clone()),
                entries: page.entries.iter().map(entry).collect(),
                children: page.children,
            })
        }
        ObjectEntry::Object(object) => {
            let media_type = object.headers.get("content-type").cloned();
            Ok(Browsed::Object {
                bytes: object.bytes,
                modified: time(object.mtime_us),
                media_type: media_type.unwrap_or_default(),
                preview: preview(api, &object).await?,
            })
        }
    }
}

fn entry(listed: &ListedEntry) -> BrowsedEntry {
    let entry = &listed.entry.entry;
    BrowsedEntry {
        name: listed.name.clone(),
        bytes: entry.as_object().map(|object| object.bytes),
        modified: time(entry.mtime_us()),
    }
}

async fn preview(api: &Api, object: &StoredObject) -> Result<Option<String>, ApiError> {
    let end = object.bytes.min(PREVIEW_BYTES);
    if end == 0 || object.headers.contains_key("content-encoding") {
        return Ok(None);
    }
    let bytes = api.parts.namespace.read(object, 0..end).await?;
    // The last character may have been cut.
    let whole = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return Ok(None),
    };
    let text = String::from_utf8_lossy(&bytes[..whole]);
    Ok((!text.contains('\0')).then(|| text.into_owned()))
}

/// Deletes an object or an empty directory.
pub(crate) async fn delete(api: &Api, who: (User, Scopes), path: &str) -> Result<(), ApiError> {
    let at = admit(who, path, Intent::Write)?;
    if at.path.is_root() {
        return Err(ApiError::invalid("every user has this directory"));
    }
    let namespace = &api.parts.namespace;
    let (change, conditions) = (RequestedChange::Delete, Conditions::default());
    namespace.change(at, change, conditions).await?;
    Ok(())
}
