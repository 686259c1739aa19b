//! An answer holds its place among the requests until its last byte is handed over: one that is sent slowly costs as much as
//! one that is made slowly.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use super::RequestPlace;

struct BodyWithSlot {
    body: Body,
    _place: RequestPlace,
}

/// The same body, which frees the place when it is dropped.
pub(super) fn hold(body: Body, place: RequestPlace) -> Body {
    Body::new(BodyWithSlot {
        body,
        _place: place,
    })
}

impl HttpBody for BodyWithSlot {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
