//! Response-head cache, connection side: a GET whose raw head matches an earlier one is answered
//! without building a `Request`, a future or a plan. A service that returns `None` here receives
//! the request in the normal way.
//!
//! Invariant: both ways give the same reply.

use std::fmt;
use std::sync::Arc;

use http::{Request, Response};
use hyper::service::Service;

use super::NoBody;
use super::info::{ActiveRequest, ConnectionInfo};

/// A GET over HTTP/1.1 as received: split into target and fields, not validated further.
#[derive(Debug, Clone, Copy)]
pub struct RawHead<'a> {
    /// Target of the request line.
    pub target: &'a str,
    /// Header fields, in order.
    pub fields: &'a [httparse::Header<'a>],
}

impl<'a> RawHead<'a> {
    /// Header fields as pairs of name and value.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + Clone {
        self.fields.iter().map(|field| (field.name, field.value))
    }
}

/// A reply from the response-head cache.
pub struct CachedReply<B> {
    /// The head from the status line on, without `date`, `connection` and the final empty line.
    pub head: Vec<u8>,
    /// The body; its length is in the head.
    pub body: B,
    /// Counts the request as in progress.
    pub active: ActiveRequest,
}

impl<B> fmt::Debug for CachedReply<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = self.head.len();
        f.debug_struct("AtHand")
            .field("head", &head)
            .finish_non_exhaustive()
    }
}

/// A service that can answer from a response-head cache.
pub trait HeadCacheService<B>: Service<Request<NoBody>, Response = Response<B>> {
    /// The cached reply to this request, if there is one.
    fn at_hand(&self, head: &RawHead<'_>, info: &Arc<ConnectionInfo>) -> Option<CachedReply<B>>;
}

/// A service without a response-head cache.
#[derive(Debug, Clone)]
pub struct WithoutHeadCache<S>(pub S);

impl<S: Service<Request<NoBody>>> Service<Request<NoBody>> for WithoutHeadCache<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, request: Request<NoBody>) -> S::Future {
        self.0.call(request)
    }
}

impl<S, B> HeadCacheService<B> for WithoutHeadCache<S>
where
    S: Service<Request<NoBody>, Response = Response<B>>,
{
    fn at_hand(&self, _: &RawHead<'_>, _: &Arc<ConnectionInfo>) -> Option<CachedReply<B>> {
        None
    }
}
