//! A small HTTP server with faults: it cuts bodies, goes silent, redirects in circles.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// First byte of `Range: bytes=N-`.
    pub(crate) from: Option<usize>,
}

/// What was posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) path: String,
    /// Names and values as they came, in order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Posted {
    /// The value of a header whose name is spelled exactly like this.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find_map(|(known, value)| (known == name).then_some(value.as_str()))
    }
}

/// What comes back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Send only so many bytes of the body.
    only: Option<usize>,
    /// Then stay silent instead of closing.
    stall: bool,
    delay: Duration,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            only: None,
            stall: false,
            delay: Duration::ZERO,
        }
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        self.body = body.into();
        self
    }

    /// A file, or the part of it that was asked for.
    pub(crate) fn file(content: &[u8], asked: &Asked) -> Self {
        let mut answer = Self::status(200);
        answer.body = content.to_vec();
        if let Some(from) = asked.from {
            if from >= content.len() {
                return Self::status(416);
            }
            answer.status = 206;
            answer.body = content[from..].to_vec();
            let (last, total) = (content.len() - 1, content.len());
            let range = format!("bytes {from}-{last}/{total}");
            answer.headers.push(("Content-Range", range));
        }
        answer
    }

    pub(crate) fn redirect(to: &str) -> Self {
        let mut answer = Self::status(302);
        answer.headers.push(("Location", to.to_owned()));
        answer
    }

    /// The connection closes after so many bytes of the body.
    pub(crate) fn cut(mut self, after: usize) -> Self {
        self.only = Some(after);
        self
    }

    /// Nothing comes after so many bytes of the body.
    pub(crate) fn stall(mut self, after: usize) -> Self {
        self.only = Some(after);
        self.stall = true;
        self
    }

    pub(crate) fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

type Handler = dyn Fn(&Asked) -> Answer + Send + Sync;

/// Serves on loopback until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    record: Arc<Record>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Record {
    asked: Mutex<Vec<Asked>>,
    posted: Mutex<Vec<Posted>>,
}

impl Server {
    pub(crate) async fn start(handler: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let record = Arc::new(Record::default());
        let handler: Arc<Handler> = Arc::new(handler);
        let kept = Arc::clone(&record);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, record) = (Arc::clone(&handler), Arc::clone(&kept));
                // A client that goes away in the middle is part of the tests.
                tokio::spawn(async move {
                    let _ = serve(stream, &*handler, &record).await;
                });
            }
        });
        Self {
            address,
            record,
            task,
        }
    }

    pub(crate) fn url(&self) -> reqwest::Url {
        format!("http://{}/mirror", self.address)
            .parse()
            .expect("an address")
    }

    /// Everything asked for so far whose path ends like this.
    pub(crate) fn asked(&self, end: &str) -> Vec<Asked> {
        let asked = self.record.asked.lock().expect("not poisoned");
        let matching = asked.iter().filter(|asked| asked.path.ends_with(end));
        matching.cloned().collect()
    }

    /// Everything posted so far.
    pub(crate) fn posted(&self) -> Vec<Posted> {
        self.record.posted.lock().expect("not poisoned").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, handler: &Handler, record: &Record) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let is_post = line.starts_with("POST ");
    let (mut from, mut length, mut headers) = (None, 0, Vec::new());
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_owned(), value.to_owned()));
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let range = value.strip_prefix("bytes=").unwrap_or_default();
                from = range.trim_end_matches('-').parse().ok();
            }
            "content-length" => length = value.parse().unwrap_or_default(),
            _ => {}
        }
    }
    let asked = Asked { path, from };
    let all = &record.asked;
    all.lock().expect("not poisoned").push(asked.clone());
    if is_post {
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let path = asked.path.clone();
        let posted = Posted {
            path,
            headers,
            body,
        };
        let all = &record.posted;
        all.lock().expect("not poisoned").push(posted);
    }
    let answer = handler(&asked);
    tokio::time::sleep(answer.delay).await;
    let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", answer.body.len()));
    stream.write_all(head.as_bytes()).await?;
    let end = answer.only.unwrap_or(answer.body.len());
    stream
        .write_all(&answer.body[..end.min(answer.body.len())])
        .await?;
    stream.flush().await?;
    if answer.stall {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    stream.shutdown().await
}
