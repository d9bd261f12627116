//! Keeps the watch of one third-party kind alive.
//!
//! A kind that is allowed and served is listed with a limit of one, and then watched in a cache of its
//! own. While it is watched that list is repeated, because a watch may stay open when nothing else
//! works any more. A kind that cannot be listed or watched is tried again under a backoff; what the
//! cache holds stays until then. Nothing of a kind that is absent or not allowed stays in the cache.

use std::convert::Infallible;
use std::time::Duration;

use kube::api::ListParams;
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::gate::Ticket;
use super::health::Report;
use super::presence::Presence;
use crate::controller::profile::kind::Kind;
use crate::controller::reconcile::controller::Controller;
use crate::controller::reconcile::kinds::ThirdParty;
use crate::controller::runtime::store::Informer;
use crate::controller::runtime::watch::{Event, Trouble, Watch, WatchError, dice};
use crate::controller::runtime::worker::WorkerError;
use crate::controller::settings::Current;
use crate::error_chain::chain;

/// How long a server may take for a list of one object.
const PROBE_DEADLINE: Duration = Duration::from_secs(30);

/// When what is tried.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// Time between two checks of a kind that is watched; also the longest that its first list takes.
    pub probe: Duration,
    /// First delay after a failure; it doubles with every further one.
    pub retry_base: Duration,
    /// Longest delay after a failure.
    pub retry_max: Duration,
}

/// Supervises one kind.
pub struct Supervisor {
    kind: &'static Kind,
    gvk: GroupVersionKind,
    rhythm: Rhythm,
    api: Api<ThirdParty>,
    presence: Presence,
    settings: Current,
}

/// Why a watch was given up.
enum Outage {
    /// The server says that there is no such kind.
    NotServed,
    /// It says something else.
    Failed(String),
}

/// Why a kind is not watched any more.
enum End {
    Outage(Outage),
    Disallowed,
}

impl Supervisor {
    /// A supervisor of this kind.
    #[must_use]
    pub fn new(
        kind: &'static Kind,
        rhythm: Rhythm,
        client: Client,
        presence: Presence,
        settings: Current,
    ) -> Self {
        let api = Api::all_with(client, &ThirdParty::resource(kind));
        Self {
            kind,
            gvk: GroupVersionKind::gvk(kind.group, kind.version, kind.kind),
            rhythm,
            api,
            presence,
            settings,
        }
    }

    /// Supervises until told to stop. Once the kind is served, `make` makes its controller. The ticket
    /// is dropped when the first list is complete, or when there will be none for now.
    ///
    /// # Errors
    ///
    /// [`WorkerError`] when what all controllers need is not there in time. Nothing about the kind
    /// itself is an error.
    pub async fn run(
        self,
        make: impl FnOnce(&Informer<ThirdParty>) -> Controller<ThirdParty>,
        mut report: Report,
        ticket: Ticket,
        stop: CancellationToken,
    ) -> Result<(), WorkerError> {
        let mut ticket = Some(ticket);
        let informer = Informer::<ThirdParty>::new(self.kind.kind);
        let served = async {
            self.settings.confirmed().await;
            if !self.presence.has(&self.gvk) {
                ticket = None;
                self.presence.wait_for(&self.gvk).await;
            }
        };
        tokio::select! {
            () = served => {}
            () = stop.cancelled() => return Ok(()),
        }
        let controller = make(&informer);
        let synced = informer.sync_flag();
        let work = async {
            tokio::select! {
                // However long that takes: a kind that cannot be listed ends nothing.
                () = synced.wait() => controller.run(stop.clone()).await,
                () = stop.cancelled() => Ok(()),
            }
        };
        tokio::select! {
            result = work => result,
            never = self.watch(&informer, &mut report, ticket) => match never {},
        }
    }

    fn is_allowed(&self) -> bool {
        self.settings.get().kinds.allow(self.kind)
    }

    /// Waits until the kind is allowed, or not allowed.
    async fn allowed(&self, wanted: bool) {
        let mut kinds = self.settings.get().kinds.clone();
        while kinds.allow(self.kind) != wanted {
            kinds = self.settings.kinds_other_than(&kinds).await;
        }
    }

