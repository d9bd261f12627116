//! A helm program whose major version is known, and what it is asked to do.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::Utc;
use serde_json::Value;

use super::args::{self, Arguments, Files, MoveOptions};
use super::capability::{Capabilities, Major};
use super::chart::{Chart, VALUES_TEMPLATE};
use super::error::HelmError;
use super::failure;
use super::process::{Ended, Program};
use super::transcript::Transcripts;
use super::yaml;
use crate::host::files;
use crate::host::launch::{CANNOT_EXECUTE_MARK, Launcher};
use crate::record::{HelmFacts, HelmFailure, HelmRecord};

/// How long Helm may take for what needs no cluster.
const LOCAL_LIMIT: Duration = Duration::from_secs(60);

/// How much longer than its own `--timeout` a move may take. Helm's limit is for each wait of its own,
/// and a first install also waits for the definitions.
const OVERTIME: Duration = Duration::from_secs(30);

/// Where a Helm works.
#[derive(Clone, Debug)]
pub struct HelmSettings {
    /// What starts the process.
    pub launcher: Launcher,
    /// The kubeconfig of the one cluster that Helm may see.
    pub kubeconfig: PathBuf,
    /// The context in it; its current one when [`None`].
    pub context: Option<String>,
    /// A folder of Helm's own, for its cache and configuration; made if it is not there.
    pub home: PathBuf,
    /// The folder for transcripts, which exists.
    pub transcripts: PathBuf,
    /// How moves are made.
    pub moves: MoveOptions,
}

/// A release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseRef {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// What Helm makes of a chart, without a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The objects of its templates, in Helm's order; without `crds/`.
    pub objects: Vec<Value>,
    /// The computed values: the chart's own, and over them those that it is installed with.
    pub values: Value,
}

/// A helm program.
#[derive(Debug)]
pub struct Helm {
    program: Program,
    major: Major,
    version: String,
    context: Option<String>,
    moves: MoveOptions,
    transcripts: Transcripts,
}

impl Helm {
    /// Asks the program for its version.
    ///
    /// # Errors
    ///
    /// When it cannot be started, is not Helm, or of another major than 3 and 4.
    pub async fn open(program: &Path, settings: HelmSettings) -> Result<Self, HelmError> {
        let HelmSettings {
            launcher,
            kubeconfig,
            context,
            home,
            transcripts,
            moves,
        } = settings;
        files::private_dir(&home)?;
        let set = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
        let runner = Program {
            launcher,
            path: program.to_owned(),
            env: vec![
                set("KUBECONFIG", &kubeconfig),
                set("KUBECACHEDIR", &home.join("kube-cache")),
                set("HELM_CACHE_HOME", &home.join("cache")),
                set("HELM_CONFIG_HOME", &home.join("config")),
                set("HELM_DATA_HOME", &home.join("data")),
            ],
            cwd: home,
        };
        let question = ["version", "--template", "{{.Version}}"];
        let ended = local(&runner, "version", question.map(OsString::from).to_vec()).await?;
        let version = ended.stdout.text().trim().to_owned();
        let major = match Major::of_version(&version) {
            Some(Ok(major)) if ended.exit == Some(0) => major,
            Some(Err(_)) => {
                return Err(HelmError::UnknownMajor {
                    program: program.to_owned(),
                    version,
                });
            }
            _ => {
                return Err(HelmError::NotHelm {
                    program: program.to_owned(),
                    said: failure::complaint(&ended.stderr.text()).unwrap_or(version),
                });
            }
        };
        Ok(Self {
            program: runner,
            major,
            version,
            context,
            moves,
            transcripts: Transcripts::new(transcripts),
        })
    }

    /// What the program is, for the record of a run.
    #[must_use]
    pub fn record(&self) -> HelmRecord {
        HelmRecord {
            major: self.major.number(),
            version: self.version.clone(),
        }
    }

