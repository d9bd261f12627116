use k8s_openapi::api::batch::v1::{CronJob, Job};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use super::*;
use crate::controller::profile::V1_6_0;
use crate::controller::profile::kind::{CRON_JOB, JOB};
use crate::controller::runtime::metrics::Metrics;
use crate::controller::runtime::scripted::{Answer, Part, Script, bookmark, event};
use crate::controller::runtime::watch::Event;
use crate::controller::settings::Settings;

/// CronJobs and Jobs in caches.
struct World {
    lineage: Lineage,
    kinds: WorkloadKinds,
    cron_jobs: Informer<CronJob>,
    jobs: Informer<Job>,
    pods: Informer<Pod>,
    queues: [Queue<ObjectKey>; 2],
}

impl World {
    fn new(script: &Script) -> Self {
        let metrics = Metrics::new().expect("metrics");
        let settings = Settings::defaults(&V1_6_0).expect("settings");
        let kinds = settings.kinds.clone();
        let (intermediates, filler) = Intermediates::new(script.client());
        let pods = Informer::new("Pod");
        let rules = V1_6_0.reconcile.roll_up.expect("rules");
        let (lineage, changes) = Lineage::new(
            rules,
            Current::new(settings),
            pods.clone(),
            ReplicaSets::new(Informer::new("ReplicaSet")),
            intermediates,
        );
        tokio::spawn(changes.run());
        let again = lineage.clone();
        tokio::spawn(filler.run(move |news| again.look_at_unresolved(&news)));
        let queues = ["cronjob", "job"].map(|name| Queue::new(name, &metrics));
        let (cron_jobs, jobs) = (Informer::new("CronJob"), Informer::new("Job"));
        lineage.add(&CRON_JOB, &cron_jobs, &queues[0]);
        lineage.add(&JOB, &jobs, &queues[1]);
        let world = Self {
            lineage,
            kinds,
            cron_jobs,
            jobs,
            pods,
            queues,
        };
        sync(&world.cron_jobs);
        sync(&world.jobs);
        world
    }

    async fn ancestry(&self, job: &Job) -> Ancestry {
        let key = ObjectKey::of(job);
        let found = self.lineage.of(&self.kinds, &JOB, &key, &job.metadata);
        found.await
    }

    async fn waiting(&self) -> [usize; 2] {
        self.lineage.settled().await;
        self.queues.each_ref().map(Queue::len)
    }

    /// What the owner of this UID reports.
    async fn absorbed(&self, uid: &str) -> Vec<String> {
        let absorbed = self.lineage.absorbed(&self.kinds, "ns", uid).await;
        let named = absorbed.iter().map(|child| child.name().to_owned());
        named.collect()
    }
}

fn sync<K: Tracked>(informer: &Informer<K>) {
    informer.apply(Event::ListBegin);
    informer.apply(Event::ListEnd);
}

fn object<K: DeserializeOwned>(name: &str, uid: &str, owner: Option<[&str; 3]>) -> K {
    serde_json::from_value(raw(name, uid, owner)).expect("an object")
}

/// `owner` is an apiVersion and kind, a name and a UID.
fn raw(name: &str, uid: &str, owner: Option<[&str; 3]>) -> Value {
    let owners = owner.map(|[kind, name, uid]| {
        let (api_version, kind) = kind.rsplit_once('/').expect("a kind");
        json!([{
            "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true,
        }])
    });
    json!({"metadata": {
        "name": name, "namespace": "ns", "uid": uid, "resourceVersion": "1",
        "ownerReferences": owners,
    }})
}

const TICK: [&str; 3] = ["batch/v1/CronJob", "tick", "c"];

