//! When a request's head has begun, how long it may take, and what it looked like.
//!
//! hyper's header timer starts when a connection goes idle, so one length cannot serve both waits. It asks
//! for its timer exactly when it begins to look for a head, so the timer given to it here knows two
//! deadlines: a long one until the first byte, a short one from there.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// Bytes of one head that are kept; hyper refuses longer heads.
pub(super) const HEAD_LIMIT: usize = 32 * 1024;

/// The head being read on one connection, shared by its socket, its timer and its service.
#[derive(Default)]
pub(super) struct Head {
    reading: Mutex<Reading>,
    /// Whether bytes wait to be written that the peer does not take.
    stalled: AtomicBool,
}

#[derive(Default)]
struct Reading {
    awaited: bool,
    bytes: Vec<u8>,
}

impl Head {
    /// hyper looks for a head from now on.
    fn awaited(&self) {
        let mut reading = self.lock();
        reading.awaited = true;
        reading.bytes.clear();
    }

    fn begun(&self) -> bool {
        !self.lock().bytes.is_empty()
    }

    /// The socket gave `bytes`; they are kept while a head is awaited.
    pub(super) fn arrived(&self, bytes: &[u8]) {
        let mut reading = self.lock();
        if reading.awaited {
            let room = HEAD_LIMIT.saturating_sub(reading.bytes.len()).min(bytes.len());
            reading.bytes.extend_from_slice(&bytes[..room]);
        }
    }

    /// The head is whole: gives what arrived since it was awaited, the head first.
    ///
    /// A head that a client sent before the last answer was out is missing or cut at its front.
    pub(super) fn complete(&self) -> Vec<u8> {
        let mut reading = self.lock();
        reading.awaited = false;
        std::mem::take(&mut reading.bytes)
    }

    /// The socket could write, or could not.
    pub(super) fn stalls(&self, is_so: bool) {
        self.stalled.store(is_so, Ordering::Relaxed);
    }

    /// Whether bytes of an earlier answer wait to be written.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many fields the head at the front of `bytes` has; `None` unless it begins with a request line.
///
/// A head of which hyper knows as many fields was seen whole, and hyper dropped none of them: a piece cut from
/// another head at a field's value, to look like the beginning of one, lacks that field.
pub(super) fn count_fields(bytes: &[u8]) -> Option<usize> {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let first = lines.by_ref().find(|line| !line.is_empty())?;
    let is_request = first.ends_with(b" HTTP/1.1") || first.ends_with(b" HTTP/1.0");
    is_request.then(|| lines.take_while(|line| !line.is_empty()).count())
}

/// hyper's timer for one connection. h1 servers use it for nothing but the head.
pub(super) struct HeadTimer {
    pub(super) head: Arc<Head>,
    /// Until the first byte of a head.
    pub(super) idle: Duration,
    /// From the first byte of a head to its end.
    pub(super) whole: Duration,
}

impl Timer for HeadTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        self.head.awaited();
        Box::pin(HeadDeadline {
            head: self.head.clone(),
            whole: self.whole,
            begun: false,
            sleep: Box::pin(tokio::time::sleep(self.idle)),
        })
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(self.idle)
    }
}

struct HeadDeadline {
    head: Arc<Head>,
    whole: Duration,
    begun: bool,
    sleep: Pin<Box<tokio::time::Sleep>>,
}

impl Future for HeadDeadline {
    type Output = ();

    /// hyper polls this after every read that did not complete the head.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.begun && self.head.begun() {
            self.begun = true;
            let deadline = tokio::time::Instant::now() + self.whole;
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(cx)
    }
}

impl Sleep for HeadDeadline {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_the_first_head_are_counted_if_it_was_seen_whole() {
        let two = b"\r\nPOST / HTTP/1.1\r\nHost: a\r\nX: content-length: 1\r\n\r\nContent-Length: 5\r\n";
        assert_eq!(count_fields(two), Some(2));
        assert_eq!(count_fields(b"POST / HTTP/1.1\nA:5\n\n"), Some(1));
        for cut in [&b""[..], b"\r\n", b"gth: 4\r\nHost: a\r\n\r\n", b"4\r\n\r\n"] {
            assert_eq!(count_fields(cut), None);
        }
    }
}
