//! Processes of the embedded controller that cannot go on, or not yet: kinds that are not served, a
//! lease that another process holds.
//!
//! Two of them wait for two minutes, which is the behaviour under test; they do so at the same time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::definitions::apply;
use crate::process::{Process, until};
use crate::support::World;
use aibom_qual::cluster::client::connect;
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const NOT_READY: &str = "[-]cache-sync failed: reason withheld\nhealthz check failed\n";
const LEASE: &str = "k8s-aibom.aibom.k8saibom.dev";
const LEADS: &str = "leader_election_master_status{name=\"k8s-aibom.aibom.k8saibom.dev\"}";

async fn plane(world: &World) -> (Plane, Client) {
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    (plane, client)
}

/// Looks at a process until it is gone: every different answer of `/readyz`, its requests as last seen,
/// and how long it lived. `/healthz` has to be content all the time.
async fn watched(process: &Process) -> (Vec<(u16, String)>, BTreeMap<String, u64>, Duration) {
    let begun = Instant::now();
    let (mut answers, mut requests) = (Vec::new(), BTreeMap::new());
    loop {
        assert!(begun.elapsed() < Duration::from_secs(180), "it lives on");
        let Some(answer) = process.health("/readyz").await else {
            if answers.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            return (answers, requests, begun.elapsed());
        };
        if !answers.contains(&answer) {
            answers.push(answer);
        }
        if let Some((status, text)) = process.health("/healthz").await {
            assert_eq!((status, text.as_str()), (200, "ok"));
        }
        let now = process.requests().await;
        if !now.is_empty() {
            requests = now;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// The lines of a log.
fn lines(log: &str) -> Vec<Value> {
    let lines = log.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

/// What the log has to tell of kinds that are not served in this version.
fn assert_complaints(log: &str, version: &str) {
    let lines = lines(log);
    let complaints = |kind: &str| {
        let fits = |line: &&Value| {
            **line
                == json!({
                    "level": "error",
                    "ts": line["ts"],
                    "logger": "controller-runtime.source.Kind",
                    "msg": "if kind is a CRD, it should be installed before calling Start",
                    "kind": format!("{kind}.aibom.k8saibom.dev"),
                    "error": format!(
                        "no matches for kind \"{kind}\" in version \"aibom.k8saibom.dev/{version}\""
                    ),
                })
        };
        lines.iter().filter(fits).count()
    };
    // Every ten seconds for two minutes, by the one controller of the configuration and by the four
    // whose AIBOMs it would be.
    let rounds = complaints("AIBOMControllerConfig");
    assert!((11..=13).contains(&rounds), "{rounds}: {log}");
    let all = complaints("AIBOM");
    assert!((44..=52).contains(&all) && all % 4 == 0, "{all}: {log}");

    let gave_up = |line: &&Value| line["msg"] == "Could not wait for Cache to sync";
    assert!(lines.iter().any(|line| gave_up(&line)), "{log}");
    let last = lines.last().expect("a line");
    assert_eq!(
        (&last["level"], &last["logger"], &last["msg"]),
        (
            &json!("error"),
            &json!("setup"),
            &json!("manager exited with error")
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_latch_calls_a_process_ready_that_cannot_work() {
    let world = World::new();
    let (plane, _) = plane(&world).await;
    let process = Process::start(&world, &plane.kubeconfig(), "1.2.0", &[], None);
    let (answers, requests, lived) = watched(&process).await;
    let finished = process.ended();
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(answers.contains(&(200, "ok".to_owned())), "{answers:?}");
    assert!(lived >= Duration::from_secs(119), "{lived:?}");
    let methods: Vec<_> = requests.keys().map(String::as_str).collect();
    assert_eq!(methods, ["GET"]);
    assert_complaints(&finished.stderr, "v1alpha1");
    plane.stop().await.expect("the plane stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_older_definitions_a_process_is_never_ready_and_a_leader_is_elected_meanwhile() {
    let world = World::new();
    let (plane, client) = plane(&world).await;
    apply(&client, "1.2.0").await.expect("they are accepted");
    let kubeconfig = plane.kubeconfig();
    tokio::join!(
        never_ready(&world, &kubeconfig, &client),
        elected(&world, &kubeconfig, &client),
    );
    plane.stop().await.expect("the plane stops");
}

async fn never_ready(world: &World, kubeconfig: &Path, client: &Client) {
    let pod = Some(("default", "waiting"));
    let process = Process::start(world, kubeconfig, "1.3.0", &[], pod);
    let (answers, requests, lived) = watched(&process).await;
    let finished = process.ended();
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert_eq!(answers, [(500, NOT_READY.to_owned())]);
    assert!(lived >= Duration::from_secs(119), "{lived:?}");
    assert_complaints(&finished.stderr, "v1beta1");

    let writes: Vec<_> = requests.iter().filter(|(key, _)| *key != "GET").collect();
    assert_eq!(writes, [(&"POST".to_owned(), &1)]);
    let told = events(client, "waiting").await;
    let message = "k8s-aibom controller starting; version=v1.3.0";
    assert_eq!(
        told,
        [("ControllerStarting".to_owned(), message.to_owned())]
    );
}

/// Reasons and messages of the events about an object of this name.
async fn events(client: &Client, name: &str) -> Vec<(String, String)> {
    let api = Api::<Event>::namespaced(client.clone(), "default");
    let all = api.list(&ListParams::default()).await.expect("a list");
    let about = |event: &Event| event.involved_object.name.as_deref() == Some(name);
    let told = all.items.into_iter().filter(about).map(|event| {
        let message = event.message.unwrap_or_default();
        (event.reason.unwrap_or_default(), message)
    });
    told.collect()
}

async fn lease(client: &Client) -> LeaseSpec {
    let api = Api::<Lease>::namespaced(client.clone(), "default");
    let lease = api.get(LEASE).await.expect("a lease");
    lease.spec.expect("a spec")
}

async fn leads(process: &Process, wanted: f64) {
    let what = format!("{LEADS} {wanted}");
    let series = async || process.series().await.get(LEADS).copied();
    until(&what, series, |value| *value == Some(wanted)).await;
}

async fn elected(world: &World, kubeconfig: &Path, client: &Client) {
    let elect = ["--leader-elect"];
    let homeless = Process::start(world, kubeconfig, "1.2.0", &elect, None);
    let finished = homeless.ended();
    finished.expect(1, &["unable to find leader election namespace"]);

    let arguments = [
        "--leader-elect",
        "--zap-devel",
        "--zap-log-level=debug",
        "--zap-time-encoding=iso8601",
    ];
    let pod = |name| Some(("default", name));
    let first = Process::start(world, kubeconfig, "1.2.0", &arguments, pod("first"));
    leads(&first, 1.0).await;
    let spec = lease(client).await;
    assert_eq!(
        (spec.lease_duration_seconds, spec.lease_transitions),
        (Some(15), Some(0))
    );
    let holder = spec.holder_identity.expect("a holder");
    let told = events(client, LEASE).await;
    let leads_now = (
        "LeaderElection".to_owned(),
        format!("{holder} became leader"),
    );
    assert_eq!(told, [leads_now]);

    // The second one serves, watches nothing and waits.
    let mut second = Process::start(world, kubeconfig, "1.2.0", &elect, pod("second"));
    leads(&second, 0.0).await;
    let ready = async || second.health("/readyz").await;
    let is_ready = |answer: &Option<(u16, String)>| *answer == Some((200, "ok".to_owned()));
    until("the second one is ready", ready, is_ready).await;
    let series = second.series().await;
    let controllers = "controller_runtime_max_concurrent_reconciles{controller=\"deployment\"}";
    assert!(!series.contains_key(controllers), "{series:?}");

    // A third party takes the lease, and does not renew it.
    let api = Api::<Lease>::namespaced(client.clone(), "default");
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
    let patched = api.patch(LEASE, &PatchParams::default(), &taken).await;
    patched.expect("it is taken");
    let lost = first.ended();
    lost.expect(1, &["\tERROR\tsetup\tmanager exited with error\t"]);
    lost.expect(
        1,
        &[
            "leader election lost",
            "Z\tDEBUG\tevents\t",
            "\tStarting workers\t",
        ],
    );
    assert!(!lost.stderr.contains("{\"level\""), "{}", lost.stderr);

    leads(&second, 1.0).await;
    second.owner.until("\"msg\":\"Starting workers\"");
    let spec = lease(client).await;
    let next = spec.holder_identity.expect("a holder");
    assert_ne!(next, holder);
    assert_eq!(spec.lease_transitions, Some(1));
    let log = second.stop();
    let kept = lease(client).await.holder_identity;
    assert_eq!(kept, Some(next), "it is not given up: {log}");
}