#[tokio::test(start_paused = true)]
async fn a_job_is_reported_by_its_cron_job_while_that_is_allowed() {
    let mut world = World::new(&Script::new([]));
    world
        .cron_jobs
        .apply(Event::Applied(object("tick", "c", None)));
    let job: Job = object("tick-1", "j", Some(TICK));
    world.jobs.apply(Event::Applied(job.clone()));
    assert!(matches!(world.ancestry(&job).await, Ancestry::Under(_)));
    assert_eq!(world.absorbed("c").await, ["tick-1"]);
    assert_eq!(world.absorbed("j").await, [""; 0]);
    assert_eq!(world.waiting().await, [1, 0], "the owner is looked at");

    world.kinds = world
        .kinds
        .named(&["batch/Job".to_owned()])
        .expect("a list");
    assert!(matches!(world.ancestry(&job).await, Ancestry::Independent));
    assert_eq!(world.absorbed("c").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_followed_is_tried_again_when_an_owner_comes() {
    let world = World::new(&Script::new([]));
    let job: Job = object("tick-1", "j", Some(TICK));
    world.jobs.apply(Event::Applied(job.clone()));
    assert!(matches!(world.ancestry(&job).await, Ancestry::Unresolved));
    let other = object("tick", "another UID", None);
    world.cron_jobs.apply(Event::Applied(other));
    assert_eq!(world.waiting().await, [0, 1]);
    assert!(matches!(world.ancestry(&job).await, Ancestry::Unresolved));
    assert_eq!(world.absorbed("another UID").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_looked_for_only_when_all_pods_are_known() {
    let world = World::new(&Script::new([]));
    let job: Job = object("a", "j", Some(["v1/Pod", "p", "u"]));
    let fill = async {
        sleep(Duration::from_secs(5)).await;
        world.pods.apply(Event::ListBegin);
        world.pods.apply(Event::ListObject(object("p", "u", None)));
        world.pods.apply(Event::ListEnd);
    };
    let (ancestry, ()) = tokio::join!(world.ancestry(&job), fill);
    assert!(matches!(ancestry, Ancestry::Independent));
}

#[tokio::test(start_paused = true)]
async fn owners_of_unknown_kinds_are_read_through_a_cache_of_their_own() {
    let kinds = json!({
        "kind": "APIResourceList", "groupVersion": "example.dev/v1", "resources": [{
            "name": "rounds", "singularName": "round", "namespaced": true, "kind": "Round",
            "verbs": ["get", "list", "watch"],
        }],
    });
    let mut round = raw("r", "m", Some(TICK));
    round["apiVersion"] = json!("example.dev/v1");
    round["kind"] = json!("Round");
    let script = Script::new([
        Answer::json(200, &kinds),
        Answer::watch([event("ADDED", round), bookmark(3, true), Part::Hang]),
    ]);
    let world = World::new(&script);
    world
        .cron_jobs
        .apply(Event::Applied(object("tick", "c", None)));
    let job: Job = object("a", "j", Some(["example.dev/v1/Round", "r", "m"]));
    world.jobs.apply(Event::Applied(job.clone()));
    for _ in 0..2 {
        assert!(matches!(world.ancestry(&job).await, Ancestry::Under(_)));
    }
    assert_eq!(world.absorbed("c").await, ["a"]);
    let uris: Vec<_> = script.seen().into_iter().map(|seen| seen.uri).collect();
    assert_eq!(uris[0], "/apis/example.dev/v1");
    assert!(
        uris[1].starts_with("/apis/example.dev/v1/rounds?"),
        "{uris:?}"
    );
    assert_eq!(uris.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn owners_that_may_not_be_read_leave_it_unresolved_at_once() {
    let kinds = json!({
        "kind": "APIResourceList", "groupVersion": "example.dev/v1", "resources": [{
            "name": "rounds", "singularName": "round", "namespaced": true, "kind": "Round",
            "verbs": ["get", "list", "watch"],
        }],
    });
    let forbidden = || Answer::status(403, "Forbidden");
    let script = Script::new([Answer::json(200, &kinds), forbidden(), forbidden()]);
    let world = World::new(&script);
    let job: Job = object("a", "j", Some(["example.dev/v1/Round", "r", "m"]));
    world.jobs.apply(Event::Applied(job.clone()));
    let begin = tokio::time::Instant::now();
    assert!(matches!(world.ancestry(&job).await, Ancestry::Unresolved));
    assert_eq!(begin.elapsed().as_secs(), 0);

    let script = Script::new([Answer::status(404, "NotFound")]);
    let world = World::new(&script);
    for _ in 0..3 {
        assert!(matches!(world.ancestry(&job).await, Ancestry::Unresolved));
    }
    assert_eq!(
        script.seen().len(),
        1,
        "a missing kind is not asked for each time"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_comes_to_be_served_leads_to_another_look() {
    let kinds = json!({
        "kind": "APIResourceList", "groupVersion": "example.dev/v1", "resources": [{
            "name": "rounds", "singularName": "round", "namespaced": true, "kind": "Round",
            "verbs": ["get", "list", "watch"],
        }],
    });
    let mut round = raw("r", "m", Some(TICK));
    round["apiVersion"] = json!("example.dev/v1");
    round["kind"] = json!("Round");
    let script = Script::new([
        Answer::refused(),
        Answer::status(404, "NotFound"),
        Answer::json(200, &kinds),
        Answer::watch([
            bookmark(2, true),
            Part::Wait(Duration::from_secs(5)),
            event("ADDED", round),
            Part::Hang,
        ]),
    ]);
    let world = World::new(&script);
    world
        .cron_jobs
        .apply(Event::Applied(object("tick", "c", None)));
    let job: Job = object("a", "j", Some(["example.dev/v1/Round", "r", "m"]));
    world.jobs.apply(Event::Applied(job.clone()));
    let begin = tokio::time::Instant::now();
    assert!(matches!(world.ancestry(&job).await, Ancestry::Unresolved));
    assert_eq!(begin.elapsed().as_secs(), 0);
    assert_eq!(world.waiting().await, [0, 0]);
    // 5 s after no answer and 60 s after an absence; then the list, and a later object.
    sleep(Duration::from_secs(67)).await;
    assert_eq!(world.waiting().await, [0, 1], "the list is complete");
    assert!(matches!(world.ancestry(&job).await, Ancestry::Unresolved));
    sleep(Duration::from_secs(10)).await;
    assert!(matches!(world.ancestry(&job).await, Ancestry::Under(_)));
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_not_looked_at_again() {
    let world = World::new(&Script::new([]));
    let job: Job = object("tick-1", "j", Some(TICK));
    world.jobs.apply(Event::Applied(job.clone()));
    assert!(matches!(world.ancestry(&job).await, Ancestry::Unresolved));
    world.jobs.apply(Event::Deleted(job));
    world
        .cron_jobs
        .apply(Event::Applied(object("tick", "c", None)));
    let [_, jobs] = world.waiting().await;
    assert_eq!(jobs, 0);
}
