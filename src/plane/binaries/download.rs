//! Fetches official releases (or a mirror's copy): checksum first, then the file, resumed where it
//! stopped, and used only when its digest is the published one.

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use reqwest::header::{CONTENT_RANGE, RANGE, TRANSFER_ENCODING};
use reqwest::{Client, Response, StatusCode, Url, Version};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncWriteExt as _, BufWriter};

use super::archive::{self, ArchiveError};
use super::cache::Slot;
use super::client::{self, why};
use super::error::BinaryError;
use super::hosts::Hosts;
use super::official::{Release, published_digest, shown};
use super::platform::Platform;
use super::progress::Progress;
use super::reason::Reason;
use super::sha256::Sha256;
use super::source::{Origin, Timeouts};
use super::{Fault, Want, blocking};
use crate::plane::event::Sink;
use crate::plane::tool::Tool;

const MOST_RESUMES: u32 = 2;
/// The longest checksum file, in bytes.
const MOST_CHECKSUM: usize = 1 << 20;

/// Downloads for one call of `ensure`.
pub(super) struct Downloader<'a> {
    mirror: Option<&'a Url>,
    timeouts: Timeouts,
    client: Option<Client>,
    hosts: Hosts,
}

/// What is known of a file that has arrived.
struct Arrived {
    /// A part of it was there before, or it had to be resumed.
    resumed: bool,
    /// See [`Transfer::Complete`].
    announced: bool,
}

/// How a transfer of (the rest of) a file ended.
enum Transfer {
    /// Its end was announced (by a length, chunks or frames), or is only where the connection ended.
    Complete {
        announced: bool,
    },
    Cut {
        received: u64,
        total: Option<u64>,
    },
}

impl<'a> Downloader<'a> {
    pub(super) fn new(mirror: Option<&'a Url>, timeouts: Timeouts) -> Self {
        Self {
            mirror,
            timeouts,
            client: None,
            hosts: Hosts::default(),
        }
    }

    /// Puts the published program into `workshop`.
    pub(super) async fn obtain(
        &mut self,
        want: &Want,
        platform: Platform,
        slot: &Slot,
        workshop: &Path,
        sink: &dyn Sink,
    ) -> Result<(PathBuf, Origin), Fault> {
        let release = Release::of(want, platform);
        let url = release.url(self.mirror)?;
        let after = self.timeouts.download;
        let part = slot.partial(&release.asset);
        let fetched = self.fetch(want.tool, &release, &url, &part, sink);
        match tokio::time::timeout(after, fetched).await {
            Ok(result) => result?,
            Err(_) => {
                let url = shown(&url);
                return Err(Reason::Overdue { url, after }.into());
            }
        }
        let program = workshop.join(want.tool.file_name());
        match release.member {
            None => tokio::fs::rename(&part, &program)
                .await
                .map_err(|error| BinaryError::io(&program, error))?,
            Some(member) => unpack(&part, member, &program, &url).await?,
        }
        let url = shown(&url);
        Ok((program, Origin::Downloaded { url }))
    }

    /// Completes `part` and compares it with the published digest.
    async fn fetch(
        &mut self,
        tool: Tool,
        release: &Release,
        url: &Url,
        part: &Path,
        sink: &dyn Sink,
    ) -> Result<(), Fault> {
        let expected = self.published(release).await?;
        let mut started_over = false;
        loop {
            let arrived = self.complete(tool, url, part, sink).await?;
            let file = part.to_path_buf();
            let (found, _) = blocking(move || Sha256::of_file(&file))
                .await?
                .map_err(|error| BinaryError::io(part, error))?;
            if found == expected {
                return Ok(());
            }
            remove(part).await?;
            // What was resumed may be two different files in one, and what ended with the connection
            // may be cut: only a whole file tells, and so does the second one.
            if started_over || (arrived.announced && !arrived.resumed) {
                return Err(Fault::Stop(BinaryError::Checksum {
                    tool,
                    url: shown(url),
                    expected,
                    found,
                }));
            }
            started_over = true;
        }
    }

