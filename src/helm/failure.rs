//! Why Helm failed, as far as its words tell: every failure has the exit code 1 (`prior-art.md` 1.4).

use crate::record::HelmFailure;

/// The longest complaint that is kept, in bytes.
const LONGEST: usize = 4096;

/// Words by which a failure is known, most telling first: a message may hold several of them. The texts
/// of both majors are told apart by themselves. Sources: `helm-moves.md`, `prior-art.md` 1.4.
const WORDS: &[(&str, HelmFailure)] = &[
    ("unknown flag", HelmFailure::UnknownFlag),
    ("unknown shorthand flag", HelmFailure::UnknownFlag),
    (
        "another operation (install/upgrade/rollback) is in progress",
        HelmFailure::PendingLock,
    ),
    (
        "cannot re-use a name that is still in use",
        HelmFailure::NameInUse,
    ),
    (
        "cannot reuse a name that is still in use",
        HelmFailure::NameInUse,
    ),
    // A chart that refuses to render does so in any words.
    ("execution error at (", HelmFailure::Render),
    ("has been cancelled", HelmFailure::Killed),
    ("context canceled", HelmFailure::Killed),
    ("conflict occurred while applying", HelmFailure::Conflict),
    ("Apply failed with ", HelmFailure::Conflict),
    ("Progress deadline exceeded", HelmFailure::ProgressDeadline),
    ("release: not found", HelmFailure::NotFound),
    ("has no deployed releases", HelmFailure::NotFound),
    ("no matches for kind", HelmFailure::MissingCrd),
    ("ensure CRDs are installed first", HelmFailure::MissingCrd),
    (
        "could not find the requested resource",
        HelmFailure::MissingCrd,
    ),
    (" is forbidden: ", HelmFailure::Forbidden),
    (
        "You must be logged in to the server",
        HelmFailure::Forbidden,
    ),
    (" is invalid: ", HelmFailure::Invalid),
    ("field not declared in schema", HelmFailure::Invalid),
    ("unknown field ", HelmFailure::Invalid),
    ("template: ", HelmFailure::Render),
    ("parse error at (", HelmFailure::Render),
    ("YAML parse error on ", HelmFailure::Render),
    ("error converting YAML to JSON", HelmFailure::Render),
    (
        "values don't meet the specifications of the schema",
        HelmFailure::Render,
    ),
    ("Chart.yaml file is missing", HelmFailure::Render),
    ("Kubernetes cluster unreachable", HelmFailure::Unreachable),
    ("connection refused", HelmFailure::Unreachable),
    ("no such host", HelmFailure::Unreachable),
    ("i/o timeout", HelmFailure::Unreachable),
    ("TLS handshake timeout", HelmFailure::Unreachable),
    ("context deadline exceeded", HelmFailure::Timeout),
    ("timed out waiting for the condition", HelmFailure::Timeout),
];

/// The kind of a failure, from what Helm wrote to its standard error.
#[must_use]
pub fn classify(stderr: &str) -> HelmFailure {
    let complaint = error_text(stderr);
    if is_missing_revision(complaint) {
        return HelmFailure::NotFound;
    }
    let known = WORDS.iter().find(|(words, _)| complaint.contains(words));
    known.map_or(HelmFailure::Other, |(_, failure)| *failure)
}

/// What Helm complained about last, on one line: what follows the last `Error: `, or the last line when
/// there is none; [`None`] when it said nothing.
#[must_use]
pub fn complaint(stderr: &str) -> Option<String> {
    let text = error_text(stderr);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let words = if text.starts_with(ERROR) {
        lines.join("; ")
    } else {
        (*lines.last()?).to_owned()
    };
    let end = words.floor_char_boundary(LONGEST);
    Some(words[..end].to_owned())
}

const ERROR: &str = "Error: ";

/// From the last line that begins with `Error: ` to the end; warnings and log lines come before it.
fn error_text(stderr: &str) -> &str {
    let start = stderr.rfind(&format!("\n{ERROR}")).map(|before| before + 1);
    start.map_or(stderr, |start| &stderr[start..]).trim()
}

