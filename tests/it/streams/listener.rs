//! A client of a stream: reads event by event, as browsers do.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::Value;
use tokio::time::timeout;

use super::STREAM;
use crate::house::{Agent, House};

/// Nothing that is waited for may take longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open stream.
pub struct Listener {
    pub answer: reqwest::Response,
    text: String,
}

/// What a stream said between two empty lines.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    pub name: String,
    pub id: Option<i64>,
    pub data: Value,
    pub retry: Option<u64>,
    pub comment: bool,
}

impl Listener {
    /// Opens a stream on a pod, with a query, and reads the greeting.
    pub async fn open(house: &House, pod: usize, agent: &Agent, query: &str) -> Listener {
        let url = format!("{}{STREAM}{query}", house.url(pod));
        Listener::opened(house.http().get(url).bearer_auth(&agent.key)).await
    }

    /// Sends a request that must open a stream, and reads the greeting.
    pub async fn opened(request: RequestBuilder) -> Listener {
        let answer = timeout(PATIENCE, request.send()).await.expect("an answer").unwrap();
        assert_eq!(answer.status(), 200, "{:?}", answer.text().await);
        Listener::over(answer).await
    }

    /// Sends a request and reads the greeting; `None` when the pod says that it cannot right now.
    pub async fn tried(request: RequestBuilder) -> Option<Listener> {
        let answer = request.send().await.unwrap();
        match answer.status().as_u16() {
            200 => Some(Listener::over(answer).await),
            500 | 503 => None,
            other => panic!("{other}: {:?}", answer.text().await),
        }
    }

    /// A stream that was opened: reads the greeting.
    async fn over(answer: reqwest::Response) -> Listener {
        let mut listener = Listener { answer, text: String::new() };
        let greeting = listener.next().await.expect("a greeting");
        assert_eq!((greeting.retry, greeting.comment), (Some(2000), true), "{greeting:?}");
        listener
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        timeout(PATIENCE, self.read()).await.expect("an event")
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event_of(event);
                self.text = rest.to_owned();
                return Some(event);
            }
            match self.answer.chunk().await.expect("no broken connection") {
                Some(bytes) => self.text.push_str(std::str::from_utf8(&bytes).unwrap()),
                None => {
                    assert_eq!(self.text, "", "half an event");
                    return None;
                }
            }
        }
    }

    /// The next event, which must be a message: its seq and its envelope.
    pub async fn message(&mut self) -> (i64, Value) {
        let event = self.next().await.expect("a message");
        assert_eq!(event.name, "message", "{event:?}");
        (event.id.unwrap(), event.data)
    }

    /// The seqs of so many messages.
    pub async fn seqs(&mut self, count: usize) -> Vec<i64> {
        let mut seqs = Vec::new();
        for _ in 0..count {
            seqs.push(self.message().await.0);
        }
        seqs
    }

    /// The next event, which must be of that name and without an id: the cursor that it tells.
    pub async fn cursor(&mut self, name: &str) -> i64 {
        let event = self.next().await.unwrap_or_else(|| panic!("the end instead of {name}"));
        assert_eq!((event.name.as_str(), event.id), (name, None), "{event:?}");
        event.data["cursor"].as_i64().unwrap()
    }

    pub async fn ends(&mut self) {
        assert_eq!(self.next().await, None);
    }
}

fn event_of(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.lines() {
        match line.split_once(':').map(|(name, value)| (name, value.trim_start())) {
            Some(("", _)) => event.comment = true,
            Some(("event", name)) => event.name = name.to_owned(),
            Some(("id", id)) => event.id = Some(id.parse().unwrap()),
            Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
            Some(("retry", milliseconds)) => event.retry = Some(milliseconds.parse().unwrap()),
            _ => panic!("no line of an event: {line}"),
        }
    }
    event
}
