//! Bytes that pass between the aggregator and a node, counted at the connection: messages, their
//! heads, and encryption, but not the heads of packets.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;
use tonic::codegen::{Service, StdError};

/// Counters of bytes.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// Opens connections whose bytes are counted.
#[derive(Clone)]
pub(crate) struct CountingConnector {
    connector: HttpConnector,
    traffic: Arc<Traffic>,
}

impl CountingConnector {
    pub(crate) fn new(traffic: Arc<Traffic>, limit: Duration) -> Self {
        let mut connector = HttpConnector::new();
        // The scheme of an encrypted connection is accepted too.
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(limit));
        CountingConnector { connector, traffic }
    }
}

impl Service<Uri> for CountingConnector {
    type Response = TokioIo<CountedStream>;
    type Error = StdError;
    type Future = BoxFuture<'static, Result<Self::Response, StdError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, traffic) = (self.connector.call(uri), self.traffic.clone());
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            Ok(TokioIo::new(CountedStream { stream, traffic }))
        })
    }
}

/// A connection whose bytes are counted.
pub(crate) struct CountedStream {
    stream: TcpStream,
    traffic: Arc<Traffic>,
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let received = buffer.filled().len() - before;
        self.traffic.received.fetch_add(received as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl CountedStream {
    fn sent(&self, bytes: usize) -> Poll<io::Result<usize>> {
        self.traffic.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        Poll::Ready(Ok(bytes))
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.sent(sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, parts))?;
        self.sent(sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::serve::runtime;

    #[test]
    #[allow(clippy::unwrap_used)]
    fn every_byte_counts_once() {
        runtime().unwrap().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let uri: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
            let traffic = Arc::new(Traffic::default());
            let mut connector = CountingConnector::new(traffic.clone(), Duration::from_secs(60));
            let (near, far) = tokio::join!(connector.call(uri), listener.accept());
            let (mut near, mut far) = (near.unwrap().into_inner(), far.unwrap().0);
            near.write_all(&[1; 1000]).await.unwrap();
            let parts = [IoSlice::new(&[2; 10]), IoSlice::new(&[3; 20])];
            let vectored = near.write_vectored(&parts).await.unwrap();
            let mut bytes = vec![0; 1000 + vectored];
            far.read_exact(&mut bytes).await.unwrap();
            far.write_all(&[4; 77]).await.unwrap();
            near.read_exact(&mut bytes[..77]).await.unwrap();
            assert_eq!((traffic.sent(), traffic.received()), (1000 + vectored as u64, 77));
        });
    }
}