    async fn watch(
        &self,
        informer: &Informer<ThirdParty>,
        report: &mut Report,
        mut ticket: Option<Ticket>,
    ) -> Infallible {
        let mut retry_in = self.rhythm.retry_base;
        loop {
            if !self.is_allowed() {
                report.is_disabled();
                empty(informer);
                ticket = None;
                self.allowed(true).await;
            }
            if !self.presence.has(&self.gvk) {
                report.is_absent();
                empty(informer);
                ticket = None;
                tokio::select! {
                    () = self.presence.wait_for(&self.gvk) => {}
                    () = self.allowed(false) => continue,
                }
            }
            let outage = async {
                match self.probe().await {
                    Ok(()) => {
                        let listed = || {
                            retry_in = self.rhythm.retry_base;
                            ticket = None;
                            report.works();
                        };
                        self.follow(informer, listed).await
                    }
                    Err(outage) => outage,
                }
            };
            let end = tokio::select! {
                outage = outage => End::Outage(outage),
                () = self.allowed(false) => End::Disallowed,
            };
            let End::Outage(outage) = end else {
                continue;
            };
            let error = match outage {
                Outage::Failed(error) => error,
                Outage::NotServed => {
                    self.presence.refresh().await;
                    if !self.presence.has(&self.gvk) {
                        continue;
                    }
                    "the server could not find the requested resource".to_owned()
                }
            };
            report.fails(&error);
            ticket = None;
            tokio::select! {
                () = sleep(retry_in) => {}
                () = self.allowed(false) => {}
            }
            retry_in = (retry_in * 2).min(self.rhythm.retry_max);
        }
    }

    /// Lists one object.
    async fn probe(&self) -> Result<(), Outage> {
        let params = ListParams::default().limit(1);
        match timeout(PROBE_DEADLINE, self.api.list(&params)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Outage::NotServed),
            Ok(Err(kube::Error::Api(status))) => Err(Outage::Failed(status.message)),
            Ok(Err(error)) => Err(Outage::Failed(chain(&error))),
            Err(_) => Err(Outage::Failed(format!(
                "no answer to a list within {} s",
                PROBE_DEADLINE.as_secs()
            ))),
        }
    }

    /// Fills the cache until that fails; `listed` hears when it is complete.
    async fn follow(&self, informer: &Informer<ThirdParty>, listed: impl FnOnce()) -> Outage {
        let complete = informer.next_list();
        let watch = Watch::new(self.api.clone(), self.kind.kind, dice())
            .transform(|object| object.metadata.managed_fields = None);
        let (sender, mut outages) = unbounded_channel();
        let observe = |trouble: &Trouble| {
            if let Some(outage) = outage(&trouble.error) {
                // Nobody listens any more when an outage has been told already.
                let _ = sender.send(outage);
            }
        };
        let check = async {
            if timeout(self.rhythm.probe, complete).await.is_err() {
                let waited = self.rhythm.probe.as_secs();
                return Outage::Failed(format!("no complete list within {waited} s"));
            }
            listed();
            loop {
                sleep(self.rhythm.probe).await;
                if let Err(outage) = self.probe().await {
                    return outage;
                }
            }
        };
        tokio::select! {
            outage = check => outage,
            Some(outage) = outages.recv() => outage,
            never = informer.drive(watch, dice(), observe) => match never {},
        }
    }
}

/// Whether an error is the server's word that the kind cannot be watched. What the watch gets over by
/// itself, such as a broken connection or an old resource version, is none.
fn outage(error: &WatchError) -> Option<Outage> {
    match error {
        WatchError::NotServed { .. } => Some(Outage::NotServed),
        WatchError::Request { source, .. } => match &**source {
            kube::Error::Api(status) if status.code != 429 => {
                Some(Outage::Failed(status.message.clone()))
            }
            _ => None,
        },
        WatchError::VersionUnavailable { .. }
        | WatchError::Silent { .. }
        | WatchError::VeryShort { .. } => None,
    }
}

/// Takes everything out of a cache.
fn empty(informer: &Informer<ThirdParty>) {
    informer.apply(Event::ListBegin);
    informer.apply(Event::ListEnd);
}

#[cfg(test)]
mod tests;
