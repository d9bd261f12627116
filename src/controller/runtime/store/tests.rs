use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::*;

fn object(namespace: &str, name: &str, version: u32, generation: i64) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": namespace,
            "name": name,
            "resourceVersion": version.to_string(),
            "generation": generation,
        }
    }))
    .expect("a ConfigMap")
}

type Heard = Arc<Mutex<Vec<String>>>;

/// What a handler hears, as text.
fn listen(informer: &Informer<ConfigMap>) -> Heard {
    let heard = Heard::default();
    let sink = Arc::clone(&heard);
    informer.subscribe(move |change| {
        let version = |object: &ConfigMap| object.resource_version().unwrap_or_default();
        let name = ObjectKey::of(change.object());
        let text = match change {
            Change::Added { object, .. } => format!("+{name}@{}", version(object)),
            Change::Updated { old, new } => format!("{name}@{}->{}", version(old), version(new)),
            Change::Deleted { object } => format!("-{name}@{}", version(object)),
        };
        let text = format!("{text} {}", change.priority());
        sink.lock().expect("no panic").push(text);
    });
    heard
}

fn drain(heard: &Heard) -> Vec<String> {
    std::mem::take(&mut *heard.lock().expect("no panic"))
}

fn list(informer: &Informer<ConfigMap>, objects: &[ConfigMap]) {
    informer.apply(Event::ListBegin);
    for object in objects {
        informer.apply(Event::ListObject(object.clone()));
    }
    informer.apply(Event::ListEnd);
}

#[test]
fn nothing_is_known_until_the_first_list_is_complete() {
    let informer = Informer::new("ConfigMap");
    let heard = listen(&informer);
    let synced = informer.sync_flag();
    informer.apply(Event::ListBegin);
    informer.apply(Event::ListObject(object("a", "lost", 1, 1)));
    // The list broke off, and another one begins.
    informer.apply(Event::ListBegin);
    informer.apply(Event::ListObject(object("a", "x", 2, 1)));
    informer.apply(Event::ListObject(object("a", "y", 3, 1)));
    informer.apply(Event::ListObject(object("a", "x", 4, 1)));
    informer.apply(Event::ListDeleted(object("a", "y", 5, 1)));
    assert!(!synced.is_synced());
    assert!(informer.is_empty());
    informer.apply(Event::ListEnd);
    assert!(synced.is_synced());
    assert_eq!(drain(&heard), ["+a/x@4 -100"]);
}

#[test]
fn a_new_list_tells_only_what_differs() {
    let informer = Informer::new("ConfigMap");
    list(
        &informer,
        &[
            object("a", "same", 1, 1),
            object("a", "changed", 2, 1),
            object("b", "gone", 3, 1),
        ],
    );
    let heard = listen(&informer);
    assert_eq!(drain(&heard).len(), 3);
    list(
        &informer,
        &[
            object("a", "same", 1, 1),
            object("a", "changed", 7, 2),
            object("c", "new", 8, 1),
        ],
    );
    assert_eq!(
        drain(&heard),
        ["a/changed@2->7 0", "+c/new@8 0", "-b/gone@3 0"]
    );
}

#[test]
fn changes_come_with_both_states() {
    let informer = Informer::new("ConfigMap");
    list(&informer, &[]);
    let heard = listen(&informer);
    let generation = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&generation);
    informer.subscribe(move |change| {
        let mut seen = sink.lock().expect("no panic");
        seen.push(change.changes_generation());
    });
    informer.apply(Event::Applied(object("a", "x", 1, 1)));
    informer.apply(Event::Applied(object("a", "x", 2, 1)));
    informer.apply(Event::Applied(object("a", "x", 3, 2)));
    informer.apply(Event::Deleted(object("a", "x", 4, 2)));
    informer.apply(Event::Deleted(object("a", "never-known", 5, 1)));
    assert_eq!(
        drain(&heard),
        ["+a/x@1 0", "a/x@1->2 0", "a/x@2->3 0", "-a/x@4 0"]
    );
    assert_eq!(
        *generation.lock().expect("no panic"),
        [true, false, true, true]
    );
    assert!(informer.is_empty());
}

#[test]
fn a_resync_delivers_everything_behind_what_happens() {
    let informer = Informer::new("ConfigMap");
    list(&informer, &[object("a", "x", 1, 1), object("a", "y", 2, 1)]);
    let heard = listen(&informer);
    drain(&heard);
    informer.resync();
    assert_eq!(drain(&heard), ["a/x@1->1 -100", "a/y@2->2 -100"]);
}

#[test]
fn objects_are_found_by_name_and_by_namespace() {
    let informer = Informer::new("ConfigMap");
    list(
        &informer,
        &[
            object("a", "x", 1, 1),
            object("a", "y", 2, 1),
            object("ab", "x", 3, 1),
            object("", "x", 4, 1),
        ],
    );
    let found = informer.get(&ObjectKey::new("ab", "x")).expect("an object");
    assert_eq!(found.resource_version().as_deref(), Some("3"));
    assert!(informer.get(&ObjectKey::new("b", "x")).is_none());
    let names: Vec<_> = informer.in_namespace("a");
    assert_eq!(names.len(), 2);
    assert_eq!(informer.in_namespace("").len(), 1);
    assert_eq!(informer.all().len(), 4);
}

#[tokio::test]
async fn an_empty_set_is_synced_and_a_full_one_waits() {
    let set = SyncSet::default();
    set.wait_for_present().await;
    let informer = Informer::new("ConfigMap");
    set.add(informer.sync_flag());
    let waiting = tokio::spawn({
        let set = set.clone();
        async move { set.wait_for_present().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    list(&informer, &[]);
    waiting.await.expect("no panic");
}
