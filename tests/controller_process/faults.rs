//! The embedded controller against an API server that refuses, loses, cuts and ends: no workload goes
//! without its AIBOM, none has two, and every attempt counts.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::controller::{Controller, Requests, Scrape, requests, since};
use crate::definitions::apply;
use crate::proxy::{Fault, Interruption, Proxy, Rule, Verb};
use crate::support::{Owner, World, eventually, signal};
use crate::workloads::{
    IMAGE_ONLY, LLAMA, aiboms, complete, condition, create, document, listed, llama, llama_args,
    namespace, of_each, opt, settled,
};
use aibom_qual::cluster::client::connect;
use aibom_qual::controller::api::object::{AibomObject, resource};
use aibom_qual::controller::api::release::{ApiKind, ApiVersion};
use aibom_qual::plane::Plane;
use aibom_qual::plane::event::Silent;
use aibom_qual::plane::tool::Tool;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rustix::process::Signal;
use serde_json::{Value, json};

const COUNT: usize = 30;
const AIBOMS: &str = "aiboms";

fn name(index: usize) -> String {
    format!("model-{index:02}")
}

async fn plane(world: &World) -> (Plane, Client) {
    let plane = Plane::start(&world.throw_away(), Arc::new(Silent)).await;
    let plane = plane.expect("a plane");
    let client = connect(&plane.kubeconfig()).await.expect("a client");
    apply(&client, "1.3.0").await.expect("they are accepted");
    (plane, client)
}

/// One controller behind a proxy, which goes through fault after fault.
struct Stage {
    client: Client,
    proxy: Proxy,
    controller: Controller,
    /// Where its requests begin on the proxy's record.
    begin: usize,
}

/// What the controller counted over a scenario.
#[derive(Debug)]
struct Counted {
    requests: Requests,
    errors: u64,
    requeues: u64,
    persist_failures: u64,
}

impl Counted {
    fn of(&self, key: &str) -> u64 {
        self.requests.get(key).copied().unwrap_or_default()
    }
}

/// The numbers before a scenario.
struct Before(Scrape, Requests);

fn numbers(scrape: &Scrape) -> [u64; 3] {
    let result = |result: &str| {
        let labels = [("controller", "deployment"), ("result", result)];
        scrape.sum("controller_runtime_reconcile_total", &labels)
    };
    let failures = scrape.sum("aibom_status_persist_failures_total", &[]);
    [result("error"), result("requeue"), failures]
}

impl Stage {
    async fn new(world: &World, client: &Client) -> Self {
        let proxy = Proxy::start(client.clone()).await;
        let controller = Controller::start(world, &proxy.kubeconfig(world), "1.3.0").await;
        Self {
            client: client.clone(),
            proxy,
            controller,
            begin: 0,
        }
    }

    /// The same behind the same proxy, with another process.
    async fn again(self, world: &World, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.controller.stop();
        let begin = self.proxy.mark();
        self.proxy.inject(rules);
        let kubeconfig = self.proxy.kubeconfig(world);
        let controller = Controller::start(world, &kubeconfig, "1.3.0").await;
        Self {
            controller,
            begin,
            ..self
        }
    }

    /// The controller rests at the end of every scenario.
    async fn before(&self) -> Before {
        let scrape = self.controller.scrape().await;
        let requests = scrape.requests();
        Before(scrape, requests)
    }

    /// Waits for rest, and checks that the controller counted exactly what the proxy saw.
    async fn counted(&self, before: &Before) -> Counted {
        let requests = self.controller.quiet().await;
        assert_eq!(self.proxy.pending(), 0, "every fault happened");
        assert_eq!(requests, self.proxy.requests(self.begin));
        let scrape = self.controller.scrape().await;
        let panics = scrape.sum("controller_runtime_reconcile_panics_total", &[]);
        assert_eq!(panics, 0);
        let [then, now] = [numbers(&before.0), numbers(&scrape)];
        let [errors, requeues, persist_failures] = [0, 1, 2].map(|index| now[index] - then[index]);
        Counted {
            requests: since(&before.1, &requests),
            errors,
            requeues,
            persist_failures,
        }
    }

    fn aiboms(&self, namespace: &str) -> Api<AibomObject> {
        aiboms(&self.client, ApiVersion::V1Beta1, namespace)
    }

    async fn add(&self, namespace: &str, indices: std::ops::Range<usize>) {
        for index in indices {
            create(&self.client, namespace, &llama(&name(index))).await;
        }
    }

