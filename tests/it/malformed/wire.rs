//! Bytes to a pod and answers back, for requests that no proper client would send.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than any answer here may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// One answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a header, its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find_map(|(field, value)| field.eq_ignore_ascii_case(name).then_some(value))
    }
}

/// What became of a connection on which one request was sent.
#[derive(Debug)]
pub struct Exchange {
    pub answer: Answer,
    /// Why what came after the answer was wrong; empty when it was right.
    pub after: String,
}

/// Sends text whose characters are bytes (U+00FF is the byte 0xFF), and reads the one answer, or how the
/// connection ended without one.
///
/// Afterwards the connection is closed, or it is still understood: another request on it gets its own answer and
/// not that of something smuggled in. With `is_cut` the client sends no more, and says so.
pub async fn exchange(address: &str, text: &str, is_cut: bool) -> Result<Exchange, &'static str> {
    timeout(PATIENCE, exchanged(address, text, is_cut)).await.unwrap_or(Err("silent"))
}

async fn exchanged(address: &str, text: &str, is_cut: bool) -> Result<Exchange, &'static str> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that has heard enough may close before it has read all.
    let _ = stream.write_all(&bytes(text)).await;
    if is_cut {
        stream.shutdown().await.unwrap();
    }
    let answer = next(&mut stream, text.starts_with("HEAD ")).await?;
    let is_closed = answer.header("connection") == Some("close") || answer.head.starts_with("HTTP/1.0");
    if is_closed || is_cut {
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest).await;
        let after = if rest.is_empty() { String::new() } else { format!("more came: {ended:?} {rest:?}") };
        return Ok(Exchange { answer, after });
    }
    let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let next = next(&mut stream, false).await;
    let is_alive = next.as_ref().is_ok_and(|next| next.body == "alive\n");
    let after = if is_alive { String::new() } else { format!("the connection is out of step: {next:?}") };
    Ok(Exchange { answer, after })
}

/// Sends pieces, each once whatever came before it is answered, and reads two answers.
pub async fn pipelined(address: &str, pieces: &[String]) -> Vec<Answer> {
    let exchanged = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut answers = Vec::new();
        for piece in pieces {
            stream.write_all(&bytes(piece)).await.unwrap();
            answers.push(next(&mut stream, false).await.unwrap());
        }
        if answers.len() < 2 {
            answers.push(next(&mut stream, false).await.unwrap());
        }
        if answers[1].header("connection") == Some("close") {
            assert_eq!(
                stream.read_u8().await.map_err(|end| end.kind()),
                Err(std::io::ErrorKind::UnexpectedEof)
            );
        }
        answers
    };
    timeout(PATIENCE, exchanged).await.expect("no answer")
}

fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(u32::from(character)).expect("a byte")).collect()
}

async fn next(stream: &mut TcpStream, is_head: bool) -> Result<Answer, &'static str> {
    let ended = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "closed",
        _ => "reset",
    };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.map_err(ended)?);
    }
    let head = String::from_utf8(head).unwrap();
    let status = head[9..12].parse().unwrap();
    let mut answer = Answer { status, head, body: String::new() };
    let length = answer.header("content-length").filter(|_| !is_head);
    let length = length.map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.map_err(ended)?;
    answer.body = String::from_utf8(body).unwrap();
    Ok(answer)
}