    /// What it can do.
    #[must_use]
    pub fn capabilities(&self) -> &'static Capabilities {
        self.major.capabilities()
    }

    /// `helm install`, which makes the namespace if it is not there, and waits.
    ///
    /// A Helm that fails is not an error: its facts say so. The facts name no revisions; only the cluster
    /// knows them. The same holds for the other moves.
    ///
    /// # Errors
    ///
    /// When Helm cannot be run.
    pub async fn install(
        &self,
        release: &ReleaseRef,
        chart: &Chart,
        limit: Duration,
    ) -> Result<HelmFacts, HelmError> {
        let args = self.arguments().install(release, files_of(chart), limit)?;
        self.run_move("install", args, limit).await
    }

    /// `helm upgrade` to a chart with its values and nothing of those before.
    ///
    /// # Errors
    ///
    /// When Helm cannot be run.
    pub async fn upgrade(
        &self,
        release: &ReleaseRef,
        chart: &Chart,
        limit: Duration,
    ) -> Result<HelmFacts, HelmError> {
        let args = self.arguments().upgrade(release, files_of(chart), limit)?;
        self.run_move("upgrade", args, limit).await
    }

    /// `helm rollback` to a revision; to the one before the newest when [`None`], whatever its status
    /// (`helm-moves.md` C).
    ///
    /// # Errors
    ///
    /// When Helm cannot be run.
    pub async fn rollback(
        &self,
        release: &ReleaseRef,
        revision: Option<NonZeroU32>,
        limit: Duration,
    ) -> Result<HelmFacts, HelmError> {
        let args = self.arguments().rollback(release, revision, limit)?;
        self.run_move("rollback", args, limit).await
    }

    /// `helm uninstall`, which leaves definitions and their objects.
    ///
    /// # Errors
    ///
    /// When Helm cannot be run.
    pub async fn uninstall(
        &self,
        release: &ReleaseRef,
        limit: Duration,
    ) -> Result<HelmFacts, HelmError> {
        let args = self.arguments().uninstall(release, limit);
        self.run_move("uninstall", args, limit).await
    }

    /// What Helm makes of a chart, without a cluster: it is not asked, and lookups find nothing.
    ///
    /// # Errors
    ///
    /// When Helm cannot be run, the chart cannot be rendered, or the result cannot be read.
    pub async fn template(
        &self,
        release: &ReleaseRef,
        chart: &Chart,
    ) -> Result<Rendered, HelmError> {
        let probe = Files {
            chart: chart.probe(),
            values: chart.values_file(),
        };
        let (objects, values) = tokio::try_join!(
            self.rendered(chart, args::template(release, files_of(chart), None)),
            self.rendered(chart, args::template(release, probe, Some(VALUES_TEMPLATE))),
        )?;
        let chart = chart.source();
        let objects = yaml::documents(&objects).map_err(|source| HelmError::Rendered {
            chart: chart.to_owned(),
            source,
        })?;
        let values = Chart::values_in(&values).map_err(|reason| HelmError::Values {
            chart: chart.to_owned(),
            reason,
        })?;
        Ok(Rendered { objects, values })
    }

    async fn rendered(&self, chart: &Chart, args: Vec<OsString>) -> Result<String, HelmError> {
        let ended = local(&self.program, "template", args).await?;
        let said = if ended.stdout.cut {
            Some("it renders more than can be read".to_owned())
        } else if ended.exit == Some(0) {
            None
        } else {
            let complaint = failure::complaint(&ended.stderr.text());
            Some(complaint.unwrap_or_else(|| "it gave no reason".to_owned()))
        };
        match said {
            None => Ok(ended.stdout.text()),
            Some(said) => Err(HelmError::Render {
                chart: chart.source().to_owned(),
                said,
            }),
        }
    }

    fn arguments(&self) -> Arguments<'_> {
        Arguments {
            capabilities: self.major.capabilities(),
            context: self.context.as_deref(),
            moves: self.moves,
        }
    }

    async fn run_move(
        &self,
        verb: &'static str,
        args: Vec<OsString>,
        limit: Duration,
    ) -> Result<HelmFacts, HelmError> {
        let words: Vec<String> = args
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let transcript = self
            .transcripts
            .begin(verb, &self.version, &words, Utc::now())
            .await?;
        let ended = run(&self.program, args, limit.saturating_add(OVERTIME)).await?;
        transcript.end(&ended, Utc::now()).await?;
        Ok(HelmFacts {
            args: words,
            exit: ended.exit,
            seconds: ended.took.as_secs_f64(),
            failure: failure_of(&ended),
            said: said(&ended),
            revision_before: None,
            revision_after: None,
            transcript: transcript.name(),
        })
    }
}

