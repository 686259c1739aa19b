//! `cannery stor rm`

use futures::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::Method;

use super::list::page;
use super::{Context, DIRECTORY_TYPE, said};
use crate::api_client::{ApiClient, RemotePath};
use crate::failure::{ExitCode, Failure};

/// Requests at once.
const AT_ONCE: usize = 16;

/// Deletes a path; with `recursive` all that is below it first.
pub(super) async fn remove(
    client: &ApiClient,
    path: &RemotePath,
    recursive: bool,
    context: &Context,
) -> Result<(), Failure> {
    match is_directory(client, path).await {
        Ok(true) if recursive => empty(client, path, context).await?,
        Ok(_) => {}
        // As `rm` of what is gone already in the lake.
        Err(failure) if failure.code == ExitCode::Absent => {
            let value = serde_json::json!({ "path": path.to_string() });
            let text = format!("{path} is not there");
            context.output.event("absent", text, &value);
            return Ok(());
        }
        Err(failure) => return Err(failure),
    }
    // The directory of an area is always there: asked for alone, the server says so.
    if recursive && path.path.is_root() {
        said("emptied", path, context);
        return Ok(());
    }
    delete_if_there(client, path).await?;
    said("deleted", path, context);
    Ok(())
}

async fn is_directory(client: &ApiClient, path: &RemotePath) -> Result<bool, Failure> {
    let response = client.send(client.request(Method::HEAD, path)).await?;
    let kind = response.headers().get("content-type");
    Ok(kind.is_some_and(|kind| kind.as_bytes() == DIRECTORY_TYPE.as_bytes()))
}

/// Deletes what is below a directory: always its first page, until there is none. The deepest directory is emptied first.
async fn empty(client: &ApiClient, top: &RemotePath, context: &Context) -> Result<(), Failure> {
    let bar = context.output.counter();
    let mut levels = vec![top.clone()];
    while let Some(directory) = levels.last() {
        let entries = match page(client, directory, None).await {
            Ok(page) => page.entries,
            // Somebody else deletes here, too.
            Err(failure) if failure.code == ExitCode::Absent => Vec::new(),
            Err(failure) => return Err(failure),
        };
        let deeper = entries.iter().find(|entry| entry.is_directory());
        let deeper = deeper
            .map(|entry| directory.child(&entry.name))
            .transpose()?;
        let objects = entries.iter().filter(|entry| !entry.is_directory());
        let objects = objects.map(|entry| directory.child(&entry.name));
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        let deleting = stream::iter(&objects).map(|path| delete_if_there(client, path));
        deleting
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        bar.inc(objects.len() as u64);
        bar.set_message(format!("deleted {} below {top}", bar.position()));
        match deeper {
            Some(deeper) => levels.push(deeper),
            None if !objects.is_empty() => {}
            None => {
                let done = levels.pop();
                if let Some(directory) = done.filter(|directory| directory != top) {
                    delete_if_there(client, &directory).await?;
                }
            }
        }
    }
    bar.finish_and_clear();
    Ok(())
}

async fn delete(client: &ApiClient, path: &RemotePath) -> Result<(), Failure> {
    let request = client.request(Method::DELETE, path);
    client.send(request).await.map(drop)
}

/// Somebody else may have deleted it.
async fn delete_if_there(client: &ApiClient, path: &RemotePath) -> Result<(), Failure> {
    match delete(client, path).await {
        Err(failure) if failure.code == ExitCode::Absent => Ok(()),
        outcome => outcome,
    }
}
