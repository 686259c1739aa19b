//! `cannery stor get`

use data_encoding::BASE64;
use md5::{Digest as _, Md5};
use reqwest::header::{ETAG, IF_MATCH, RANGE};
use reqwest::{Method, Response, StatusCode};

use super::{Context, DIRECTORY_TYPE};
use crate::api_client::{ApiClient, RemotePath, unreachable};
use crate::failure::{ExitCode, Failure};

/// Prints an object. One whose download breaks off is asked for again from there on, as long as each request brings something.
pub(super) async fn get(
    client: &ApiClient,
    path: &RemotePath,
    context: &Context,
) -> Result<(), Failure> {
    let mut response = client.send(client.request(Method::GET, path)).await?;
    if is_directory(&response) {
        let message = format!("`{path}` is a directory");
        let next = "list it with `cannery stor ls`";
        return Err(Failure::new(ExitCode::Usage, "directory", message, next));
    }
    let (etag, promised) = (
        header(&response, ETAG.as_str()),
        header(&response, "content-md5"),
    );
    let bytes = response.content_length().unwrap_or(0);
    let bar = context.output.progress(bytes, path.path.name());
    let mut sum = Md5::new();
    let mut given = 0;
    loop {
        let before = given;
        let broken = loop {
            match response.chunk().await {
                Ok(Some(piece)) => {
                    sum.update(&piece);
                    given += piece.len() as u64;
                    context.output.raw(&piece);
                    bar.set_position(given);
                }
                Ok(None) => break None,
                Err(error) => break Some(unreachable(&client.address(path), &error)),
            }
        };
        let Some(broken) = broken else { break };
        let Some(etag) = etag.as_deref().filter(|_| given > before) else {
            return Err(incomplete(broken, given));
        };
        let again = client
            .request(Method::GET, path)
            .header(RANGE, format!("bytes={given}-"))
            .header(IF_MATCH, etag);
        response = client
            .send(again)
            .await
            .map_err(|failure| incomplete(failure, given))?;
        if response.status() != StatusCode::PARTIAL_CONTENT {
            return Err(incomplete(broken, given));
        }
    }
    bar.finish_and_clear();
    let came = BASE64.encode(&sum.finalize());
    if promised.is_some_and(|promised| promised != came) {
        let message = format!("what came of `{path}` is not what was stored");
        let next = "get it again; if that does not help, the log of the server says more";
        return Err(Failure::new(ExitCode::Partial, "corrupt", message, next));
    }
    Ok(())
}

fn header(response: &Response, name: &str) -> Option<String> {
    Some(response.headers().get(name)?.to_str().ok()?.to_owned())
}

fn is_directory(response: &Response) -> bool {
    header(response, "content-type").is_some_and(|kind| kind == DIRECTORY_TYPE)
}

fn incomplete(failure: Failure, given: u64) -> Failure {
    if given == 0 {
        return failure;
    }
    let message = format!(
        "{} (after {given} bytes: what was printed is not complete)",
        failure.message
    );
    Failure {
        code: ExitCode::Partial,
        message,
        ..failure
    }
}
