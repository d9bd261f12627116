//! The arguments of each verb of Helm.
//!
//! Every move waits and keeps the whole history: with Helm's own limit of ten revisions, a plan with
//! more moves could not go back to its first one (`helm-moves.md` D). Values are always those of the
//! chart and the file at hand. An upgrade without `--reset-values` and without a file would silently
//! keep the values of the revision before.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use super::capability::{Capabilities, Unsupported};
use super::program::ReleaseRef;
use crate::record::ApplyMethod;

/// How moves are made, where that is not Helm's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveOptions {
    /// The apply method; Helm's own choice when [`None`]: server-side for an install with Helm 4, and
    /// that of the previous revision afterwards (`helm-moves.md` X). Helm 3 knows only
    /// [`ApplyMethod::Csa`].
    pub apply: Option<ApplyMethod>,
    /// Takes fields over from other managers. Helm 4 only.
    pub force_conflicts: bool,
    /// Rolls a failed install or upgrade back.
    pub roll_back_on_failure: bool,
}

/// The files that Helm installs from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Files<'a> {
    pub(super) chart: &'a Path,
    pub(super) values: Option<&'a Path>,
}

/// Makes the arguments of one Helm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arguments<'a> {
    pub(super) capabilities: &'static Capabilities,
    pub(super) context: Option<&'a str>,
    pub(super) moves: MoveOptions,
}

impl Arguments<'_> {
    pub(super) fn install(
        &self,
        release: &ReleaseRef,
        files: Files<'_>,
        limit: Duration,
    ) -> Result<Vec<OsString>, Unsupported> {
        let mut args = words(["install", &release.name]);
        args.push(files.chart.into());
        args.extend(values(files));
        args.extend(words(["--create-namespace", "--hide-notes"]));
        args.extend(self.applying()?);
        args.extend(self.rolling_back());
        args.extend(self.waiting(release, limit));
        Ok(args)
    }

    pub(super) fn upgrade(
        &self,
        release: &ReleaseRef,
        files: Files<'_>,
        limit: Duration,
    ) -> Result<Vec<OsString>, Unsupported> {
        let mut args = words(["upgrade", &release.name]);
        args.push(files.chart.into());
        args.extend(values(files));
        args.extend(words(["--reset-values", "--history-max=0", "--hide-notes"]));
        args.extend(self.applying()?);
        args.extend(self.rolling_back());
        args.extend(self.waiting(release, limit));
        Ok(args)
    }

    pub(super) fn rollback(
        &self,
        release: &ReleaseRef,
        revision: Option<NonZeroU32>,
        limit: Duration,
    ) -> Result<Vec<OsString>, Unsupported> {
        let mut args = words(["rollback", &release.name]);
        args.extend(revision.map(|number| number.to_string().into()));
        args.extend(words(["--history-max=0"]));
        args.extend(self.applying()?);
        args.extend(self.waiting(release, limit));
        Ok(args)
    }

    pub(super) fn uninstall(&self, release: &ReleaseRef, limit: Duration) -> Vec<OsString> {
        let mut args = words(["uninstall", &release.name]);
        args.extend(self.waiting(release, limit));
        args
    }

    fn applying(&self) -> Result<Vec<OsString>, Unsupported> {
        let unsupported = |flag| Unsupported {
            major: self.capabilities.major,
            flag,
        };
        let mut args = Vec::new();
        if self.capabilities.server_side_apply {
            args.extend(self.moves.apply.map(|method| match method {
                ApplyMethod::Ssa => "--server-side=true".into(),
                ApplyMethod::Csa => "--server-side=false".into(),
            }));
            if self.moves.force_conflicts {
                args.push("--force-conflicts".into());
            }
        } else if self.moves.apply == Some(ApplyMethod::Ssa) {
            return Err(unsupported("--server-side"));
        } else if self.moves.force_conflicts {
            return Err(unsupported("--force-conflicts"));
        }
        Ok(args)
    }

    fn rolling_back(&self) -> Option<OsString> {
        let wanted = self.moves.roll_back_on_failure;
        wanted.then(|| self.capabilities.roll_back_on_failure.into())
    }

    fn waiting(&self, release: &ReleaseRef, limit: Duration) -> Vec<OsString> {
        let mut args = words([
            self.capabilities.wait,
            &format!("--timeout={}", go_duration(limit)),
            &format!("--namespace={}", release.namespace),
        ]);
        args.extend(self.in_context());
        args
    }

    fn in_context(&self) -> Option<OsString> {
        let context = self.context?;
        Some(format!("--kube-context={context}").into())
    }
}

/// Renders without a cluster; only this file of the templates, if one is named.
pub(super) fn template(
    release: &ReleaseRef,
    files: Files<'_>,
    only: Option<&str>,
) -> Vec<OsString> {
    let mut args = words(["template", &release.name]);
    args.push(files.chart.into());
    args.extend(values(files));
    args.extend(only.map(|file| format!("--show-only={file}").into()));
    args.push(format!("--namespace={}", release.namespace).into());
    args
}

fn values(files: Files<'_>) -> Option<OsString> {
    let mut flag = OsString::from("--values=");
    flag.push(files.values?);
    Some(flag)
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}

