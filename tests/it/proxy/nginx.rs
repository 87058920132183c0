//! nginx as many run it: it gathers answers, and ends a connection on which a pod says nothing for a minute.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until, timeout};
use waypost::config::Config;

use super::{fetched, free_address, serves};
use crate::house::{House, settings};
use crate::streams::{Listener, STREAM};

const SOON: Duration = Duration::from_secs(1);

/// When letters are sent, in seconds: between some of them is more than a minute of silence.
const LETTERS: [u64; 9] = [1, 2, 10, 80, 81, 150, 151, 225, 300];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs nginx and takes five minutes: ./dev test proxy"]
async fn a_stream_stays_open_for_five_minutes_and_tells_of_each_message_within_a_second() {
    let public_url = Some("http://waypost.test".into());
    let house = House::with_pods(2, Config { public_url, ..settings() }).await;
    let nginx = [Nginx::before(&house, "1.0").await, Nginx::before(&house, "1.1").await];
    let (sender, reader) = (house.register().await, house.register().await);
    let mut streams = Vec::new();
    for nginx in &nginx {
        let request = house.http().get(format!("{}{STREAM}", nginx.url())).bearer_auth(&reader.key);
        let mut stream = Listener::opened(request).await;
        assert_eq!(stream.seqs(1).await, [1], "the welcome");
        streams.push(stream);
    }
    let opened = Instant::now();
    for (count, after) in LETTERS.into_iter().enumerate() {
        // Heartbeats come meanwhile, and are read when the letter is.
        sleep_until(opened + Duration::from_secs(after)).await;
        let letter = json!({ "recipient_agent_id": reader.id, "body": after.to_string() });
        let sent = house.call(count % 2, &sender, "mailbox_send", letter).await;
        assert_eq!(sent.status, 200, "{}", sent.body);
        let told = timeout(SOON, join_all(streams.iter_mut().map(next_letter))).await;
        let told = told.unwrap_or_else(|_| panic!("the letter of second {after} does not come"));
        assert!(told.iter().all(|id| *id == sent.body["message_id"]), "{after}: {told:?}");
    }
}

/// The id of the next message, past heartbeats.
async fn next_letter(stream: &mut Listener) -> Value {
    loop {
        let event = stream.next().await.expect("it stays open");
        if event.id.is_some() {
            return event.data["id"].clone();
        }
    }
}

/// A running nginx, which passes requests to each pod in turn.
struct Nginx {
    address: SocketAddr,
    _child: Child,
    _folder: TempDir,
}

impl Nginx {
    /// Starts it; it speaks this version of HTTP with the pods: only of 1.0 it gathers what comes bit by bit.
    async fn before(house: &House, version: &str) -> Nginx {
        let address = free_address();
        let folder = TempDir::new().unwrap();
        let own = folder.path().display();
        let pods: String = house.pods.iter().map(|pod| format!("server {};", pod.address)).collect();
        // One process, so that none is left behind when it is killed.
        let settings = format!(
            "daemon off; master_process off; pid {own}/pid; error_log {own}/log;
             events {{}}
             http {{
                access_log off;
                client_body_temp_path {own}/1; proxy_temp_path {own}/2; fastcgi_temp_path {own}/3;
                uwsgi_temp_path {own}/4; scgi_temp_path {own}/5;
                upstream pods {{ {pods} }}
                server {{
                    listen {address};
                    location / {{
                        proxy_pass http://pods;
                        proxy_http_version {version};
                        proxy_set_header Connection '';
                        proxy_set_header Host waypost.test;
                        proxy_buffering on;
                        proxy_read_timeout 60s;
                    }}
                }}
             }}"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, settings).unwrap();
        let child = Command::new(fetched("NGINX"))
            .arg("-c")
            .arg(file)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let nginx = Nginx { address, _child: child, _folder: folder };
        serves(&nginx.url()).await;
        nginx
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
