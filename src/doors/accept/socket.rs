//! The socket under hyper: notes the head's bytes, drops a peer that reads nothing, closes gently.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use super::head::Head;

/// Bytes read and thrown away after the last answer.
const LINGER_BYTES: usize = 1024 * 1024;

pub(super) struct Socket {
    inner: TcpStream,
    head: Arc<Head>,
    write_limit: Duration,
    /// Runs while bytes wait that the peer does not take.
    stalled: Option<Pin<Box<Sleep>>>,
    linger: Linger,
}

/// A socket closed with unread bytes in it is reset, and the reset can overtake the last answer (a 413 to a
/// long body). So the sending half is closed first, and for a moment what still comes is thrown away.
struct Linger {
    limit: Duration,
    until: Option<Pin<Box<Sleep>>>,
    left: usize,
}

impl Socket {
    pub(super) fn new(inner: TcpStream, head: Arc<Head>, write_limit: Duration, linger: Duration) -> Self {
        let linger = Linger { limit: linger, until: None, left: LINGER_BYTES };
        Self { inner, head, write_limit, stalled: None, linger }
    }

    fn progress(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.head.stalls(wrote.is_pending());
        if wrote.is_ready() {
            self.stalled = None;
            return wrote;
        }
        let limit = self.write_limit;
        ready!(self.stalled.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        self.head.arrived(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.progress(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.progress(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { inner, linger, .. } = &mut *self;
        if linger.until.is_none() {
            ready!(Pin::new(&mut *inner).poll_shutdown(cx))?;
        }
        let limit = linger.limit;
        let until = linger.until.get_or_insert_with(|| Box::pin(sleep(limit)));
        while until.as_mut().poll(cx).is_pending() {
            let mut thrown = [0_u8; 4096];
            let mut buf = ReadBuf::new(&mut thrown);
            let read = ready!(Pin::new(&mut *inner).poll_read(cx, &mut buf));
            let count = buf.filled().len();
            if read.is_err() || count == 0 || count > linger.left {
                break;
            }
            linger.left -= count;
        }
        Poll::Ready(Ok(()))
    }
}
