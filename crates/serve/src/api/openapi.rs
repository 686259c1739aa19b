//! The API as an OpenAPI document, made from the table of `contract.rs`.

use http::Method;
use serde_json::{Map, Value, json};

use super::contract::{Access, EVERYWHERE, Operation, operations};
use super::error::ErrorCode;

/// The document. The same for every server: it names no host.
pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for operation in operations() {
        let path = paths
            .entry(operation.path)
            .or_insert_with(|| json!({ "parameters": path_parameters(operation.path) }));
        path[operation.method.as_str().to_ascii_lowercase()] = described(&operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Cannery",
            "version": "1",
            "description": "Objects of users, and objects of the lake. Every answer has an `x-request-id`. Credentials are accepted on the machine itself and over TLS.",
            "license": { "name": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "`cannery token create`",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "cannery_session",
                    "description": "The cookie of a browser that has logged in. It writes only for pages of the server itself.",
                },
            },
            "parameters": shared_parameters(),
            "responses": shared_responses(),
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["code", "message"],
                    "properties": {
                        "code": { "type": "string", "enum": ErrorCode::ALL },
                        "message": { "type": "string" },
                    },
                },
            },
        },
    })
}

fn path_parameters(path: &str) -> Value {
    let parameter = |name: &str, schema: Value, description: &str| json!({ "name": name, "in": "path", "required": true, "schema": schema, "description": description });
    let mut parameters = Vec::new();
    if path.contains("{user}") {
        let schema = json!({ "type": "string", "pattern": "^[a-z][a-z0-9_.-]{0,62}$" });
        parameters.push(parameter("user", schema, "The name of a user."));
    }
    if path.contains("{path}") {
        let text = "A name; further ones follow after a `/`, each encoded by itself. A name has at most 255 bytes, all of them 1024; `.`, `..` and control characters are refused.";
        let schema = json!({ "type": "string", "pattern": "^[^/\\u0000-\\u001f\\u007f-\\u009f]+$", "not": { "enum": [".", ".."] } });
        parameters.push(parameter("path", schema, text));
    }
    if path.contains("{key}") {
        let text = "The key of an object. What needs no more than the scope `read`, and with the scope `raw` also what is not sanitised; what the lake keeps for itself is not there.";
        parameters.push(parameter("key", json!({ "type": "string" }), text));
    }
    Value::Array(parameters)
}

fn described(operation: &Operation) -> Value {
    let statuses = operation.statuses.iter().chain(&EVERYWHERE);
    let mut codes: Vec<u16> = statuses.copied().collect();
    codes.sort_unstable();
    let responses: Map<String, Value> = codes
        .into_iter()
        .map(|status| (status.to_string(), response(operation, status)))
        .collect();
    let credentials = json!([{ "token": [] }, { "session": [] }]);
    let mut described = json!({
        "summary": operation.summary,
        "operationId": operation_id(operation),
        "parameters": parameters(operation),
        "responses": responses,
        "security": match operation.access {
            Access::User => credentials,
            Access::Anybody => json!([{}, { "token": [] }, { "session": [] }]),
        },
    });
    if operation.method == Method::PUT {
        described["requestBody"] = json!({
            "description": "The content of an object. With the content type `application/json; type=directory` there is none, and a directory is made; with `application/json; type=link` none either, and `Location` names the object to link.",
            "content": { "application/octet-stream": { "schema": {} } },
        });
    }
    described
}

fn operation_id(operation: &Operation) -> String {
    let words: Vec<String> = operation
        .path
        .split(['/', '{', '}'])
        .filter(|word| !word.is_empty())
        .map(ToOwned::to_owned)
        .collect();
    format!(
        "{}_{}",
        operation.method.as_str().to_ascii_lowercase(),
        words.join("_")
    )
}

/// What requests may carry, by the names under which operations refer to it.
fn shared_parameters() -> Value {
    let flag = || json!({ "type": "string", "enum": ["true", "false", ""] });
    let text = || json!({ "type": "string" });
    let words = |words: &[&str]| json!({ "type": "string", "enum": words });
    let limit = json!({ "type": "integer", "minimum": 1, "maximum": 1024, "default": 256 });
    let mut shared = Map::new();
    for (place, name, schema, description) in [
        ("query", "limit", limit, "How many entries of a directory."),
        (
            "query",
            "marker",
            text(),
            "Where the page begins: the `page-token` of the page before, or a name; with `sort=mtime` a time.",
        ),
        (
            "query",
            "sort",
            words(&["name", "mtime"]),
            "The order of entries.",
        ),
        (
            "query",
            "sort_order",
            words(&["forward", "reverse"]),
            "The direction of that order.",
        ),
        ("query", "dir", flag(), "Directories only."),
        ("query", "obj", flag(), "Objects only."),
        (
            "query",
            "metadata",
            flag(),
            "Change the stored headers alone; the tag, the date and the content stay.",
        ),
        (
            "header",
            "range",
            text(),
            "One range of bytes of an object.",
        ),
        (
            "header",
            "if-range",
            text(),
            "The range counts only if this is the tag or the date of the object.",
        ),
        (
            "header",
            "if-modified-since",
            text(),
            "304 unless it was changed since.",
        ),
        (
            "header",
            "if-match",
            text(),
            "412 unless this is the tag of the object.",
        ),
        (
            "header",
            "if-none-match",
            text(),
            "304 when reading, or 412, if this is the tag of the object.",
        ),
        (
            "header",
            "content-md5",
            text(),
            "Nothing is stored unless the content has this sum, in base64.",
        ),
    ] {
        let parameter =
            json!({ "name": name, "in": place, "schema": schema, "description": description });
        shared.insert(name.to_owned(), parameter);
    }
    Value::Object(shared)
}

