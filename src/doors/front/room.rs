//! Memory of the bodies under way: what is large in them needs room among all of the pod's, until the answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What every body may take without asking, so that ordinary calls are not turned away for others' large ones.
const FREE: usize = 16 * 1024;
/// Bytes over that, of all bodies together.
const ROOM: usize = 128 * 1024 * 1024;

/// Room for the bodies of a pod. Cheap to clone.
#[derive(Clone)]
pub struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Room {
        Room(Arc::new(Semaphore::new(ROOM)))
    }
}

/// Why a body is not read any further: there is no room for it now.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("too many large bodies are under way")]
pub struct NoRoom;

impl Room {
    /// Gives the request's body its room, which it keeps for as long as what this returns beside it.
    pub fn weigh(&self, request: Request) -> (Request, Taken) {
        let taken = Taken::default();
        if request.body().size_hint().upper().is_some_and(|most| most <= FREE as u64) {
            return (request, taken);
        }
        let weighed = |body| Body::new(Weighed { body, read: 0, room: self.clone(), taken: taken.clone() });
        (request.map(weighed), taken)
    }
}

/// The room that one body has. The last of its owners gives it back.
#[derive(Clone, Default)]
pub struct Taken(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

/// A body that asks for room as it arrives.
struct Weighed {
    body: Body,
    read: usize,
    room: Room,
    taken: Taken,
}

impl Weighed {
    fn take(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let before = self.read.max(FREE);
        self.read += bytes;
        let more = u32::try_from(self.read.max(FREE) - before).map_err(|_| NoRoom)?;
        let more = self.room.0.clone().try_acquire_many_owned(more).map_err(|_| NoRoom)?;
        let mut taken = self.taken.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.as_mut() {
            Some(taken) => taken.merge(more),
            None => *taken = Some(more),
        }
        Ok(())
    }
}

impl HttpBody for Weighed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let bytes = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        Poll::Ready(match self.take(bytes) {
            Ok(()) => frame,
            Err(refused) => Some(Err(axum::Error::new(refused))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http::{Response, StatusCode};

    use super::*;
    use crate::doors::front::{BODY_DEADLINE, read_body};

    /// A door that reads bodies, with so much room.
    async fn door(room: &Room, request: Request) -> Response<Body> {
        let (request, _taken) = room.weigh(request);
        match read_body(request.into_body(), 1024 * 1024, BODY_DEADLINE).await {
            Ok(bytes) => Response::new(Body::from(bytes)),
            Err(refused) => refused.refusal().answer(false, None),
        }
    }

    async fn status(room: &Room, bytes: usize) -> StatusCode {
        let pieces: Vec<_> = vec![b'a'; bytes].chunks(7_000).map(Bytes::copy_from_slice).collect();
        let body = futures::stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
        let answer = door(room, Request::new(Body::from_stream(body))).await;
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
            assert_eq!(answer.headers()["retry-after"], "1");
        }
        answer.status()
    }

    #[tokio::test]
    async fn a_large_body_that_finds_no_room_is_turned_away_and_a_small_one_is_not() {
        let room = Room(Arc::new(Semaphore::new(100_000)));
        let others = room.0.clone().try_acquire_many_owned(50_000).unwrap();
        assert_eq!(status(&room, FREE + 50_000).await, StatusCode::OK);
        assert_eq!(status(&room, FREE + 50_001).await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(room.0.available_permits(), 50_000, "answered and refused, they give it back");
        drop(others);
        assert_eq!(status(&room, FREE + 50_001).await, StatusCode::OK);
        let _others = room.0.clone().try_acquire_many_owned(100_000).unwrap();
        assert_eq!(status(&room, FREE).await, StatusCode::OK);
        assert_eq!(status(&room, FREE + 1).await, StatusCode::SERVICE_UNAVAILABLE);
    }
}
