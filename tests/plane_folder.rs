//! A plane's folder: whose it is, what survives, and what a caller's descriptors have to do with it.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};

use aibom_qual::host::identity::ProcessIdentity;
use aibom_qual::plane::binaries::DEFAULT_KUBERNETES;
use aibom_qual::plane::registry::{Registry, RegistryError};
use aibom_qual::plane::state::{Lifetime, Phase, PlaneState, SCHEMA};
use chrono::Utc;
use rustix::process::Signal;
use support::{Finished, World, signal};

fn stopped(name: &str, port: Option<u16>) -> PlaneState {
    PlaneState {
        schema: SCHEMA,
        name: name.to_owned(),
        lifetime: Lifetime::Persistent,
        kubernetes: DEFAULT_KUBERNETES,
        tool_version: "0.0.0".to_owned(),
        created: Utc::now(),
        started: Utc::now(),
        owner: ProcessIdentity::current().expect("this process runs"),
        phase: Phase::Stopped,
        port,
        component_args: BTreeMap::new(),
        components: BTreeMap::new(),
        node: None,
    }
}

#[test]
fn the_port_of_a_stopped_plane_is_on_disk_from_the_first_moment_of_the_next_start() {
    let world = World::new();
    let registry = Registry::new(world.dirs.planes());
    drop(
        registry
            .claim(stopped("kept", Some(24_680)))
            .expect("a new plane"),
    );
    drop(
        registry
            .claim(stopped("kept", None))
            .expect("the same plane"),
    );
    let (_, state) = registry.load("kept").expect("its state");
    assert_eq!(state.port, Some(24_680));
}

#[test]
fn a_plane_held_by_somebody_unseen_is_not_touched() {
    let world = World::new();
    let registry = Registry::new(world.dirs.planes());
    let claim = registry
        .claim(stopped("held", Some(24_681)))
        .expect("a new plane");
    let path = claim.layout.state();
    let before = fs::read(&path).expect("its state");
    // The state says that it is stopped, but its lock is taken: an owner in another container.
    let refused = registry.claim(stopped("held", None)).expect_err("held");
    assert!(matches!(refused, RegistryError::Held(_)), "{refused}");
    assert_eq!(fs::read(&path).expect("its state"), before);
    world
        .run(&["plane", "down", "held"])
        .expect(4, &["cannot be seen from here", "hint:"]);
    drop(claim);
    world
        .run(&["plane", "down", "held", "--delete"])
        .expect(0, &[]);
}

#[test]
fn a_folder_without_a_state_is_named_and_left_alone() {
    let world = World::new();
    let folder = world.dirs.planes().join("orphan");
    fs::create_dir_all(&folder).expect("a folder");
    File::create(folder.join("precious")).expect("a file");
    world.run(&["plane", "status"]).expect(0, &[]);
    for verb in [
        &["plane", "status", "orphan"][..],
        &["plane", "up", "--persistent", "orphan"],
    ] {
        world
            .run(verb)
            .expect(4, &["orphan/state.json: it is missing", "hint:"]);
    }
    assert!(folder.join("precious").exists());
}

#[test]
fn a_plane_keeps_no_descriptor_of_the_script_that_started_it() {
    let world = World::new();
    let script = "exec 9>lock; flock 9; $EXE plane up --persistent quiet -q >/dev/null; exec 9>&-
        flock --nonblock lock echo free; $EXE plane down quiet --delete -q";
    let finished = Finished::of(world.shell(script).output().expect("the shell starts"));
    finished.expect(0, &[]);
    assert!(finished.stdout.contains("free"), "{}", finished.stdout);
}

#[test]
fn a_supervisor_whose_folder_was_replaced_leaves_its_successor_alone() {
    let world = World::new();
    let registry = Registry::new(world.dirs.planes());
    world
        .run(&["plane", "up", "--persistent", "twice"])
        .expect(0, &[]);
    let (layout, first) = registry.load("twice").expect("its state");
    fs::remove_dir_all(layout.root()).expect("removed");
    world
        .run(&["plane", "up", "--persistent", "twice"])
        .expect(0, &[]);
    signal(first.owner.pid, Signal::TERM);
    support::eventually(
        "the first supervisor ends",
        std::time::Duration::from_secs(60),
        || !first.owner.is_alive(),
    );
    world.run(&["plane", "status", "twice"]).expect(0, &[]);
    world
        .run(&["plane", "down", "twice", "--delete"])
        .expect(0, &["stopped"]);
    world.assert_empty("at the end");
}