fn parameters(operation: &Operation) -> Vec<Value> {
    let mut names: Vec<&str> = Vec::new();
    let is_reading = matches!(operation.method, Method::GET | Method::HEAD);
    if is_reading && operation.path.contains("/{user}/") {
        names.extend(["limit", "marker", "sort", "sort_order", "dir", "obj"]);
    }
    if operation.statuses.contains(&206) {
        names.extend(["range", "if-range", "if-modified-since"]);
    }
    if operation.statuses.contains(&412) {
        names.extend(["if-match", "if-none-match"]);
    }
    if operation.method == Method::PUT {
        names.extend(["metadata", "content-md5"]);
    }
    names
        .into_iter()
        .map(|name| json!({ "$ref": format!("#/components/parameters/{name}") }))
        .collect()
}

fn response(operation: &Operation, status: u16) -> Value {
    if status >= 400 && !(status == 404 && operation.path == "/{user}") {
        return json!({ "$ref": format!("#/components/responses/{status}") });
    }
    let content = match operation.method {
        Method::HEAD => None,
        _ => content(operation, status),
    };
    answered(status, content)
}

/// The answers that say no, by their status.
fn shared_responses() -> Value {
    let operations = operations();
    let statuses = operations.iter().flat_map(|operation| operation.statuses);
    let mut statuses: Vec<u16> = statuses.chain(&EVERYWHERE).copied().collect();
    statuses.sort_unstable();
    let shared = statuses
        .into_iter()
        .filter(|status| *status >= 400)
        .map(|status| {
            let content = (status != 431).then(|| json!({ "application/json": error() }));
            (status.to_string(), answered(status, content))
        });
    Value::Object(shared.collect())
}

fn answered(status: u16, content: Option<Value>) -> Value {
    let mut response = json!({ "description": words(status) });
    // That one is answered before a request has a name.
    if status != 431 {
        let schema = json!({ "type": "string" });
        let header = json!({ "description": "What the log calls the request.", "schema": schema });
        response["headers"] = json!({ "x-request-id": header });
    }
    if let Some(content) = content {
        response["content"] = content;
    }
    response
}

fn words(status: u16) -> &'static str {
    match status {
        200 => "Here it is.",
        204 => "It is done.",
        206 => "A part of the object.",
        304 => "It is what the client has.",
        400 => "The request cannot be understood, or not be done as it is.",
        401 => "It needs a credential.",
        403 => "The credential does not do for this, or the user may have no more bytes.",
        404 => "It is not there.",
        408 => "The content stopped coming.",
        412 => "A condition does not hold.",
        413 => "It has a body that nobody reads.",
        416 => "The object has no such bytes.",
        421 => "The server is known by another name.",
        431 => "The headers are too large.",
        503 => "The server has too much to do, or cannot reach its storage; ask again.",
        507 => "The server has no room.",
        _ => "A mistake in the program; its log says more.",
    }
}

/// What the body of an answer is.
fn content(operation: &Operation, status: u16) -> Option<Value> {
    let lines = "application/x-json-stream; type=directory";
    match status {
        204 | 304 | 431 => None,
        200 if operation.statuses.contains(&206) => Some(json!({ lines: {}, "*/*": {} })),
        200 => Some(json!({ lines: {} })),
        206 => Some(json!({ "*/*": {} })),
        // A path that does not begin with a valid user name belongs to the dashboard.
        404 if operation.path == "/{user}" => {
            Some(json!({ "application/json": error(), "text/html": {} }))
        }
        _ => Some(json!({ "application/json": error() })),
    }
}

fn error() -> Value {
    json!({ "schema": { "$ref": "#/components/schemas/Error" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document of this repository is the one that a server answers with.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "nothing of a test is durable")]
    fn the_document_in_docs_is_this_one() {
        let made = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        let kept = include_str!("../../../../docs/openapi.json");
        if made != kept {
            let file = std::env::temp_dir().join("cannery-openapi.json");
            std::fs::write(&file, &made).unwrap();
            panic!(
                "docs/openapi.json is out of date; replace it by {}",
                file.display()
            );
        }
    }
}
