//! `cannery user`: who can have objects and jobs, and by which keys they are known.

use std::io::Read as _;
use std::path::Path;

use cannery_formats::object_path::Area;
use cannery_formats::{ObjectPath, UserName};
use cannery_objects::record_users;
use cannery_runtime::RealDisk;
use cannery_runtime::disk::read;
use cannery_state::State;
use cannery_state::identity::{LOCAL_USER, User, UserKey};
use cannery_state::objects::{EntryKey, PageStart, SortKey, SortOrder};
use indicatif::HumanBytes;
use serde_json::json;

use super::{Context, Patience};
use crate::cli::user::{UserCommand, UserKeyCommand};
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::{lakes, plant};

/// A public key is a line.
const KEY_BYTES_MAX: u64 = 64 * 1024;

pub(crate) async fn run(command: &UserCommand, context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    let state = plant::state(&config, context).await?;
    let mut done = manage(command, &state, context).await;
    if done.is_ok() && matches!(command, UserCommand::Add { .. } | UserCommand::Rm { .. }) {
        done = record(&state, &config, context).await;
    }
    state.close().await;
    done.map(|()| ExitCode::Ok)
}

/// Writes down in the lake who the users are, for the day when the database is lost. Where there is no lake yet, and while it does
/// not answer, the server does it later.
async fn record(state: &State, config: &Config, context: &Context) -> Result<(), Failure> {
    let mirrors = lakes::open(config, &context.tools(Patience::Person))?;
    let mirrors = lakes::collecting(config, &mirrors);
    let recorded = async {
        lakes::verify(&mirrors, &config.workspace).await?;
        Ok::<_, Failure>(record_users(state, &mirrors).await?)
    };
    if let Err(failure) = recorded.await {
        let text = format!(
            "note: the lake does not know of it yet ({}); `cannery up` tells it",
            failure.message
        );
        let value = json!({ "event": "unrecorded", "reason": failure.message });
        context.output.aside(text, &value);
    }
    Ok(())
}

async fn manage(command: &UserCommand, state: &State, context: &Context) -> Result<(), Failure> {
    match command {
        UserCommand::Add {
            name,
            keys,
            bytes_max,
        } => {
            // What cannot be read is found out before anything is changed.
            let keys = keys.iter().map(|file| key_text(file));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            for key in &keys {
                UserKey::parse(key, context.clock.now())?;
            }
            let mut user = state.add_user(name, &context.rng).await?;
            if let Some(bytes_max) = bytes_max {
                state.limit_user(name.as_str(), Some(bytes_max.0)).await?;
                user.bytes_max = Some(bytes_max.0);
            }
            for key in &keys {
                state.add_key(name, key).await?;
            }
            let text = format!("added user {}", line(&user));
            context.output.event("added", text, &user);
        }
        UserCommand::Ls => {
            for user in state.users().await? {
                context.output.event("user", line(&user), &user);
            }
        }
        UserCommand::Set { name, bytes_max } => {
            state.limit_user(name.as_str(), bytes_max.0).await?;
            let value = json!({ "name": name, "bytes_max": bytes_max.0 });
            let text = format!("user {name} may have {}", limit(bytes_max.0));
            context.output.event("changed", text, &value);
        }
        UserCommand::Rm { name, with_objects } => {
            remove(name, *with_objects, state, context).await?;
        }
        UserCommand::Key(command) => manage_keys(command, state, context).await?,
    }
    Ok(())
}

async fn remove(
    name: &UserName,
    with_objects: bool,
    state: &State,
    context: &Context,
) -> Result<(), Failure> {
    if !with_objects && has_objects(name, state).await? {
        let message = format!("user `{name}` has objects");
        let next = "delete them first, or say `--with-objects`: they are then deleted for good";
        return Err(Failure::new(ExitCode::Error, "not_empty", message, next));
    }
    if name.as_str() == LOCAL_USER {
        let message = format!("user `{LOCAL_USER}` is the one of this machine");
        let next = "revoke its tokens with `cannery token revoke`, or delete its objects";
        return Err(Failure::new(ExitCode::Usage, "invalid", message, next));
    }
    state.remove_user(name.as_str()).await?;
    let text = format!("removed user {name}: its keys and tokens are worth nothing from now on");
    context
        .output
        .event("removed", text, &json!({ "name": name }));
    Ok(())
}

async fn has_objects(name: &UserName, state: &State) -> Result<bool, Failure> {
    let Some(user) = state.user(name.as_str()).await? else {
        return Ok(false);
    };
    for area in Area::ALL {
        let directory = EntryKey {
            account: user.id.clone(),
            path: ObjectPath::root(area),
        };
        let order = (SortKey::Name, SortOrder::Forward);
        let page = state.list_directory(&directory, order, &PageStart::First, None, 1);
        if !page.await?.entries.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn manage_keys(
    command: &UserKeyCommand,
    state: &State,
    context: &Context,
) -> Result<(), Failure> {
    match command {
        UserKeyCommand::Add { name, file } => {
            let key = state.add_key(name, &key_text(file)?).await?;
            let text = format!("added key {} to user {name}", key.fingerprint);
            context.output.event("added", text, &key);
        }
        UserKeyCommand::Ls { name } => {
            for key in state.keys(name).await? {
                let text = format!("{}  {:.0}  {}", key.fingerprint, key.added, described(&key));
                context.output.event("key", text, &key);
            }
        }
        UserKeyCommand::Rm { name, fingerprint } => {
            state.remove_key(name, fingerprint).await?;
            let value = json!({ "name": name, "fingerprint": fingerprint });
            let text = format!("removed key {fingerprint} of user {name}");
            context.output.event("removed", text, &value);
        }
    }
    Ok(())
}

/// `ssh-ed25519 ann@laptop`.
fn described(key: &UserKey) -> String {
    let kind = key.public_key.split(' ').next().unwrap_or_default();
    format!("{kind} {}", key.comment).trim_end().to_owned()
}

fn line(user: &User) -> String {
    format!(
        "{}  {:.0}  {}",
        user.name,
        user.created,
        limit(user.bytes_max)
    )
}

fn limit(bytes_max: Option<u64>) -> String {
    bytes_max.map_or_else(
        || "any number of bytes".to_owned(),
        |bytes| format!("up to {}", HumanBytes(bytes)),
    )
}

fn key_text(file: &Path) -> Result<String, Failure> {
    let text = match file == Path::new("-") {
        true => {
            let mut text = Vec::new();
            let mut input = std::io::stdin().lock().take(KEY_BYTES_MAX);
            input.read_to_end(&mut text).map(|_| text)
        }
        false => read(&RealDisk, file, KEY_BYTES_MAX),
    };
    let unreadable = |why: String| {
        let message = format!("cannot read the public key `{}`: {why}", file.display());
        let next =
            "name the file that ends in `.pub`; `ssh-keygen -t ed25519` makes a pair of keys";
        Failure::new(ExitCode::Usage, "key_unreadable", message, next)
    };
    let text = text.map_err(|error| unreadable(error.to_string()))?;
    String::from_utf8(text).map_err(|_| unreadable("it is not a text".to_owned()))
}