    /// New workloads in a namespace of their own, whose AIBOMs are written under these faults.
    async fn load(
        &self,
        name: &str,
        rules: impl IntoIterator<Item = Rule>,
    ) -> (Documents, Counted) {
        let before = self.before().await;
        self.proxy
            .inject(rules.into_iter().map(|rule| rule.within(name)));
        namespace(&self.client, name, true).await;
        self.add(name, 0..COUNT).await;
        complete(&self.aiboms(name), COUNT, LLAMA).await;
        let counted = self.counted(&before).await;
        eprintln!("{name}: {counted:?}");
        assert_eq!(counted.of("POST 201"), COUNT as u64, "{name}");
        (documents(&self.aiboms(name)).await, counted)
    }

    /// An edit of every workload, whose AIBOMs are rewritten under this fault.
    async fn edit(&self, name: &str, args: Value, input_hash: &str, fault: Fault) -> Counted {
        const TIMES: usize = 10;
        let before = self.before().await;
        self.proxy
            .inject([Rule::new(TIMES, Verb::UpdateStatus, fault)
                .of(AIBOMS)
                .within(name)]);
        let api = Api::<Deployment>::namespaced(self.client.clone(), name);
        let patch = Patch::Json::<()>(
            serde_json::from_value(json!([
                {"op": "add", "path": "/spec/template/spec/containers/0/args", "value": args},
            ]))
            .expect("a patch"),
        );
        for index in 0..COUNT {
            let patched = api
                .patch(&self::name(index), &PatchParams::default(), &patch)
                .await;
            patched.expect("it is patched");
        }
        complete(&self.aiboms(name), COUNT, input_hash).await;
        let counted = self.counted(&before).await;
        eprintln!("{fault:?}: {counted:?}");
        documents(&self.aiboms(name)).await;
        // No AIBOM is made, and each failure is told by an event.
        let told = counted.of("POST 201") + counted.of("PATCH 200");
        assert_eq!(told, counted.persist_failures, "{fault:?}");
        // A conflict is tried again quietly, whoever made it; everything else is an error.
        assert_eq!(counted.requeues, counted.of("PUT 409"), "{fault:?}");
        counted
    }

