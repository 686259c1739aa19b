//! `cannery stor`: the objects of users, through a running server.

mod get;
mod list;
mod put;
mod remove;
mod sign;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use serde_json::json;

use super::Context;
use crate::api_client::{ApiClient, RemotePath};
use crate::cli::stor::{StorArgs, StorCommand};
use crate::failure::{ExitCode, Failure};

/// What the server calls a directory.
const DIRECTORY_TYPE: &str = "application/x-json-stream; type=directory";

pub(crate) async fn run(args: &StorArgs, context: &Context) -> Result<ExitCode, Failure> {
    let client = ApiClient::find(&args.server, context).await?;
    match &args.command {
        StorCommand::Put {
            path,
            file,
            parents,
            headers,
            if_absent,
        } => {
            let path = client.path(path)?;
            let options = put::PutOptions {
                parents: *parents,
                headers,
                if_absent: *if_absent,
            };
            put::put(&client, &path, file, &options, context).await?;
        }
        StorCommand::Get { path } => get::get(&client, &client.path(path)?, context).await?,
        StorCommand::Ls { path, long } => {
            list::list(&client, &client.path(path)?, *long, context).await?;
        }
        StorCommand::Find { path, name, kind } => {
            let wanted = list::EntryFilter {
                name: name.as_deref(),
                kind: *kind,
            };
            list::find(&client, &client.path(path)?, &wanted, context).await?;
        }
        StorCommand::Rm { paths, recursive } => {
            let paths = paths.iter().map(|path| client.path(path));
            for path in paths.collect::<Result<Vec<_>, _>>()? {
                remove::remove(&client, &path, *recursive, context).await?;
            }
        }
        StorCommand::Mkdir { path, parents } => {
            let path = client.path(path)?;
            if *parents {
                make_parents(&client, &path).await?;
            }
            make_directory(&client, &path).await?;
            said("made", &path, context);
        }
        StorCommand::Ln { source, target } => {
            let (source, target) = (client.path(source)?, client.path(target)?);
            let request = client
                .request(Method::PUT, &target)
                .header(CONTENT_TYPE, "application/json; type=link")
                .header(LOCATION, source.encoded());
            client.send(request).await?;
            let value = json!({ "source": source.to_string(), "path": target.to_string() });
            let text = format!("{target} is what {source} is now");
            context.output.event("linked", text, &value);
        }
        StorCommand::Sign {
            path,
            key,
            expires,
            method,
        } => {
            let path = client.path(path)?;
            let address = sign::signed_address(&client, &path, key, expires.0, *method, context)?;
            // The signature in it is what was asked for.
            let text = match context.output.json {
                true => json!({ "event": "signed", "url": address }).to_string(),
                false => address,
            };
            context.output.raw(format!("{text}\n").as_bytes());
        }
    }
    Ok(ExitCode::Ok)
}

fn said(event: &str, path: &RemotePath, context: &Context) {
    let value = json!({ "path": path.to_string() });
    context
        .output
        .event(event, format!("{event} {path}"), &value);
}

/// One that is there stays as it is.
async fn make_directory(client: &ApiClient, path: &RemotePath) -> Result<(), Failure> {
    if path.path.is_root() {
        return Ok(());
    }
    let request = client
        .request(Method::PUT, path)
        .header(CONTENT_TYPE, "application/json; type=directory");
    client.send(request).await.map(drop)
}

/// Every directory above the path.
async fn make_parents(client: &ApiClient, path: &RemotePath) -> Result<(), Failure> {
    let above: Vec<RemotePath> = std::iter::successors(path.parent(), RemotePath::parent).collect();
    for directory in above.iter().rev() {
        make_directory(client, directory).await?;
    }
    Ok(())
}
