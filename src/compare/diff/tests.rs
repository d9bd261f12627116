use chrono::{DateTime, TimeDelta, Utc};

use super::*;
use crate::record::{AibomList, ConditionStatus, OwnerState};

fn aibom(number: usize) -> AibomState {
    AibomState {
        namespace: format!("ns-{:02}", number % 50),
        name: format!("apps-deployment-w{number:05}"),
        uid: format!("uid-{number}"),
        resource_version: "1".to_owned(),
        owner: Some(OwnerState {
            kind: "Deployment".to_owned(),
            name: format!("w{number:05}"),
            uid: format!("owner-{number}"),
        }),
        input_hash: Some(format!("input-{number}")),
        bom_hash: Some(format!("bom-{number}")),
        document: DocumentState::Inline {
            sha256: format!("bom-{number}"),
            canonical_sha256: format!("document-{number}"),
            bytes: 2_800,
            stated_sha256: Some(format!("bom-{number}")),
            stated_bytes: Some(2_800),
        },
        ready: Some(ConditionStatus::True),
        conditions_sha256: "conditions".to_owned(),
        observed_generation: Some(1),
        last_reconciled: Some(DateTime::<Utc>::UNIX_EPOCH),
        bytes: 7_700,
    }
}

fn snapshot(mut items: Vec<AibomState>) -> Snapshot {
    items.sort_by(|one, other| one.key().cmp(&other.key()));
    Snapshot {
        step: 1,
        at: DateTime::<Utc>::UNIX_EPOCH,
        took_ms: 1,
        release: None,
        deployment: None,
        pods: Vec::new(),
        config: None,
        crds: Vec::new(),
        expected: Vec::new(),
        aiboms: Some(AibomList {
            resource_version: "1".to_owned(),
            pages: 1,
            restarts: 0,
            items,
        }),
        scrape: None,
    }
}

fn walked(mut aibom: AibomState) -> AibomState {
    let later = DateTime::<Utc>::UNIX_EPOCH + TimeDelta::seconds(60);
    aibom.last_reconciled = Some(later);
    aibom
}

/// The diff of two AIBOMs of one name, the second of which was walked and changed.
fn changed(change: impl FnOnce(&mut AibomState)) -> Diff {
    let mut after = walked(aibom(0));
    change(&mut after);
    diff(&snapshot(vec![aibom(0)]), &snapshot(vec![after]))
}

fn name(number: usize) -> AibomName {
    AibomName::from(&aibom(number))
}

#[test]
fn a_walk_changes_nothing() {
    let found = changed(|_| {});
    let wanted = Diff {
        before: 1,
        after: 1,
        common: 1,
        same_same: 1,
        documents: 1,
        not_rebuilt: 1,
        ..Diff::default()
    };
    assert_eq!(found, wanted);
}

#[test]
fn what_is_only_at_one_end_is_told_by_name() {
    let before = snapshot([0, 1, 2, 5].map(aibom).into());
    let after = snapshot([1, 3, 5, 6].map(aibom).map(walked).into());
    let found = diff(&before, &after);
    assert_eq!((found.before, found.after, found.common), (4, 4, 2));
    assert_eq!(found.lost, [name(0), name(2)]);
    assert_eq!(found.added, [name(3), name(6)]);
    assert_eq!(name(3).to_string(), "ns-03/apps-deployment-w00003");
}

#[test]
fn every_aibom_belongs_to_one_class() {
    let input = |aibom: &mut AibomState| aibom.input_hash = Some("other".to_owned());
    let bom = |aibom: &mut AibomState| aibom.bom_hash = Some("other".to_owned());
    assert_eq!(changed(input).changed_same, [name(0)]);
    assert_eq!(changed(bom).same_changed, [name(0)]);
    let both = changed(|aibom| {
        input(aibom);
        bom(aibom);
    });
    assert_eq!(both.changed_changed, [name(0)]);
    assert_eq!(
        (both.classed(), both.same_same, both.not_rebuilt),
        (1, 0, 0)
    );
    // A hash that is lost has changed.
    assert_eq!(
        changed(|aibom| aibom.input_hash = None).changed_same,
        [name(0)]
    );
}

#[test]
fn two_hashes_that_are_not_there_are_not_equal() {
    let mut bare = aibom(0);
    bare.input_hash = None;
    let found = diff(&snapshot(vec![bare.clone()]), &snapshot(vec![bare]));
    assert_eq!(found.unhashed, [name(0)]);
    assert_eq!(found.classed(), 0);
}

#[test]
fn the_rest_of_an_aibom_is_compared() {
    assert_eq!(changed(|aibom| aibom.uid.clear()).uid_changed, [name(0)]);
    assert_eq!(changed(|aibom| aibom.owner = None).owner_changed, [name(0)]);
    let conditions = |aibom: &mut AibomState| aibom.conditions_sha256.clear();
    assert_eq!(changed(conditions).conditions_changed, [name(0)]);
    // A rebuilt one writes its conditions anew.
    let rebuilt = changed(|aibom| {
        conditions(aibom);
        aibom.bom_hash = Some("other".to_owned());
    });
    assert_eq!(rebuilt.conditions_changed, []);
    let truncated = changed(|aibom| aibom.document = DocumentState::Truncated);
    assert_eq!(truncated.document_drift, [name(0)]);
}

#[test]
fn time_must_go_on() {
    let epoch = aibom(0).last_reconciled;
    assert_eq!(
        changed(|aibom| aibom.last_reconciled = epoch).not_advanced,
        [name(0)]
    );
    assert_eq!(
        changed(|aibom| aibom.last_reconciled = None).not_advanced,
        [name(0)]
    );
}

#[test]
fn another_order_changes_nothing() {
    let before = snapshot((0..100).map(aibom).collect());
    let mut after = snapshot((0..100).map(aibom).map(walked).collect());
    let wanted = diff(&before, &after);
    if let Some(list) = &mut after.aiboms {
        list.items.reverse();
    }
    assert_eq!(diff(&before, &after), wanted);
    assert_eq!(wanted.same_same, 100);
}

#[test]
fn ten_thousand_are_compared_at_once() {
    let before = snapshot((0..10_000).map(aibom).collect());
    let after = snapshot((1..10_001).map(aibom).map(walked).collect());
    let start = std::time::Instant::now();
    let found = diff(&before, &after);
    let took = start.elapsed();
    assert_eq!((found.same_same, &found.lost[..]), (9_999, &[name(0)][..]));
    // 200 ms are allowed to a release build; a quadratic merge would need minutes even there.
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
}

#[test]
fn it_survives_being_written() {
    let found = changed(|aibom| aibom.uid.clear());
    let text = serde_json::to_string(&found).expect("it can be written");
    assert_eq!(
        serde_json::from_str::<Diff>(&text).expect("and read"),
        found
    );
}
