//! The frames of one websocket and the connections behind it.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;

use crate::error_chain::innermost;

/// For a connection to a process of this machine, which is refused or made at once.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// For the client to agree that it is over. A client that sees the connection end before that takes
/// it for broken.
const CLOSE_DEADLINE: Duration = Duration::from_secs(1);
/// For the backends to take what the client had sent before it left.
const DRAIN_DEADLINE: Duration = Duration::from_secs(1);
/// Frames that wait for a slower reader, per direction.
const QUEUE: usize = 8;
/// Data of one frame to the client, at most.
const FRAME: usize = 32 * 1024;

/// A port of a pod that is forwarded.
#[derive(Debug)]
pub(super) struct Port {
    /// Its number in the pod.
    pub(super) number: u16,
    /// The port of this machine, or why there is none.
    pub(super) target: Result<u16, String>,
    /// What failed when something fails.
    pub(super) what: String,
}

/// How a session comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No backend has more to say.
    Finished,
    /// The client has left.
    Left,
    /// The server stops.
    Stopped,
}

/// Forwards until the client leaves, the last backend has closed, or the server stops.
///
/// A backend that has closed ends its own port only. The client's end of input reaches every backend
/// as such.
pub(super) async fn run<S>(socket: WebSocketStream<S>, ports: Vec<Port>, stop: &CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sink, mut stream) = socket.split();
    let (frames, mut outgoing) = mpsc::channel(QUEUE);
    let mut inputs = Vec::new();
    let mut pumps = JoinSet::new();
    for (data, port) in (0..=u8::MAX).step_by(2).zip(ports) {
        let error = data + 1;
        for channel in [data, error] {
            let [low, high] = port.number.to_le_bytes();
            let announcement = Message::binary(vec![channel, low, high]);
            // Whoever has left is noticed below.
            let _ = sink.feed(announcement).await;
        }
        let (input, received) = mpsc::channel(QUEUE);
        inputs.push(input);
        let out = Channels {
            data,
            error,
            frames: frames.clone(),
        };
        pumps.spawn(pump(port, received, out));
    }
    drop(frames);

    let end = tokio::select! {
        end = deliver(&mut outgoing, &mut sink) => end,
        () = dispatch(&mut stream, &inputs) => End::Left,
        () = stop.cancelled() => End::Stopped,
    };
    drop((inputs, outgoing));
    let _ = timeout(CLOSE_DEADLINE, close(&mut sink, &mut stream, end)).await;
    let drained = async { while pumps.join_next().await.is_some() {} };
    let _ = timeout(DRAIN_DEADLINE, drained).await;
    if let Ok(socket) = sink.reunite(stream) {
        let mut stream = socket.into_inner();
        let _ = timeout(CLOSE_DEADLINE, stream.shutdown()).await;
    }
}

/// Brings frames to the client.
async fn deliver<S>(
    outgoing: &mut mpsc::Receiver<Message>,
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if sink.flush().await.is_err() {
        return End::Left;
    }
    while let Some(frame) = outgoing.recv().await {
        if sink.send(frame).await.is_err() {
            return End::Left;
        }
    }
    End::Finished
}

/// Brings the client's data to the ports they are for, until it leaves. What is for no port, or for a
/// port that takes no more, is ignored, as a kubelet does.
async fn dispatch<S>(stream: &mut SplitStream<WebSocketStream<S>>, inputs: &[mpsc::Sender<Bytes>])
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = stream.next().await {
        // After a close frame there is one more turn, which answers it.
        let Message::Binary(frame) = message else {
            continue;
        };
        let Some(channel) = frame.first().copied() else {
            continue;
        };
        let input = inputs.get(usize::from(channel / 2));
        if let Some(input) = input.filter(|_| channel % 2 == 0 && frame.len() > 1) {
            let _ = input.send(frame.slice(1..)).await;
        }
    }
}

/// Says that it is over, unless the client did, and waits until both have said so.
async fn close<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    stream: &mut SplitStream<WebSocketStream<S>>,
    end: End,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let code = match end {
        End::Finished => Some(CloseCode::Normal),
        End::Stopped => Some(CloseCode::Away),
        End::Left => None,
    };
    if let Some(code) = code {
        let reason = "".into();
        let frame = Message::Close(Some(CloseFrame { code, reason }));
        if sink.send(frame).await.is_err() {
            return;
        }
    }
    while let Some(Ok(_)) = stream.next().await {}
}

/// Where a port's frames go.
struct Channels {
    data: u8,
    error: u8,
    frames: mpsc::Sender<Message>,
}

impl Channels {
    async fn fail(&self, why: &str) {
        let mut frame = vec![self.error];
        frame.extend_from_slice(why.as_bytes());
        // Nobody is there to hear it when this fails.
        let _ = self.frames.send(Message::binary(frame)).await;
    }
}

/// One port: connects, then copies both ways until both have ended.
async fn pump(port: Port, received: mpsc::Receiver<Bytes>, out: Channels) {
    let target = match port.target {
        Ok(target) => target,
        Err(why) => return out.fail(&why).await,
    };
    let connecting = TcpStream::connect((Ipv4Addr::LOCALHOST, target));
    let why = match timeout(CONNECT_DEADLINE, connecting).await {
        Ok(Ok(stream)) => {
            // Costs some speed at worst.
            let _ = stream.set_nodelay(true);
            let (read, write) = stream.into_split();
            tokio::join!(
                to_client(read, out, &port.what),
                to_backend(received, write)
            );
            return;
        }
        Ok(Err(error)) => innermost(&error),
        Err(_) => format!("no answer for {} s", CONNECT_DEADLINE.as_secs()),
    };
    let what = port.what;
    out.fail(&format!(
        "{what}: cannot connect to 127.0.0.1:{target}: {why}"
    ))
    .await;
}

async fn to_client(mut backend: OwnedReadHalf, out: Channels, what: &str) {
    let mut buffer = vec![0; 1 + FRAME];
    buffer[0] = out.data;
    loop {
        let read = tokio::select! {
            read = backend.read(&mut buffer[1..]) => read,
            () = out.frames.closed() => return,
        };
        match read {
            Ok(0) => return,
            Ok(length) => {
                let frame = Message::binary(buffer[..=length].to_vec());
                if out.frames.send(frame).await.is_err() {
                    return;
                }
            }
            Err(error) => return out.fail(&format!("{what}: {}", innermost(&error))).await,
        }
    }
}

async fn to_backend(mut received: mpsc::Receiver<Bytes>, mut backend: OwnedWriteHalf) {
    while let Some(data) = received.recv().await {
        if backend.write_all(&data).await.is_err() {
            // It does not listen any more, but may still have something to say.
            return;
        }
    }
    let _ = backend.shutdown().await;
}
