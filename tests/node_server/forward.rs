//! `/portForward` over websockets.

use std::net::Ipv4Addr;
use std::time::Duration;

use aibom_qual::node::port_map::PortMap;
use aibom_qual::node::view::ContainerView;
use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::kubelet::Kubelet;

const V4: &str = "v4.channel.k8s.io";
const SOON: Duration = Duration::from_secs(5);
/// The size of a real scrape.
const BODY: usize = 86 * 1024;

type Socket = WebSocketStream<TlsStream<TcpStream>>;

async fn open(
    kubelet: &Kubelet,
    path: &str,
    protocols: Option<&str>,
) -> Result<Socket, tungstenite::Error> {
    let mut request = format!("wss://127.0.0.1:6443{path}").into_client_request()?;
    if let Some(protocols) = protocols {
        let value = protocols.parse().expect("a header");
        request
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", value);
    }
    let stream = kubelet.connect().await;
    let (socket, response) = tokio_tungstenite::client_async(request, stream).await?;
    let chosen = response.headers().get("Sec-WebSocket-Protocol");
    assert_eq!(chosen.expect("a protocol"), V4);
    Ok(socket)
}

/// Opens a forward and reads the frames that announce its ports.
async fn forward(kubelet: &Kubelet, ports: &[u16]) -> Socket {
    let list: Vec<String> = ports.iter().map(u16::to_string).collect();
    let path = format!("/portForward/models/web?port={}", list.join("%2C"));
    let mut socket = open(kubelet, &path, Some(V4)).await.expect("an upgrade");
    for (index, port) in ports.iter().enumerate() {
        for channel in [2 * index, 2 * index + 1] {
            let [low, high] = port.to_le_bytes();
            let channel = u8::try_from(channel).expect("a channel");
            assert_eq!(
                next(&mut socket).await,
                Event::Frame(channel, vec![low, high])
            );
        }
    }
    socket
}

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Frame(u8, Vec<u8>),
    Close(CloseCode),
    /// Without a close frame.
    End,
}

async fn next(socket: &mut Socket) -> Event {
    loop {
        match timeout(SOON, socket.next()).await.expect("a frame in time") {
            Some(Ok(Message::Binary(data))) => return Event::Frame(data[0], data[1..].to_vec()),
            Some(Ok(Message::Close(frame))) => {
                return Event::Close(frame.expect("a code").code);
            }
            Some(Ok(_)) => {}
            None | Some(Err(_)) => return Event::End,
        }
    }
}

async fn send(socket: &mut Socket, channel: u8, data: &[u8]) {
    let frame = [&[channel], data].concat();
    socket.send(Message::binary(frame)).await.expect("sent");
}

/// All data of one channel until the end, and how it came.
async fn read_to_end(socket: &mut Socket, channel: u8) -> (Vec<u8>, Event) {
    let mut data = Vec::new();
    loop {
        match next(socket).await {
            Event::Frame(from, bytes) if from == channel => data.extend(bytes),
            Event::Frame(from, bytes) => {
                panic!("channel {from}: {}", String::from_utf8_lossy(&bytes))
            }
            end => return (data, end),
        }
    }
}

fn container(ports: &PortMap, declared: &[u16]) -> ContainerView {
    ContainerView {
        running: true,
        ports: Some(ports.clone()),
        declared_ports: declared.to_vec(),
        ..ContainerView::default()
    }
}

async fn listen(ports: &PortMap, port: u16) -> TcpListener {
    let host = ports.host(port).expect("a free port");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, host)).await;
    listener.expect("the port is free")
}

/// Answers every request with a body of so many bytes, and closes.
fn serve(listener: TcpListener, length: usize) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.expect("a request"));
                }
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                stream.write_all(head.as_bytes()).await.expect("sent");
                stream.write_all(&body(length)).await.expect("sent");
            });
        }
    })
}

