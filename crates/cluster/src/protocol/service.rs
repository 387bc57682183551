//! The service `Shards` of the contract, which has three calls with one request and one response
//! each: its client and its server.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use prost::Message;
use tonic::client;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::codegen::{Body, BoxFuture, Service, StdError};
use tonic::server::{self, NamedService, UnaryService};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::{
    DescribeRequest, DescribeResponse, FrequenciesRequest, FrequenciesResponse, SearchRequest,
    SearchResponse,
};
use crate::security::TokenSender;

/// Maximum size of a message in bytes, for the hits or the terms of a cohort.
const MAX_MESSAGE: usize = 256 << 20;

/// Name of the service, and paths of its calls.
pub(super) const SERVICE: &str = "warpseek.cluster.v1.Shards";
pub(super) const DESCRIBE: &str = "/warpseek.cluster.v1.Shards/Describe";
pub(super) const FREQUENCIES: &str = "/warpseek.cluster.v1.Shards/Frequencies";
pub(super) const SEARCH: &str = "/warpseek.cluster.v1.Shards/Search";

/// The calls that a node answers.
pub(crate) trait Shards: Send + Sync + 'static {
    fn describe(
        &self,
        request: DescribeRequest,
    ) -> impl Future<Output = Result<DescribeResponse, Status>> + Send;

    fn frequencies(
        &self,
        request: FrequenciesRequest,
    ) -> impl Future<Output = Result<FrequenciesResponse, Status>> + Send;

    fn search(
        &self,
        request: SearchRequest,
    ) -> impl Future<Output = Result<SearchResponse, Status>> + Send;
}

/// The client of a node. Clones share the connection.
#[derive(Clone)]
pub(crate) struct ShardsClient(client::Grpc<InterceptedService<Channel, TokenSender>>);

impl ShardsClient {
    pub(crate) fn new(channel: Channel, token: TokenSender) -> Self {
        let grpc = client::Grpc::new(InterceptedService::new(channel, token));
        ShardsClient(
            grpc.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE),
        )
    }

    pub(crate) async fn describe(
        &mut self,
        request: DescribeRequest,
    ) -> Result<DescribeResponse, Status> {
        self.call(DESCRIBE, request).await
    }

    pub(crate) async fn frequencies(
        &mut self,
        request: FrequenciesRequest,
    ) -> Result<FrequenciesResponse, Status> {
        self.call(FREQUENCIES, request).await
    }

    pub(crate) async fn search(
        &mut self,
        request: SearchRequest,
    ) -> Result<SearchResponse, Status> {
        self.call(SEARCH, request).await
    }

    async fn call<Q, A>(&mut self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let ready = self.0.ready().await;
        ready.map_err(|error| Status::unknown(format!("the connection is not ready: {error}")))?;
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        Ok(self.0.unary(Request::new(request), path, codec).await?.into_inner())
    }
}

/// The server of a node. Clones share the node.
pub(crate) struct ShardsServer<T>(Arc<T>);

impl<T: Shards> ShardsServer<T> {
    pub(crate) fn new(node: T) -> Self {
        ShardsServer(Arc::new(node))
    }
}

impl<T> Clone for ShardsServer<T> {
    fn clone(&self) -> Self {
        ShardsServer(self.0.clone())
    }
}

impl<T> NamedService for ShardsServer<T> {
    const NAME: &'static str = SERVICE;
}

impl<T, B> Service<HttpRequest<B>> for ShardsServer<T>
where
    T: Shards,
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = HttpResponse<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let node = self.0.clone();
        match request.uri().path() {
            DESCRIBE => answer(request, move |message| {
                let node = node.clone();
                async move { node.describe(message).await }
            }),
            FREQUENCIES => answer(request, move |message| {
                let node = node.clone();
                async move { node.frequencies(message).await }
            }),
            SEARCH => answer(request, move |message| {
                let node = node.clone();
                async move { node.search(message).await }
            }),
            _ => Box::pin(async { Ok(Status::unimplemented("").into_http()) }),
        }
    }
}

/// Decodes a request, calls a function with its message, and encodes the response.
fn answer<B, Q, A, F, R>(
    request: HttpRequest<B>,
    call: F,
) -> BoxFuture<HttpResponse<tonic::body::Body>, Infallible>
where
    B: Body + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
    Q: Message + Default + 'static,
    A: Message + 'static,
    F: FnMut(Q) -> R + Send + 'static,
    R: Future<Output = Result<A, Status>> + Send + 'static,
{
    let grpc = server::Grpc::new(ProstCodec::<A, Q>::default());
    let mut grpc = grpc.apply_max_message_size_config(Some(MAX_MESSAGE), Some(MAX_MESSAGE));
    Box::pin(async move { Ok(grpc.unary(Call(call), request).await) })
}

/// A call of the service, in the form that the transport library expects.
struct Call<F>(F);

impl<Q, A, F, R> UnaryService<Q> for Call<F>
where
    Q: Send + 'static,
    F: FnMut(Q) -> R,
    R: Future<Output = Result<A, Status>> + Send + 'static,
{
    type Response = A;
    type Future = BoxFuture<Response<A>, Status>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answer = (self.0)(request.into_inner());
        Box::pin(async move { answer.await.map(Response::new) })
    }
}
