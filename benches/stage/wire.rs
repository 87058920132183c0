//! HTTP/1.1 clients that cost little: one of calls, kept alive, one request at a time, and one of a stream.

use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::agents::Agent;

/// An open connection.
pub struct Wire {
    socket: TcpStream,
    host: String,
    out: Vec<u8>,
    answer: Vec<u8>,
}

impl Wire {
    /// Connects to `host` (address and port).
    pub async fn open(host: &str) -> Wire {
        let socket = TcpStream::connect(host).await.expect("the pod listens");
        socket.set_nodelay(true).unwrap();
        Wire { socket, host: host.to_owned(), out: Vec::new(), answer: Vec::new() }
    }

    /// Posts JSON and gives status and body. `headers` are whole lines, each ended by CR LF.
    pub async fn post(&mut self, path: &str, headers: &str, body: &str) -> (u16, &str) {
        let length = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        self.call(&["POST ", path, " HTTP/1.1\r\nhost: ", "\r\n", headers, &length, "\r\n", body]).await
    }

    /// Gets and gives status and body.
    pub async fn get(&mut self, path: &str, headers: &str) -> (u16, &str) {
        self.call(&["GET ", path, " HTTP/1.1\r\nhost: ", "\r\n", headers, "\r\n"]).await
    }

    /// The host comes after the third part.
    async fn call(&mut self, parts: &[&str]) -> (u16, &str) {
        self.out.clear();
        for part in parts[..3].iter().chain(&[self.host.as_str()]).chain(&parts[3..]) {
            self.out.extend_from_slice(part.as_bytes());
        }
        self.socket.write_all(&self.out).await.expect("the pod reads");
        self.answer.clear();
        let head = loop {
            if let Some(end) = self.answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            self.more().await;
        };
        let text = std::str::from_utf8(&self.answer[..head]).expect("a head is ASCII");
        let status = text.get(9..12).and_then(|digits| digits.parse().ok()).expect("a status line");
        let end = head + content_length(text);
        while self.answer.len() < end {
            self.more().await;
        }
        (status, std::str::from_utf8(&self.answer[head..end]).expect("a body is UTF-8"))
    }

    async fn more(&mut self) {
        let read = self.socket.read_buf(&mut self.answer).await.expect("the pod answers");
        assert!(read > 0, "the pod closed a connection");
    }
}

fn content_length(head: &str) -> usize {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    length.and_then(|(_, value)| value.trim().parse().ok()).expect("answers here have a Content-Length")
}

/// An open stream of a mailbox.
pub struct Stream {
    socket: TcpStream,
    text: Vec<u8>,
}

impl Stream {
    /// Opens it from the mailbox's beginning and waits for the greeting.
    pub async fn open(host: &str, agent: &Agent) -> Stream {
        let mut socket = TcpStream::connect(host).await.expect("the pod listens");
        let (root, key) = (&agent.root, &agent.key);
        let request = format!("GET {root}/api/v1/inbox/stream HTTP/1.1\r\nhost: {host}\r\n{key}\r\n");
        socket.write_all(request.as_bytes()).await.expect("the pod reads");
        let mut stream = Stream { socket, text: Vec::new() };
        while !stream.text.windows(GREETING.len()).any(|bytes| bytes == GREETING) {
            stream.more().await;
            let (text, ok) = (&stream.text, b"HTTP/1.1 200");
            let is_ok = text.starts_with(ok) || text.len() < ok.len();
            assert!(is_ok, "a stream was refused: {}", String::from_utf8_lossy(text));
        }
        stream.text = Vec::new();
        stream
    }

    /// The seq of the next message, and when it came.
    pub async fn next(&mut self) -> (i64, Instant) {
        loop {
            if let Some(seq) = self.take_id() {
                return (seq, Instant::now());
            }
            self.more().await;
        }
    }

    /// Reads on until the pod ends it, and forgets what comes.
    pub async fn hold(mut self) {
        let mut scrap = [0; 256];
        while self.socket.read(&mut scrap).await.is_ok_and(|read| read > 0) {}
    }

    fn take_id(&mut self) -> Option<i64> {
        let text = std::str::from_utf8(&self.text).expect("a stream is UTF-8");
        let (_, rest) = text.split_once("\nid: ")?;
        let (digits, rest) = rest.split_once('\n')?;
        let (seq, left) = (digits.parse().expect("an id is a seq"), rest.as_bytes().to_vec());
        self.text = left;
        Some(seq)
    }

    async fn more(&mut self) {
        let read = self.socket.read_buf(&mut self.text).await.expect("the pod tells");
        assert!(read > 0, "a stream ended");
    }
}

const GREETING: &[u8] = b": connected\n";