    async fn published(&mut self, release: &Release) -> Result<Sha256, Fault> {
        let url = release.checksum_url(self.mirror)?;
        let mut response = self.get(&url, 0).await?;
        if response.status() != StatusCode::OK {
            return Err(bad_status(&url, &response).into());
        }
        let mut text = Vec::new();
        loop {
            match self.chunk(&url, text.len() as u64, &mut response).await? {
                Ok(Some(chunk)) => text.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(why) => {
                    let url = shown(&url);
                    return Err(Reason::Transfer { url, why }.into());
                }
            }
            if text.len() > MOST_CHECKSUM {
                break;
            }
        }
        published_digest(&String::from_utf8_lossy(&text), &release.asset).ok_or_else(|| {
            Fault::Skip(Reason::ChecksumFile {
                url: shown(&url),
                file: release.asset.clone(),
            })
        })
    }

    /// Fetches what `part` lacks.
    async fn complete(
        &mut self,
        tool: Tool,
        url: &Url,
        part: &Path,
        sink: &dyn Sink,
    ) -> Result<Arrived, Fault> {
        let mut progress = Progress::new(tool, url, sink);
        let mut resumes = 0;
        let mut resumed = false;
        loop {
            let offset = match tokio::fs::metadata(part).await {
                Ok(meta) => meta.len(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                Err(error) => return Err(BinaryError::io(part, error).into()),
            };
            resumed |= offset > 0;
            match self.transfer(url, part, offset, &mut progress).await? {
                Transfer::Complete { announced } => return Ok(Arrived { resumed, announced }),
                Transfer::Cut { .. } if resumes < MOST_RESUMES => resumes += 1,
                Transfer::Cut { received, total } => {
                    return Err(Fault::Skip(Reason::Truncated {
                        url: shown(url),
                        received,
                        total,
                        resumes,
                    }));
                }
            }
        }
    }

    async fn transfer(
        &mut self,
        url: &Url,
        part: &Path,
        offset: u64,
        progress: &mut Progress<'_>,
    ) -> Result<Transfer, Fault> {
        let mut response = self.get(url, offset).await?;
        let (mut received, total) = match response.status() {
            StatusCode::OK => (0, response.content_length()),
            StatusCode::PARTIAL_CONTENT if offset > 0 => match content_range(&response) {
                Some((start, total)) if start == offset => (offset, total),
                _ => {
                    // Not the piece that was asked for: without one, the next try gets it all.
                    remove(part).await?;
                    return Ok(Transfer::Cut {
                        received: 0,
                        total: None,
                    });
                }
            },
            // There is nothing after what is here; the digest decides whether that is right.
            StatusCode::RANGE_NOT_SATISFIABLE if offset > 0 => {
                return Ok(Transfer::Complete { announced: true });
            }
            _ => return Err(bad_status(url, &response).into()),
        };
        let announced = total.is_some() || announces_its_end(&response);
        progress.start(total);
        let disk = |error| Fault::Stop(BinaryError::io(part, error));
        let mut file = open(part, received > 0).await.map_err(disk)?;
        let end = loop {
            match self.chunk(url, received, &mut response).await {
                Ok(Ok(Some(chunk))) => {
                    file.write_all(&chunk).await.map_err(disk)?;
                    received += chunk.len() as u64;
                    progress.at(received);
                }
                Ok(Ok(None)) if total.is_none_or(|total| received >= total) => {
                    break Ok(Transfer::Complete { announced });
                }
                Ok(_) => break Ok(Transfer::Cut { received, total }),
                Err(fault) => break Err(fault),
            }
        };
        // Also after a failure: the next try goes on from what has arrived.
        file.flush().await.map_err(disk)?;
        progress.end(received);
        end
    }

    async fn get(&mut self, url: &Url, offset: u64) -> Result<Response, Fault> {
        let host = host_and_port(url);
        if let Some(why) = self.hosts.unreachable(&host) {
            let why = why.to_owned();
            return Err(Reason::Unreachable { host, why }.into());
        }
        let mut request = self.client()?.get(url.clone());
        if offset > 0 {
            request = request.header(RANGE, format!("bytes={offset}-"));
        }
        let patience = self.hosts.patience(&host, &self.timeouts);
        let why = match tokio::time::timeout(patience, request.send()).await {
            Ok(Ok(response)) => {
                self.hosts.answered(host);
                return Ok(response);
            }
            Ok(Err(error)) if error.is_redirect() => {
                let (url, why) = (shown(url), why(error));
                return Err(Reason::Redirect { url, why }.into());
            }
            Ok(Err(error)) if error.is_connect() || error.is_timeout() => why(error),
            Ok(Err(error)) => {
                let (url, why) = (shown(url), why(error));
                return Err(Reason::Transfer { url, why }.into());
            }
            Err(_) => format!("no answer within {patience:?}"),
        };
        self.hosts.failed(host.clone(), why.clone());
        Err(Reason::Unreachable { host, why }.into())
    }

    /// The next bytes; the inner error says why the body ended early.
    async fn chunk(
        &self,
        url: &Url,
        received: u64,
        response: &mut Response,
    ) -> Result<Result<Option<impl Deref<Target = [u8]> + use<>>, String>, Fault> {
        let after = self.timeouts.stall;
        match tokio::time::timeout(after, response.chunk()).await {
            Ok(chunk) => Ok(chunk.map_err(why)),
            Err(_) => Err(Fault::Skip(Reason::Stalled {
                url: shown(url),
                received,
                after,
            })),
        }
    }

    /// Made at the first use: reading the system's certificates takes a moment.
    fn client(&mut self) -> Result<&Client, Fault> {
        if self.client.is_none() {
            let client = client::new(self.mirror, self.timeouts);
            self.client = Some(client.map_err(|why| unusable_tls(&why))?);
        }
        self.client
            .as_ref()
            .ok_or_else(|| unusable_tls("no client"))
    }
}

async fn unpack(part: &Path, member: String, program: &Path, url: &Url) -> Result<(), Fault> {
    let (from, to) = (part.to_path_buf(), program.to_path_buf());
    let result = blocking(move || archive::extract(&from, &member, &to)).await?;
    remove(part).await?;
    result.map_err(|error| match error {
        ArchiveError::Write(error) => BinaryError::io(program, error).into(),
        ArchiveError::Format(why) => Fault::Skip(Reason::Archive {
            url: shown(url),
            why,
        }),
    })
}

async fn open(part: &Path, append: bool) -> io::Result<BufWriter<File>> {
    let mut options = OpenOptions::new();
    options.create(true);
    if append {
        options.append(true);
    } else {
        options.write(true).truncate(true);
    }
    let file = options.open(part).await?;
    Ok(BufWriter::with_capacity(256 * 1024, file))
}

async fn remove(part: &Path) -> Result<(), BinaryError> {
    match tokio::fs::remove_file(part).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BinaryError::io(part, error)),
        _ => Ok(()),
    }
}

/// Whether a body without a length says where it ends; otherwise a cut one looks like a whole one.
fn announces_its_end(response: &Response) -> bool {
    let encodings = response.headers().get_all(TRANSFER_ENCODING).iter();
    let mut encodings = encodings.filter_map(|value| value.to_str().ok());
    response.version() >= Version::HTTP_2
        || encodings.any(|value| value.to_ascii_lowercase().contains("chunked"))
}

/// Start and total of `bytes START-END/TOTAL`.
fn content_range(response: &Response) -> Option<(u64, Option<u64>)> {
    let value = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.parse().ok()?, total.parse().ok()))
}

fn bad_status(url: &Url, response: &Response) -> Reason {
    Reason::Status {
        url: shown(url),
        status: response.status().to_string(),
    }
}

fn unusable_tls(why: &str) -> Fault {
    Fault::Skip(Reason::Transfer {
        url: "https".to_owned(),
        why: why.to_owned(),
    })
}

fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
