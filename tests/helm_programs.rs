//! The library's Helm with the programs themselves, both majors: charts without a cluster, and moves on
//! a plane with its node.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aibom_qual::cluster::client::connect;
use aibom_qual::helm::records::{self, Record};
use aibom_qual::helm::{
    Chart, Helm, HelmError, HelmSettings, MoveOptions, ReleaseRef, Rendered, diff, embedded,
    identity,
};
use aibom_qual::host::launch::Launcher;
use aibom_qual::plane::binaries::{DEFAULT_KUBERNETES, Environment, Request, Sources, ensure};
use aibom_qual::plane::event::Silent;
use aibom_qual::plane::registry::Registry;
use aibom_qual::plane::tool::Tool;
use aibom_qual::record::{
    ApplyMethod, ChartRecord, HelmFacts, HelmFailure, HelmRevision, RevisionStatus, schema_sha256,
};
use aibom_qual::scenario::{ChartPlan, ChartSource, ValuesChoice};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use support::{EXE, World};

const LIMIT: Duration = Duration::from_secs(120);

/// The programs of both majors.
async fn programs(world: &World) -> [PathBuf; 2] {
    let tools = [Tool::Helm3, Tool::Helm4];
    let request = Request {
        tools: tools.to_vec(),
        kubernetes: DEFAULT_KUBERNETES,
        explicit: None,
        sources: Sources::new(Environment::from_process()),
    };
    let binaries = ensure(&world.dirs, &Launcher::new(EXE), &request, &Silent).await;
    let binaries = binaries.expect("both Helm majors");
    tools.map(|tool| binaries.get(tool).expect("it was asked for").path.clone())
}

async fn open(world: &World, program: &Path, kubeconfig: &Path) -> Result<Helm, HelmError> {
    let transcripts = world.path("logs");
    fs::create_dir_all(&transcripts).expect("a folder");
    let settings = HelmSettings {
        launcher: Launcher::new(EXE),
        kubeconfig: kubeconfig.to_owned(),
        context: None,
        home: world.path("helm-home"),
        transcripts,
        moves: MoveOptions::default(),
    };
    Helm::open(program, settings).await
}

async fn chart(world: &World, source: ChartSource, values: ValuesChoice) -> Chart {
    let plan = ChartPlan { source, values };
    let chart = Chart::open(&plan, &world.path("charts")).await;
    chart.expect("a chart")
}

fn embedded_chart(version: &str) -> ChartSource {
    ChartSource::Embedded {
        version: version.to_owned(),
    }
}

fn release() -> ReleaseRef {
    ReleaseRef {
        name: "k8s-aibom".to_owned(),
        namespace: "k8s-aibom-system".to_owned(),
    }
}

async fn rendered(helm: &Helm, chart: &Chart) -> (Rendered, ChartRecord) {
    let rendered = helm.template(&release(), chart).await.expect("it renders");
    let record = chart.record(&rendered).expect("a record");
    (rendered, record)
}