    /// Half of the workloads, an interruption of the watches, the other half. Returns what was asked
    /// meanwhile for Deployments.
    async fn interrupted(
        &self,
        name: &str,
        interruption: Interruption,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Vec<(Verb, String)> {
        const DEPLOYMENTS: &str = "deployments";
        let before = self.before().await;
        let mark = self.proxy.mark();
        namespace(&self.client, name, true).await;
        self.add(name, 0..COUNT / 2).await;
        self.proxy
            .inject(rules.into_iter().map(|rule| rule.of(DEPLOYMENTS)));
        for resource in [DEPLOYMENTS, AIBOMS, "namespaces", "pods"] {
            self.proxy.interrupt(resource, interruption);
        }
        self.add(name, COUNT / 2..COUNT).await;
        complete(&self.aiboms(name), COUNT, LLAMA).await;
        let counted = self.counted(&before).await;
        documents(&self.aiboms(name)).await;
        let asked = self.proxy.since(mark).into_iter();
        let asked = asked.filter(|asked| asked.resource == DEPLOYMENTS);
        let asked: Vec<_> = asked.map(|asked| (asked.verb, asked.code)).collect();
        eprintln!("{name}, {interruption:?}: {asked:?} {counted:?}");
        asked
    }
}

/// What the documents of a namespace say, without what is different in every run.
type Documents = BTreeMap<String, Value>;

async fn documents(api: &Api<AibomObject>) -> Documents {
    of_each(&listed(api).await, |aibom| {
        let ready = condition(aibom, "Ready");
        assert_eq!(ready, ("True".to_owned(), "BOMGenerated".to_owned()));
        let mut document = document(aibom);
        let workload = &aibom.metadata.owner_references.as_ref().expect("an owner")[0];
        document["metadata"]["timestamp"] = json!("then");
        let text = document.to_string();
        let namespace = aibom.metadata.namespace.as_deref().expect("a namespace");
        let text = text.replace(&format!(":{namespace}/"), ":namespace/");
        let text = text.replace(&format!("\"{namespace}\""), "\"namespace\"");
        let mut document: Value =
            serde_json::from_str(&text.replace(&workload.uid, "uid")).expect("JSON");
        let properties = document["metadata"]["properties"].as_array_mut();
        for property in properties.expect("properties") {
            if property["name"] == "aibom.scrape.0.timestamp" {
                property["value"] = json!("then");
            }
        }
        document
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_the_server_cost_no_workload() {
    let world = World::new();
    let (plane, client) = plane(&world).await;
    let stage = Stage::new(&world, &client).await;

    let (calm, counted) = stage.load("calm", []).await;
    assert_eq!(counted.errors, 0);
    new_workloads(&stage, &calm).await;
    known_workloads(&stage).await;
    watches(&stage).await;
    backoff(&stage).await;
    stranded(&stage).await;
    let stage = older_server(stage, &world).await;
    every_connection(&stage).await;

    stage.controller.stop();
    plane.stop().await.expect("the plane stops");
}

/// Faults of the request that makes an AIBOM.
async fn new_workloads(stage: &Stage, calm: &Documents) {
    let refuse = |code, reason, after| Fault::Refuse(code, reason, after);
    let cases = [
        (
            "conflict",
            10,
            refuse(409, "AlreadyExists", None),
            "POST 409",
        ),
        (
            "unavailable",
            10,
            refuse(500, "InternalError", None),
            "POST 500",
        ),
        (
            "overloaded",
            10,
            refuse(429, "TooManyRequests", None),
            "POST 429",
        ),
        ("lost", 10, Fault::LoseRequest, "POST <error>"),
    ];
    for (name, times, fault, key) in cases {
        let rule = Rule::new(times, Verb::Create, fault).of(AIBOMS);
        let (documents, counted) = stage.load(name, [rule]).await;
        assert_eq!(documents, *calm, "{name}");
        assert_eq!(counted.of(key), times as u64, "{name}");
        assert_eq!(counted.errors, times as u64, "{name}");
        assert_eq!(counted.persist_failures, 0, "{name}");
    }
    // Where the server says when to come back, that is no error of the reconcile.
    let later = |verb, code, reason| Rule::new(2, verb, refuse(code, reason, Some(1))).of(AIBOMS);
    let rules = [
        later(Verb::Create, 429, "TooManyRequests"),
        later(Verb::UpdateStatus, 503, "ServiceUnavailable"),
    ];
    let (documents, counted) = stage.load("later", rules).await;
    assert_eq!(documents, *calm);
    assert_eq!((counted.of("POST 429"), counted.of("PUT 503")), (2, 2));
    assert_eq!((counted.errors, counted.persist_failures), (0, 0));
}

/// Faults of the request that writes the status of an AIBOM that has one.
async fn known_workloads(stage: &Stage) {
    let conflict = Fault::Refuse(409, "Conflict", None);
    let counted = stage.edit("calm", json!([]), IMAGE_ONLY, conflict).await;
    assert!(counted.of("PUT 409") >= 10, "{counted:?}");
    assert_eq!((counted.errors, counted.persist_failures), (0, 0));

    let cases = [
        (Fault::Refuse(500, "InternalError", None), Some("PUT 500")),
        (Fault::LoseRequest, Some("PUT <error>")),
        (Fault::LoseAnswer, Some("PUT <error>")),
        // The code came before the cut.
        (Fault::CutAnswer, None),
    ];
    for (index, (fault, key)) in cases.into_iter().enumerate() {
        let (args, input_hash) = match index % 2 {
            0 => (llama_args(), LLAMA),
            _ => (json!([]), IMAGE_ONLY),
        };
        let counted = stage.edit("calm", args, input_hash, fault).await;
        assert_eq!((counted.errors, counted.persist_failures), (10, 10));
        if let Some(key) = key {
            assert_eq!(counted.of(key), 10, "{fault:?}");
        }
    }
}

/// Faults of watches.
async fn watches(stage: &Stage) {
    let asked = |asked: &[(Verb, &str)]| -> Vec<(Verb, String)> {
        let owned = asked.iter().map(|(verb, code)| (*verb, (*code).to_owned()));
        owned.collect()
    };
    let expired = Interruption::Error(410, "Expired");
    let list = asked(&[(Verb::StreamList, "200")]);
    let watch = asked(&[(Verb::Watch, "200")]);
    assert_eq!(stage.interrupted("expired", expired, []).await, list);
    let failed = Interruption::Error(500, "InternalError");
    assert_eq!(stage.interrupted("failed", failed, []).await, list);
    let cut = stage.interrupted("cut", Interruption::Cut, []).await;
    assert_eq!(cut, watch);
    let closed = stage.interrupted("closed", Interruption::Close, []).await;
    assert_eq!(closed, watch);

    // The watch that follows fails as well.
    let refuse = |code, reason, after| Fault::Refuse(code, reason, after);
    let cases = [
        (
            "gone",
            refuse(410, "Expired", None),
            "410",
            Verb::StreamList,
        ),
        (
            "broken",
            refuse(500, "InternalError", None),
            "500",
            Verb::StreamList,
        ),
        (
            "busy",
            refuse(429, "TooManyRequests", None),
            "429",
            Verb::Watch,
        ),
        (
            "soon",
            refuse(429, "TooManyRequests", Some(1)),
            "429",
            Verb::Watch,
        ),
        ("silent", Fault::LoseRequest, "<error>", Verb::Watch),
    ];
    for (name, fault, code, next) in cases {
        let rule = Rule::new(1, Verb::Watch, fault);
        let found = stage.interrupted(name, Interruption::Close, [rule]).await;
        assert_eq!(
            found,
            asked(&[(Verb::Watch, code), (next, "200")]),
            "{name}"
        );
    }
}

/// One workload whose AIBOM cannot be made for a while: the gaps between two tries double from 5 ms.
async fn backoff(stage: &Stage) {
    const TIMES: usize = 9;
    let before = stage.before().await;
    let mark = stage.proxy.mark();
    namespace(&stage.client, "backoff", false).await;
    stage.add("backoff", 0..1).await;
    settled(&stage.client, "backoff").await;
    stage.controller.quiet().await;
    let fault = Fault::Refuse(500, "InternalError", None);
    let rule = Rule::new(TIMES, Verb::Create, fault);
    stage.proxy.inject([rule.of(AIBOMS)]);
    opt(&stage.client, "backoff", true).await;
    complete(&stage.aiboms("backoff"), 1, LLAMA).await;
    let counted = stage.counted(&before).await;
    assert_eq!(counted.errors, TIMES as u64);
    let tries = stage.proxy.since(mark).into_iter();
    let tries = tries.filter(|asked| asked.verb == Verb::Create);
    let tries: Vec<Instant> = tries.map(|asked| asked.at).collect();
    let gaps: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    eprintln!("backoff: {gaps:?}");
    assert_eq!(gaps.len(), TIMES);
    for (failures, gap) in gaps.iter().enumerate() {
        let backoff = Duration::from_millis(5) * (1 << failures);
        // What is more is the time that a request takes.
        let range = backoff..backoff + Duration::from_millis(250);
        assert!(range.contains(gap), "{failures}: {gap:?}");
    }
}

/// An AIBOM whose first status is not written stays without one until it is deleted, in this release.
async fn stranded(stage: &Stage) {
    const NAMESPACE: &str = "stranded";
    let before = stage.before().await;
    let refused = Fault::Refuse(500, "InternalError", None);
    let rules = [
        Rule::new(3, Verb::UpdateStatus, refused),
        Rule::new(2, Verb::Create, Fault::LoseAnswer),
        Rule::new(2, Verb::Create, Fault::CutAnswer),
    ];
    stage
        .proxy
        .inject(rules.map(|rule| rule.of(AIBOMS).within(NAMESPACE)));
    namespace(&stage.client, NAMESPACE, true).await;
    stage.add(NAMESPACE, 0..COUNT).await;
    let api = stage.aiboms(NAMESPACE);
    let look = || async { listed(&api).await.len() };
    crate::controller::until("all have an AIBOM", look, |count| *count == COUNT).await;
    let counted = stage.counted(&before).await;
    assert_eq!(counted.persist_failures, 3, "{counted:?}");
    let without = |aiboms: Vec<AibomObject>| -> Vec<AibomObject> {
        let without = aiboms.into_iter();
        without
            .filter(|aibom| aibom.status == Default::default())
            .collect()
    };
    let lost = without(listed(&api).await);
    eprintln!("stranded: {} {counted:?}", lost.len());
    // A try that follows a lost answer at once may meet the next fault.
    assert!((4..=7).contains(&lost.len()), "{}", lost.len());
    for aibom in &lost {
        let name = aibom.metadata.name.as_deref().expect("a name");
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted.expect("it is deleted");
    }
    complete(&api, COUNT, LLAMA).await;
    documents(&api).await;
}

/// A start against a server that knows of no streaming lists, asks for patience, and then over
/// everything that the faults have left.
async fn older_server(stage: Stage, world: &World) -> Stage {
    stage.controller.quiet().await;
    let all = Api::<AibomObject>::all_with(
        stage.client.clone(),
        &resource(ApiKind::Aibom, ApiVersion::V1Beta1),
    );
    let known = listed(&all).await.len() as u64;
    let no_streams = Fault::Refuse(422, "Invalid", None);
    let rules = [
        Rule::new(8, Verb::StreamList, no_streams),
        Rule::new(
            1,
            Verb::Read,
            Fault::Refuse(429, "TooManyRequests", Some(1)),
        )
        .of("pods"),
        Rule::new(
            1,
            Verb::Watch,
            Fault::Refuse(429, "TooManyRequests", Some(1)),
        )
        .of(AIBOMS),
    ];
    let stage = stage.again(world, rules).await;
    let refreshed = |requests: &Requests| requests.get("PUT 200") >= Some(&known);
    let ask = || stage.controller.requests();
    crate::controller::until("all are refreshed", ask, refreshed).await;
    let found = stage.controller.quiet().await;
    let expected = requests([
        ("GET 200", 2 + 8 + 8),
        ("GET 422", 8),
        ("GET 429", 2),
        ("PUT 200", known),
    ]);
    assert_eq!(found, expected);
    assert_eq!(found, stage.proxy.requests(stage.begin));
    stage
}

/// Every connection closes at once: each watch is opened anew, and that is all. This comes last, since
/// the proxy has no record of what was on its way to it just then.
async fn every_connection(stage: &Stage) {
    let before = stage.controller.quiet().await;
    stage.proxy.cut();
    let enough = |requests: &Requests| requests["GET 200"] >= before["GET 200"] + 8;
    let ask = || stage.controller.requests();
    crate::controller::until("all watches are open", ask, enough).await;
    let mut found = since(&before, &stage.controller.quiet().await);
    found.remove("GET <error>");
    assert_eq!(found, requests([("GET 200", 8)]));
}

/// The API server of a plane that is started again after its death, which the plane itself does not
/// do: the same program with the same arguments over the same etcd.
struct Restart {
    command: Vec<String>,
    pid: u32,
    port: u16,
}

impl Restart {
    fn of(plane: &Plane) -> Self {
        let state = plane.state();
        let component = &state.components[&Tool::KubeApiserver];
        let pid = component.process.pid;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
        let words = line
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty());
        let mut command: Vec<_> = words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        command[0] = component.binary.display().to_string();
        Self {
            command,
            pid,
            port: component.port,
        }
    }

    fn listens(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    fn kill(&self) {
        signal(self.pid, Signal::KILL);
        eventually("it is gone", Duration::from_secs(5), || !self.listens());
    }

    fn start(&self) -> Owner {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        Owner::spawn(command)
    }
}

/// The API server is killed while a load is applied, is away for some seconds, and comes back over the
/// same data. The controller, which talks to it directly, is not restarted.
#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_the_server_is_caught_up_with() {
    const NAMESPACE: &str = "models";
    let world = World::new();
    let (plane, client) = plane(&world).await;
    let controller = Controller::start(&world, &plane.kubeconfig(), "1.3.0").await;
    namespace(&client, NAMESPACE, true).await;
    let api = aiboms(&client, ApiVersion::V1Beta1, NAMESPACE);
    let server = Restart::of(&plane);

    for index in 0..COUNT / 2 {
        create(&client, NAMESPACE, &llama(&name(index))).await;
    }
    server.kill();
    let killed = Instant::now();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let _running = server.start();
    let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
    for index in COUNT / 2..COUNT {
        let object = llama(&name(index));
        // The rest of the load waits for the server.
        loop {
            match deployments.create(&PostParams::default(), &object).await {
                Ok(_) => break,
                Err(kube::Error::Api(status)) if status.code == 409 => break,
                Err(error) => assert!(killed.elapsed() < Duration::from_secs(60), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let has = |aiboms: &Vec<AibomObject>| {
        let done = aiboms
            .iter()
            .filter(|aibom| aibom.status.input_hash == LLAMA);
        // A first status that was on its way when the server died is not written again.
        aiboms.len() == COUNT && done.count() + 1 >= COUNT
    };
    let look = || async {
        // The server answers long before it serves every kind.
        let list = api.list(&ListParams::default()).await;
        list.map(|list| list.items).unwrap_or_default()
    };
    crate::controller::until("it catches up", look, has).await;
    let caught_up = killed.elapsed();
    let counted = controller.quiet().await;
    let aiboms = listed(&api).await;
    let lost: Vec<_> = aiboms
        .iter()
        .filter(|aibom| aibom.status == Default::default())
        .collect();
    eprintln!(
        "caught up {caught_up:?} after the kill, {} on its way: {counted:?}",
        lost.len()
    );
    for aibom in &lost {
        let name = aibom.metadata.name.as_deref().expect("a name");
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted.expect("it is deleted");
    }
    complete(&api, COUNT, LLAMA).await;
    assert_eq!(documents(&api).await.len(), COUNT);
    assert!(counted["GET <error>"] > 0, "{counted:?}");
    controller.stop();
    plane.stop().await.expect("what is left of the plane stops");
}
