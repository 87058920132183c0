//! A small HTTP client on the bare socket, for requests no proper client would send.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A client that writes what it is told and reads one answer at a time.
pub struct Client {
    pub stream: TcpStream,
}

/// One answer as it came.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a header, its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Our word in a problem.
    pub fn code(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        body["code"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    pub async fn answer(&mut self) -> Answer {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.expect("the connection ended without an answer"));
        }
        let head = String::from_utf8(head).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        answer.body = String::from_utf8(body).unwrap();
        answer
    }

    /// What still comes until the server ends the connection.
    pub async fn rest(&mut self) -> usize {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest).await {
            Ok(_) => rest.len(),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                rest.len()
            }
        }
    }
}

/// A GET that is allowed, with more header lines.
pub fn get_request(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}