#[tokio::test(flavor = "multi_thread")]
async fn both_majors_make_the_same_of_every_chart() {
    let world = World::new();
    let [three, four] = programs(&world).await;
    let nowhere = world.path("no-cluster");
    let three = open(&world, &three, &nowhere).await.expect("Helm 3");
    let four = open(&world, &four, &nowhere).await.expect("Helm 4");
    assert_eq!((three.record().major, four.record().major), (3, 4));
    assert!(three.record().version.starts_with("v3."));

    let yes = world.path("yes.yaml");
    // To a reader of YAML 1.2 these are words.
    fs::write(&yes, "readiness:\n  strictConfig: yes\n").expect("written");
    for version in embedded::CHARTS.map(|chart| chart.version) {
        let plain = chart(&world, embedded_chart(version), ValuesChoice::ChartDefault).await;
        let aicr = chart(&world, embedded_chart(version), ValuesChoice::Aicr).await;
        let file = ValuesChoice::File { path: yes.clone() };
        let said_yes = chart(&world, embedded_chart(version), file).await;
        let (objects, record) = rendered(&three, &plain).await;
        assert_eq!(
            rendered(&four, &plain).await,
            (objects.clone(), record.clone())
        );
        assert_eq!(record.version, version);
        assert_eq!(objects.values["readiness"]["strictConfig"], json!(false));
        assert_eq!(objects.values.get("aibomQualValues"), None);
        assert!(
            record
                .image
                .starts_with("ghcr.io/googlecloudplatform/k8s-aibom")
        );
        assert_eq!(record.crds.len(), 2);
        assert!(record.objects.contains(&"ClusterRole k8s-aibom".to_owned()));

        for helm in [&three, &four] {
            let (strict, with_aicr) = rendered(helm, &aicr).await;
            let (_, with_yes) = rendered(helm, &said_yes).await;
            assert_eq!(with_aicr.values_sha256, with_yes.values_sha256, "{version}");
            assert_ne!(with_aicr.values_sha256, record.values_sha256, "{version}");
            let changed = diff(&objects.objects, &strict.objects).changed;
            assert_eq!(
                changed.keys().collect::<Vec<_>>(),
                ["Deployment k8s-aibom-system/k8s-aibom"]
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_helm_packages_is_the_same_chart() {
    let world = World::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/1.6.0");
    for program in programs(&world).await {
        let helm = open(&world, &program, &world.path("no-cluster")).await;
        let helm = helm.expect("Helm");
        let packaged = Command::new(&program)
            .args(["package", "--destination"])
            .arg(world.path("."))
            .arg(&folder)
            .env("HOME", world.path("home-of-package"))
            .output()
            .expect("helm starts");
        assert!(packaged.status.success(), "{packaged:?}");
        let path = world.path("k8s-aibom-1.6.0.tgz");
        let archive = chart(
            &world,
            ChartSource::Path { path },
            ValuesChoice::ChartDefault,
        )
        .await;
        let whole = chart(&world, embedded_chart("1.6.0"), ValuesChoice::ChartDefault).await;
        assert_eq!(archive.crds(), whole.crds());
        let (packed, plain) = (
            rendered(&helm, &archive).await,
            rendered(&helm, &whole).await,
        );
        assert_eq!(packed.0, plain.0);
        assert_ne!(packed.1.sha256, plain.1.sha256);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_that_refuses_to_render_is_told_in_its_words() {
    let world = World::new();
    let broken = world.path("broken");
    fs::create_dir_all(broken.join("templates")).expect("a folder");
    fs::write(
        broken.join("Chart.yaml"),
        "apiVersion: v2\nname: b\nversion: 1.0.0\n",
    )
    .expect("written");
    fs::write(broken.join("templates/a.yaml"), "{{ fail \"not today\" }}").expect("written");
    let broken = chart(
        &world,
        ChartSource::Path { path: broken },
        ValuesChoice::ChartDefault,
    )
    .await;
    for program in programs(&world).await {
        let helm = open(&world, &program, &world.path("no-cluster")).await;
        let error = helm.expect("Helm").template(&release(), &broken).await;
        let error = error.expect_err("it refuses");
        assert!(matches!(error, HelmError::Render { .. }), "{error}");
        assert!(error.to_string().contains("not today"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_helm_3_or_4_is_told() {
    let world = World::new();
    let script = |name: &str, text: &str| {
        let path = world.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
        path
    };
    let nowhere = world.path("no-cluster");
    let refused = async |program: &Path| {
        let error = open(&world, program, &nowhere).await;
        let error = error.expect_err("refused");
        assert!(error.hint().is_some(), "{error}");
        error
    };
    let old = refused(&script("old", "echo v2.17.0")).await;
    assert!(matches!(old, HelmError::UnknownMajor { .. }), "{old}");
    let other = refused(&script("other", "echo 'unknown verb' >&2; exit 1")).await;
    assert!(
        other.to_string().ends_with(r#"it said "unknown verb""#),
        "{other}"
    );
    let missing = refused(&world.path("missing")).await;
    assert!(
        matches!(missing, HelmError::NotAProgram { .. }),
        "{missing}"
    );
    assert!(missing.to_string().contains("No such file"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_are_told_by_their_facts_and_their_records() {
    let world = World::new();
    let programs = programs(&world).await;
    let mut owner = world.spawn(&["plane", "up"]);
    owner.until("press Ctrl-C");
    let plane = world.planes().pop().expect("a plane");
    let layout = Registry::new(world.dirs.planes()).layout(&plane);
    let kubeconfig = layout.expect("its folder").kubeconfig();
    let client = connect(&kubeconfig).await.expect("a client");
    for program in programs {
        let helm = open(&world, &program, &kubeconfig).await.expect("Helm");
        let new = chart(&world, embedded_chart("1.5.1"), ValuesChoice::Aicr).await;
        let old = chart(&world, embedded_chart("1.3.0"), ValuesChoice::ChartDefault).await;
        there_and_back(
            &Cluster {
                client: &client,
                helm: &helm,
            },
            &world,
            &old,
            &new,
        )
        .await;
    }
    owner.terminate();
    owner.finish().expect(0, &[]);
    world.assert_empty("at the end");
}

/// A cluster, and a Helm that sees it.
struct Cluster<'a> {
    client: &'a Client,
    helm: &'a Helm,
}

impl Cluster<'_> {
    async fn secrets(&self) -> Vec<Secret> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &release().namespace);
        api.list(&ListParams::default())
            .await
            .expect("a list")
            .items
    }

    async fn history(&self) -> Vec<HelmRevision> {
        let ReleaseRef { name, namespace } = release();
        let state = records::release(&name, &namespace, &self.secrets().await);
        state
            .expect("readable")
            .map_or_else(Vec::new, |state| state.history)
    }

    /// The revision of this number once it is no longer pending.
    async fn ended(&self, number: u32) -> HelmRevision {
        for _ in 0..100 {
            let newest = self.history().await.pop().expect("a revision");
            if newest.revision == number && !newest.status.is_pending() {
                return newest;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("revision {number} is still pending");
    }

    async fn newest(&self) -> Record {
        let ReleaseRef { name, namespace } = release();
        let record = records::newest(&name, &namespace, &self.secrets().await);
        record.expect("readable").expect("a release")
    }
}

fn good(facts: Result<HelmFacts, HelmError>) -> HelmFacts {
    let facts = facts.expect("helm runs");
    assert_eq!((facts.exit, facts.failure), (Some(0), None), "{facts:?}");
    assert_eq!(facts.said, None);
    facts
}

fn bad(facts: Result<HelmFacts, HelmError>, failure: HelmFailure) -> HelmFacts {
    let facts = facts.expect("helm runs");
    assert_eq!(
        (facts.exit, facts.failure),
        (Some(1), Some(failure)),
        "{facts:?}"
    );
    assert!(
        facts
            .said
            .as_deref()
            .is_some_and(|said| said.starts_with("Error: "))
    );
    facts
}

async fn there_and_back(cluster: &Cluster<'_>, world: &World, old: &Chart, new: &Chart) {
    let (helm, release) = (cluster.helm, release());
    bad(helm.uninstall(&release, LIMIT).await, HelmFailure::NotFound);
    assert_eq!(cluster.history().await, []);

    let facts = good(helm.install(&release, old, LIMIT).await);
    let transcript = fs::read_to_string(world.path(&facts.transcript)).expect("a transcript");
    assert!(
        transcript.starts_with("$ helm install k8s-aibom "),
        "{transcript}"
    );
    assert!(transcript.contains("exit: 0"), "{transcript}");
    let first = cluster.history().await.pop().expect("a revision");
    assert_eq!(
        (first.revision, first.status),
        (1, RevisionStatus::Deployed)
    );
    assert_eq!(first.description, "Install complete");
    assert_eq!(
        (first.chart_version.as_str(), first.app_version.as_str()),
        ("1.3.0", "v1.3.0")
    );
    let method = helm
        .capabilities()
        .server_side_apply
        .then_some(ApplyMethod::Ssa);
    assert_eq!(first.apply_method, method);
    assert_eq!(first.values_sha256, schema_sha256(&json!({})));
    assert!(first.last_deployed.is_some());

    let record = cluster.newest().await;
    assert_eq!(record.crds().expect("definitions"), old.crds());
    let (rendered, _) = rendered(helm, old).await;
    let names = |objects: &[_]| objects.iter().map(identity).collect::<BTreeSet<_>>();
    assert_eq!(
        names(&record.manifest().expect("a manifest")),
        names(&rendered.objects)
    );

    bad(
        helm.install(&release, old, LIMIT).await,
        HelmFailure::NameInUse,
    );
    good(helm.upgrade(&release, new, LIMIT).await);
    let strict = json!({"readiness": {"strictConfig": true}});
    assert_eq!(cluster.newest().await.values(), strict);
    // Without a file, Helm would go on with the values of the revision before.
    good(helm.upgrade(&release, old, LIMIT).await);
    assert_eq!(cluster.newest().await.values(), json!({}));
    good(helm.rollback(&release, NonZeroU32::new(2), LIMIT).await);
    bad(
        helm.rollback(&release, NonZeroU32::new(99), LIMIT).await,
        HelmFailure::NotFound,
    );
    // A rollout takes as long as the first look at the readiness of its pod. Whoever loses interest in
    // it leaves no release that is pending for ever (`helm-moves.md` C).
    let soon = Duration::from_secs(2);
    let upgrade = helm.upgrade(&release, old, LIMIT);
    assert!(tokio::time::timeout(soon, upgrade).await.is_err());
    let cancelled = cluster.ended(5).await;
    assert!(
        cancelled.description.ends_with("context canceled"),
        "{cancelled:?}"
    );
    let limit = Duration::from_secs(1);
    bad(
        helm.upgrade(&release, old, limit).await,
        HelmFailure::Timeout,
    );
    let history = cluster.history().await;
    let told: Vec<_> = history
        .iter()
        .map(|revision| {
            (
                revision.revision,
                revision.status,
                revision.chart_version.as_str(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (1, RevisionStatus::Superseded, "1.3.0"),
            (2, RevisionStatus::Superseded, "1.5.1"),
            (3, RevisionStatus::Superseded, "1.3.0"),
            (4, RevisionStatus::Deployed, "1.5.1"),
            (5, RevisionStatus::Failed, "1.3.0"),
            (6, RevisionStatus::Failed, "1.3.0"),
        ]
    );
    assert_eq!(history[3].description, "Rollback to 2");
    good(helm.uninstall(&release, LIMIT).await);
    assert_eq!(cluster.history().await, []);
}
