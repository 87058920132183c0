//! A keep-alive HTTP/1.1 client that costs little: one socket, one buffer, one request at a time.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

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
        self.out.clear();
        let length = body.len().to_string();
        for part in [
            "POST ",
            path,
            " HTTP/1.1\r\nhost: ",
            &self.host,
            "\r\ncontent-type: application/json\r\n",
            headers,
            "content-length: ",
            &length,
            "\r\n\r\n",
            body,
        ] {
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