fn files_of(chart: &Chart) -> Files<'_> {
    Files {
        chart: chart.path(),
        values: chart.values_file(),
    }
}

fn failure_of(ended: &Ended) -> Option<HelmFailure> {
    match ended.exit {
        Some(0) => None,
        Some(_) if ended.stopped_after.is_none() => Some(failure::classify(&ended.stderr.text())),
        // Whatever it said last, it was made to end.
        Some(_) | None => Some(HelmFailure::Killed),
    }
}

fn said(ended: &Ended) -> Option<String> {
    if ended.exit == Some(0) {
        return None;
    }
    let complaint = failure::complaint(&ended.stderr.text());
    let Some(limit) = ended.stopped_after else {
        return complaint;
    };
    let stopped = format!(
        "stopped by aibom-qual: still running after {} s",
        limit.as_secs()
    );
    Some(match complaint {
        Some(complaint) => format!("{complaint} ({stopped})"),
        None => stopped,
    })
}

/// Runs what needs no cluster.
async fn local(
    program: &Program,
    verb: &'static str,
    args: Vec<OsString>,
) -> Result<Ended, HelmError> {
    let ended = run(program, args, LOCAL_LIMIT).await?;
    match ended.stopped_after {
        Some(limit) => Err(HelmError::TooSlow { verb, limit }),
        None => Ok(ended),
    }
}

async fn run(program: &Program, args: Vec<OsString>, limit: Duration) -> Result<Ended, HelmError> {
    let ended = program
        .run(args, limit)
        .await
        .map_err(|source| HelmError::Start {
            program: program.path.clone(),
            source,
        })?;
    // The launcher's words, not Helm's.
    let stderr = ended.stderr.text();
    match stderr.strip_prefix(CANNOT_EXECUTE_MARK) {
        Some(said) if ended.exit == Some(126) => Err(HelmError::NotAProgram {
            program: program.path.clone(),
            said: said
                .rsplit_once(": ")
                .map_or(said, |(_, said)| said)
                .trim()
                .to_owned(),
        }),
        _ => Ok(ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helm::process::Captured;

    fn ended(exit: Option<i32>, stopped: bool, stderr: &str) -> Ended {
        Ended {
            exit,
            signal: None,
            stdout: Captured::default(),
            stderr: Captured::whole(stderr.as_bytes()),
            took: Duration::ZERO,
            stopped_after: stopped.then_some(Duration::from_secs(330)),
        }
    }

    #[test]
    fn success_is_not_a_failure_whatever_was_warned_of() {
        let good = ended(Some(0), false, "level=WARN msg=\"connection refused\"\n");
        assert_eq!((failure_of(&good), said(&good)), (None, None));
    }

    #[test]
    fn a_process_that_was_made_to_end_is_killed_whatever_it_said() {
        let text = "Error: UPGRADE FAILED: context deadline exceeded\n";
        assert_eq!(
            failure_of(&ended(Some(1), false, text)),
            Some(HelmFailure::Timeout)
        );
        let stopped = ended(Some(1), true, text);
        assert_eq!(failure_of(&stopped), Some(HelmFailure::Killed));
        assert_eq!(
            said(&stopped).as_deref(),
            Some(
                "Error: UPGRADE FAILED: context deadline exceeded (stopped by aibom-qual: still \
                 running after 330 s)"
            )
        );
        let killed = ended(None, false, "");
        assert_eq!(
            (failure_of(&killed), said(&killed)),
            (Some(HelmFailure::Killed), None)
        );
    }
}