fn body(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

async fn scrape(kubelet: &Kubelet, length: usize) {
    let mut socket = forward(kubelet, &[8080]).await;
    send(
        &mut socket,
        0,
        b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n",
    )
    .await;
    let (answer, end) = read_to_end(&mut socket, 0).await;
    assert_eq!(end, Event::Close(CloseCode::Normal));
    let head = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .expect("a head");
    assert!(answer[head + 4..] == body(length), "the body is another");
}

#[tokio::test]
async fn every_scrape_is_whole() {
    let kubelet = Kubelet::start().await;
    let ports = PortMap::new(kubelet.picker.clone());
    let serving = serve(listen(&ports, 8080).await, BODY);
    kubelet.show(container(&ports, &[8080]));
    for _ in 0..50 {
        scrape(&kubelet, BODY).await;
    }
    // And beside each other, larger than what all queues between hold.
    let large = serve(listen(&ports, 8081).await, 8 * BODY);
    let eight = (0..8).map(|_| scrape(&kubelet, BODY));
    join_all(eight).await;
    serving.abort();
    large.abort();
}

#[tokio::test]
async fn a_slow_client_gets_everything_and_holds_up_nobody() {
    let kubelet = Kubelet::start().await;
    let ports = PortMap::new(kubelet.picker.clone());
    let length = 8_000_000;
    let large = serve(listen(&ports, 8081).await, length);
    let serving = serve(listen(&ports, 8080).await, BODY);
    kubelet.show(container(&ports, &[8080, 8081]));
    let mut slow = forward(&kubelet, &[8081]).await;
    send(&mut slow, 0, b"GET / HTTP/1.1\r\n\r\n").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    scrape(&kubelet, BODY).await;
    let (answer, end) = read_to_end(&mut slow, 0).await;
    assert_eq!(end, Event::Close(CloseCode::Normal));
    assert!(answer.ends_with(&body(length)), "the body is another");
    serving.abort();
    large.abort();
}

#[tokio::test]
async fn a_port_whose_backend_has_closed_still_takes_data_and_the_other_goes_on() {
    let kubelet = Kubelet::start().await;
    let ports = PortMap::new(kubelet.picker.clone());
    let (first, second) = (listen(&ports, 8080).await, listen(&ports, 9999).await);
    kubelet.show(container(&ports, &[]));
    let mut socket = forward(&kubelet, &[8080, 9999]).await;
    let (mut half_closed, _) = first.accept().await.expect("a connection");
    let (mut open, _) = second.accept().await.expect("a connection");

    half_closed.write_all(b"all I have").await.expect("sent");
    half_closed.shutdown().await.expect("half closed");
    assert_eq!(
        next(&mut socket).await,
        Event::Frame(0, b"all I have".to_vec())
    );
    send(&mut socket, 2, b"to the second").await;
    send(&mut socket, 0, b"to the first").await;
    let mut buffer = [0; 12];
    half_closed.read_exact(&mut buffer).await.expect("data");
    assert_eq!(&buffer, b"to the first");
    let mut buffer = [0; 13];
    open.read_exact(&mut buffer).await.expect("data");
    assert_eq!(&buffer, b"to the second");
    open.write_all(b"an answer").await.expect("sent");
    assert_eq!(
        next(&mut socket).await,
        Event::Frame(2, b"an answer".to_vec())
    );
    drop(open);
    assert_eq!(next(&mut socket).await, Event::Close(CloseCode::Normal));
    assert_eq!(half_closed.read(&mut [0; 8]).await.expect("an end"), 0);
}

#[tokio::test]
async fn what_a_client_sent_before_it_left_reaches_the_backend_and_then_its_end() {
    let kubelet = Kubelet::start().await;
    let ports = PortMap::new(kubelet.picker.clone());
    let listener = listen(&ports, 8080).await;
    kubelet.show(container(&ports, &[]));
    for polite in [true, false] {
        let mut socket = forward(&kubelet, &[8080]).await;
        let (mut backend, _) = listener.accept().await.expect("a connection");
        for chunk in body(BODY).chunks(1_000) {
            send(&mut socket, 0, chunk).await;
        }
        // Frames for no port are nothing to stumble over.
        send(&mut socket, 1, b"an error?").await;
        send(&mut socket, 200, b"beyond").await;
        send(&mut socket, 0, b"").await;
        socket
            .send(Message::binary(Vec::new()))
            .await
            .expect("sent");
        if polite {
            socket.close(None).await.expect("closed");
        } else {
            drop(socket);
        }
        let mut received = Vec::new();
        timeout(SOON, backend.read_to_end(&mut received))
            .await
            .expect("an end in time")
            .expect("no error");
        assert!(received == body(BODY), "polite: {polite}");
    }
}

#[tokio::test]
async fn a_port_that_cannot_be_reached_says_why_on_its_error_channel() {
    let kubelet = Kubelet::start().await;
    let ports = PortMap::new(kubelet.picker.clone());
    let host = ports.host(9999).expect("a free port");
    let listener = listen(&ports, 8080).await;
    kubelet.show(container(&ports, &[]));
    let mut socket = forward(&kubelet, &[9999, 8080]).await;
    let why = format!(
        "error forwarding port 9999 to pod web, uid u1: cannot connect to 127.0.0.1:{host}: \
         Connection refused (os error 111)"
    );
    assert_eq!(next(&mut socket).await, Event::Frame(1, why.into_bytes()));
    let (mut backend, _) = listener.accept().await.expect("a connection");
    backend.write_all(b"here").await.expect("sent");
    assert_eq!(next(&mut socket).await, Event::Frame(2, b"here".to_vec()));

    kubelet.show(ContainerView {
        running: true,
        ..ContainerView::default()
    });
    let mut socket = forward(&kubelet, &[8080]).await;
    let why = "error forwarding port 8080 to pod web, uid u1: no process stands behind this pod";
    assert_eq!(
        next(&mut socket).await,
        Event::Frame(1, why.as_bytes().to_vec())
    );
    assert_eq!(next(&mut socket).await, Event::Close(CloseCode::Normal));
}

#[tokio::test]
async fn what_cannot_be_agreed_on_is_refused() {
    let kubelet = Kubelet::start().await;
    kubelet.show(ContainerView::default());
    let speaks = "unable to upgrade connection: this node speaks v4.channel.k8s.io only, and was \
                  offered";
    for (path, protocols, status, text) in [
        ("web", Some(V4), 400, "query parameter \"port\" is required"),
        (
            "web?port=x",
            Some(V4),
            400,
            "unable to parse \"x\" as a port",
        ),
        ("gone?port=1", Some(V4), 404, "pod \"gone\" does not exist"),
        ("web?port=1", None, 400, &format!("{speaks} []")),
        (
            "web?port=1",
            Some("v5.channel.k8s.io, SPDY/3.1+portforward.k8s.io"),
            400,
            &format!("{speaks} [\"v5.channel.k8s.io\", \"SPDY/3.1+portforward.k8s.io\"]"),
        ),
    ] {
        let path = format!("/portForward/models/{path}");
        let refused = open(&kubelet, &path, protocols).await;
        let Err(tungstenite::Error::Http(response)) = refused else {
            panic!("{path}: {refused:?}");
        };
        assert_eq!(response.status().as_u16(), status, "{path}");
        let body = response.body().clone().unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&body), text, "{path}");
    }
    let (status, text) = kubelet.get("/portForward/models/web?port=1").await;
    assert_eq!(status, 400);
    assert_eq!(
        text,
        "a port-forward is an upgrade to a websocket of v4.channel.k8s.io"
    );
    // Of several protocols, the one that is served is chosen.
    let both = Some("v5.channel.k8s.io, v4.channel.k8s.io");
    let path = "/portForward/models/web?port=1";
    open(&kubelet, path, both).await.expect("an upgrade");
}

#[tokio::test]
async fn a_server_that_stops_says_goodbye() {
    let kubelet = Kubelet::start().await;
    let ports = PortMap::new(kubelet.picker.clone());
    let listener = listen(&ports, 8080).await;
    kubelet.show(container(&ports, &[]));
    let mut socket = forward(&kubelet, &[8080]).await;
    let (backend, _) = listener.accept().await.expect("a connection");
    let (told, goodbye) = oneshot::channel();
    let client = tokio::spawn(async move {
        let _ = told.send(next(&mut socket).await);
        next(&mut socket).await
    });
    let begun = Instant::now();
    let address = kubelet.server.address();
    kubelet.server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(goodbye.await, Ok(Event::Close(CloseCode::Away)));
    assert_eq!(client.await.expect("it ends"), Event::End);
    assert!(TcpStream::connect(address).await.is_err());
    drop(backend);
}

#[tokio::test]
async fn a_server_that_is_dropped_stops_as_well() {
    let kubelet = Kubelet::start().await;
    let address = kubelet.server.address();
    drop(kubelet);
    let deadline = Instant::now() + SOON;
    while TcpStream::connect(address).await.is_ok() {
        assert!(Instant::now() < deadline, "it still listens");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
