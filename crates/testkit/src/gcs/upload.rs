//! Multipart uploads.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};

use super::Store;
use super::object::{Request, etag};
use super::xml::{document, element, refusal, texts};

/// Of every part but the last.
const PART_BYTES_MIN: usize = 5 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Upload {
    bucket: String,
    key: String,
    headers: HeaderMap,
    parts: BTreeMap<u32, Bytes>,
}

pub(super) fn dispatch(store: &Store, method: &Method, request: &Request) -> Response {
    let Some(id) = request.query.get("uploadId") else {
        return match method.as_str() {
            "POST" => initiate(store, request),
            _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        };
    };
    let known = store
        .state()
        .uploads
        .get(id)
        .is_some_and(|upload| upload.is_of(request));
    match method.as_str() {
        _ if !known => refusal(StatusCode::NOT_FOUND, "NoSuchUpload"),
        "PUT" => put_part(store, id, request),
        "POST" => complete(store, id, request),
        _ => {
            store.state().uploads.remove(id);
            StatusCode::NO_CONTENT.into_response()
        }
    }
}

fn initiate(store: &Store, request: &Request) -> Response {
    let mut state = store.state();
    let id = format!("upload-{}", state.next_number());
    let upload = Upload {
        bucket: request.bucket.clone(),
        key: request.key.clone(),
        headers: request.headers.clone(),
        parts: BTreeMap::new(),
    };
    state.uploads.insert(id.clone(), upload);
    document("InitiateMultipartUploadResult", &element("UploadId", &id))
}

fn put_part(store: &Store, id: &str, request: &Request) -> Response {
    let number = request
        .query
        .get("partNumber")
        .and_then(|number| number.parse().ok());
    let Some(number) = number.filter(|number| (1..=10_000).contains(number)) else {
        return refusal(StatusCode::BAD_REQUEST, "InvalidArgument");
    };
    if let Some(upload) = store.state().uploads.get_mut(id) {
        upload.parts.insert(number, request.body.clone());
    }
    [(header::ETAG, etag(&request.body))].into_response()
}

fn complete(store: &Store, id: &str, request: &Request) -> Response {
    let modified = store.clock.now();
    let mut state = store.state();
    let Some(upload) = state.uploads.get(id) else {
        return refusal(StatusCode::NOT_FOUND, "NoSuchUpload");
    };
    let content = match upload.assemble(&String::from_utf8_lossy(&request.body)) {
        Ok(content) => content,
        Err(code) => return refusal(StatusCode::BAD_REQUEST, code),
    };
    let headers = upload.headers.clone();
    state.uploads.remove(id);
    let object = state.put(&request.bucket, &request.key, content, &headers, modified);
    let tag = element("ETag", &object.etag());
    let mut response = document("CompleteMultipartUploadResult", &tag);
    let generation = HeaderValue::from(object.generation);
    response
        .headers_mut()
        .insert("x-goog-generation", generation);
    response
}

impl Upload {
    fn is_of(&self, request: &Request) -> bool {
        (&self.bucket, &self.key) == (&request.bucket, &request.key)
    }

    /// The parts that the list names, in its order; or GCS's code for what is wrong with the list.
    fn assemble(&self, list: &str) -> Result<Bytes, &'static str> {
        let (numbers, tags) = (texts(list, "PartNumber"), texts(list, "ETag"));
        if numbers.is_empty() || numbers.len() != tags.len() {
            return Err("MalformedXML");
        }
        let (mut content, mut last) = (BytesMut::new(), 0);
        for (index, (number, tag)) in numbers.iter().zip(&tags).enumerate() {
            let number: u32 = number.parse().map_err(|_| "MalformedXML")?;
            if number <= last {
                return Err("InvalidPartOrder");
            }
            last = number;
            let part = self.parts.get(&number).filter(|part| etag(part) == *tag);
            let part = part.ok_or("InvalidPart")?;
            if part.len() < PART_BYTES_MIN && index + 1 < numbers.len() {
                return Err("EntityTooSmall");
            }
            content.extend_from_slice(part);
        }
        Ok(content.freeze())
    }
}