/// `release has no 0 version`.
fn is_missing_revision(complaint: &str) -> bool {
    complaint.split("has no ").skip(1).any(|rest| {
        let number = rest.split_once(" version").map(|(number, _)| number);
        number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text of `helm-moves.md` and of the table in `prior-art.md` 1.4.
    const QUOTED: &[(&str, HelmFailure)] = &[
        // helm-moves.md B, B2.
        (
            "Error: UPGRADE FAILED: resource Deployment/k8s-aibom-system/k8s-aibom not ready. status: InProgress, message: Pending termination: 1\ncontext deadline exceeded\n",
            HelmFailure::Timeout,
        ),
        (
            "Error: UPGRADE FAILED: resource Deployment/k8s-aibom-system/k8s-aibom not ready. status: Failed, message: Progress deadline exceeded\n",
            HelmFailure::ProgressDeadline,
        ),
        (
            "Error: UPGRADE FAILED: context deadline exceeded\n",
            HelmFailure::Timeout,
        ),
        (
            "Error: UPGRADE FAILED: release k8s-aibom failed, and has been rolled back due to rollback-on-failure being set: resource Deployment/k8s-aibom-system/k8s-aibom not ready. status: Failed, message: Progress deadline exceeded\n",
            HelmFailure::ProgressDeadline,
        ),
        (
            "Error: UPGRADE FAILED: release k8s-aibom failed, and has been rolled back due to atomic being set: context deadline exceeded\n",
            HelmFailure::Timeout,
        ),
        (
            "Apply failed with 1 conflict: conflict with \"helm\": .spec.versions\n",
            HelmFailure::Conflict,
        ),
        (
            "The CustomResourceDefinition \"aiboms.aibom.k8saibom.dev\" is invalid: status.storedVersions[1]: Invalid value: \"v1beta1\": missing from spec.versions; v1beta1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1beta1 and removes v1beta1 from status.storedVersions\n",
            HelmFailure::Invalid,
        ),
        // helm-moves.md C.
        (
            "Error: unknown shorthand flag: 'a' in -a\n",
            HelmFailure::UnknownFlag,
        ),
        (
            "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress\n",
            HelmFailure::PendingLock,
        ),
        (
            "Release k8s-aibom has been cancelled.\nError: UPGRADE FAILED: context canceled\n",
            HelmFailure::Killed,
        ),
        (
            "level=WARN msg=\"upgrade failed\" name=k8s-aibom error=\"context canceled\"\nRelease k8s-aibom has been cancelled.\nError: UPGRADE FAILED: context canceled\n",
            HelmFailure::Killed,
        ),
        (
            "Error: INSTALLATION FAILED: cannot re-use a name that is still in use\n",
            HelmFailure::NameInUse,
        ),
        (
            "Error: INSTALLATION FAILED: release name check failed: cannot reuse a name that is still in use\n",
            HelmFailure::NameInUse,
        ),
        ("Error: release has no 0 version\n", HelmFailure::NotFound),
        // helm-moves.md D.
        ("Error: release has no 1 version\n", HelmFailure::NotFound),
        (
            "level=WARN msg=\"upgrade failed\"\nError: UPGRADE FAILED: conflict occurred while applying object k8s-aibom-system/k8s-aibom apps/v1, Kind=Deployment: Apply failed with 1 conflict: conflict with \"kubectl\" with subresource \"scale\" using apps/v1: .spec.replicas\n",
            HelmFailure::Conflict,
        ),
        (
            "Error: UPGRADE FAILED: conflict occurred while applying object k8s-aibom-system/k8s-aibom apps/v1, Kind=Deployment: Apply failed with 1 conflict: conflict with \"kubectl-set\" using apps/v1: .spec.template.spec.containers[name=\"manager\"].image && conflict occurred while applying object /default aibom.k8saibom.dev/v1alpha1, Kind=AIBOMControllerConfig: Apply failed with 1 conflict: conflict with \"kubectl-patch\" using aibom.k8saibom.dev/v1beta1: .spec.bomGeneration.staleThresholdReconciles\n",
            HelmFailure::Conflict,
        ),
        (
            "Error: UPGRADE FAILED: conflict occurred while applying object k8s-aibom-system/k8s-aibom apps/v1, Kind=Deployment: Apply failed with 1 conflict: conflict with \"kubectl-label\" using apps/v1: .metadata.labels.app.kubernetes.io/version\n",
            HelmFailure::Conflict,
        ),
        (
            "level=WARN msg=\"Rollback \\\"k8s-aibom\\\" failed: conflict\"\nError: conflict occurred while applying object k8s-aibom-system/k8s-aibom apps/v1, Kind=Deployment: Apply failed with 1 conflict: conflict with \"kubectl-set\" using apps/v1: .spec.template.spec.containers[name=\"manager\"].image\n",
            HelmFailure::Conflict,
        ),
        // prior-art.md 1.4.
        (
            "Error: unknown flag: --server-side\n",
            HelmFailure::UnknownFlag,
        ),
        (
            "Error: INSTALLATION FAILED: create: failed to create: secrets \"sh.helm.release.v1.k8s-aibom.v1\" is forbidden: unable to create new content in namespace k8s-aibom-system because it is being terminated\n",
            HelmFailure::Forbidden,
        ),
        (
            "Error: UPGRADE FAILED: unable to build kubernetes objects from new release manifest: resource mapping not found for name: \"default\" namespace: \"\" from \"\": no matches for kind \"AIBOMControllerConfig\" in version \"aibom.k8saibom.dev/v1beta1\"\nensure CRDs are installed first\n",
            HelmFailure::MissingCrd,
        ),
    ];

    #[test]
    fn every_quoted_text_is_known() {
        for (text, failure) in QUOTED {
            assert_eq!(classify(text), *failure, "{text}");
        }
    }

    #[test]
    fn others_are_known_by_their_words() {
        for (text, failure) in [
            (
                "Error: uninstall: Release not loaded: k8s-aibom: release: not found",
                HelmFailure::NotFound,
            ),
            (
                "Error: UPGRADE FAILED: \"k8s-aibom\" has no deployed releases",
                HelmFailure::NotFound,
            ),
            (
                "Error: INSTALLATION FAILED: Kubernetes cluster unreachable: Get \"https://127.0.0.1:1/version\": dial tcp 127.0.0.1:1: connect: connection refused",
                HelmFailure::Unreachable,
            ),
            (
                "Error: Kubernetes cluster unreachable: Get \"https://10.0.0.1/version\": context deadline exceeded",
                HelmFailure::Unreachable,
            ),
            (
                "Error: execution error at (k8s-aibom/templates/config.yaml:3:4): the served definition does not have spec.verification",
                HelmFailure::Render,
            ),
            (
                "Error: UPGRADE FAILED: failed to create typed patch object (/default; aibom.k8saibom.dev/v1beta1, Kind=AIBOMControllerConfig): .spec.verification: field not declared in schema",
                HelmFailure::Invalid,
            ),
            (
                "Error: timed out waiting for the condition",
                HelmFailure::Timeout,
            ),
            ("Error: it has no good version of that", HelmFailure::Other),
            ("", HelmFailure::Other),
        ] {
            assert_eq!(classify(text), failure, "{text}");
        }
    }

    #[test]
    fn only_the_error_counts_and_not_what_was_logged_before() {
        let text = "level=WARN msg=\"connection refused, again\"\nError: UPGRADE FAILED: context deadline exceeded\n";
        assert_eq!(classify(text), HelmFailure::Timeout);
    }

    #[test]
    fn the_complaint_is_one_line() {
        let said = |text: &str| complaint(text);
        assert_eq!(
            said(
                "level=WARN msg=x\nError: UPGRADE FAILED: not ready: 1\ncontext deadline exceeded\n"
            )
            .as_deref(),
            Some("Error: UPGRADE FAILED: not ready: 1; context deadline exceeded")
        );
        assert_eq!(said("first\nlast\n\n").as_deref(), Some("last"));
        assert_eq!(said("\n"), None);
        let long = format!("Error: {}", "ä".repeat(LONGEST));
        let kept = said(&long).expect("words");
        assert!(kept.len() <= LONGEST && kept.ends_with('ä'));
    }
}