/// A duration as Go reads it.
fn go_duration(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        format!("{}s", limit.as_secs())
    } else {
        format!("{}ms", limit.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helm::capability::Major;

    const LIMIT: Duration = Duration::from_secs(300);

    fn release() -> ReleaseRef {
        ReleaseRef {
            name: "k8s-aibom".to_owned(),
            namespace: "k8s-aibom-system".to_owned(),
        }
    }

    fn arguments(major: Major, moves: MoveOptions) -> Arguments<'static> {
        Arguments {
            capabilities: major.capabilities(),
            context: None,
            moves,
        }
    }

    fn line(args: Vec<OsString>) -> String {
        let words: Vec<String> = args
            .into_iter()
            .map(|word| word.into_string().expect("text"))
            .collect();
        words.join(" ")
    }

    fn files(values: Option<&str>) -> Files<'_> {
        Files {
            chart: Path::new("/w/chart"),
            values: values.map(Path::new),
        }
    }

    #[test]
    fn each_verb_in_both_majors() {
        for (major, wait) in [(Major::Three, "--wait"), (Major::Four, "--wait=watcher")] {
            let made = arguments(major, MoveOptions::default());
            let end = format!("{wait} --timeout=300s --namespace=k8s-aibom-system");
            let install = made.install(&release(), files(Some("/w/v.yaml")), LIMIT);
            assert_eq!(
                line(install.expect("supported")),
                format!(
                    "install k8s-aibom /w/chart --values=/w/v.yaml --create-namespace --hide-notes {end}"
                )
            );
            let upgrade = made.upgrade(&release(), files(None), LIMIT);
            assert_eq!(
                line(upgrade.expect("supported")),
                format!(
                    "upgrade k8s-aibom /w/chart --reset-values --history-max=0 --hide-notes {end}"
                )
            );
            let rollback = made.rollback(&release(), NonZeroU32::new(1), LIMIT);
            assert_eq!(
                line(rollback.expect("supported")),
                format!("rollback k8s-aibom 1 --history-max=0 {end}")
            );
            let back = made.rollback(&release(), None, LIMIT);
            assert_eq!(
                line(back.expect("supported")),
                format!("rollback k8s-aibom --history-max=0 {end}")
            );
            let uninstall = made.uninstall(&release(), LIMIT);
            assert_eq!(line(uninstall), format!("uninstall k8s-aibom {end}"));
        }
    }

    #[test]
    fn a_context_is_named_when_it_was_chosen() {
        let made = Arguments {
            context: Some("kind-a"),
            ..arguments(Major::Four, MoveOptions::default())
        };
        let args = line(made.uninstall(&release(), LIMIT));
        assert!(args.ends_with(" --kube-context=kind-a"), "{args}");
    }

    #[test]
    fn options_are_told_in_the_words_of_the_major_or_refused() {
        let upgrade = |major, moves| {
            let made = arguments(major, moves);
            made.upgrade(&release(), files(None), LIMIT).map(line)
        };
        let back = MoveOptions {
            roll_back_on_failure: true,
            ..MoveOptions::default()
        };
        let force = MoveOptions {
            force_conflicts: true,
            ..MoveOptions::default()
        };
        let apply = |method| MoveOptions {
            apply: Some(method),
            ..MoveOptions::default()
        };
        for (major, moves, expected) in [
            (Major::Three, back, Ok(" --atomic ")),
            (Major::Four, back, Ok(" --rollback-on-failure ")),
            (Major::Three, force, Err("--force-conflicts")),
            (Major::Four, force, Ok(" --force-conflicts ")),
            (
                Major::Three,
                apply(ApplyMethod::Csa),
                Ok(" --hide-notes --wait "),
            ),
            (Major::Three, apply(ApplyMethod::Ssa), Err("--server-side")),
            (
                Major::Four,
                apply(ApplyMethod::Csa),
                Ok(" --server-side=false "),
            ),
            (
                Major::Four,
                apply(ApplyMethod::Ssa),
                Ok(" --server-side=true "),
            ),
        ] {
            match (upgrade(major, moves), expected) {
                (Ok(args), Ok(part)) => assert!(args.contains(part), "{major} {moves:?}: {args}"),
                (result, expected) => assert_eq!(
                    result.map_err(|error| error.flag),
                    expected.map(str::to_owned),
                    "{major} {moves:?}"
                ),
            }
        }
    }

    #[test]
    fn a_rollback_is_not_rolled_back() {
        let moves = MoveOptions {
            roll_back_on_failure: true,
            force_conflicts: true,
            apply: None,
        };
        let args = arguments(Major::Four, moves).rollback(&release(), None, LIMIT);
        let args = line(args.expect("supported"));
        assert!(args.contains("--force-conflicts"), "{args}");
        assert!(!args.contains("--rollback-on-failure"), "{args}");
    }

    #[test]
    fn a_template_may_be_rendered_alone() {
        assert_eq!(
            line(template(&release(), files(None), Some("templates/a.yaml"))),
            "template k8s-aibom /w/chart --show-only=templates/a.yaml --namespace=k8s-aibom-system"
        );
    }

    #[test]
    fn durations_are_those_of_go() {
        assert_eq!(go_duration(Duration::from_secs(90)), "90s");
        assert_eq!(go_duration(Duration::from_millis(1_500)), "1500ms");
    }
}
