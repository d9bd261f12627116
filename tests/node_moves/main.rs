//! Moves of Helm as true rollouts: a plane and its node as `plane up` starts them, both Helm majors,
//! and the charts of this repository.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail like the tests themselves"
)]
#![allow(clippy::print_stderr, reason = "a run tells its numbers")]

mod access;
mod cluster;
#[path = "../support/definitions.rs"]
mod definitions;
#[path = "../support/helm.rs"]
mod helm;
mod moves;
#[path = "../support/node.rs"]
mod node;
mod refusals;
mod runtimes;
mod sight;
mod stall;
#[path = "../support/mod.rs"]
mod support;

use cluster::Cluster;
use support::World;

/// Where the charts are installed.
const NAMESPACE: &str = "k8s-aibom-system";

#[tokio::test(flavor = "multi_thread")]
async fn moves_of_both_majors_are_rollouts_without_a_gap() {
    let world = World::new();
    let helms = helm::both(&world).await;
    let cluster = Cluster::up(&world, &[]).await;
    let majors = async {
        for helm in helms {
            moves::there_and_back(&cluster.client, cluster.helm(helm)).await;
        }
    };
    tokio::join!(
        majors,
        refusals::without_rights_nothing_is_ready(&cluster.client),
        refusals::root_is_refused_where_it_is_forbidden(&cluster.client),
        refusals::nothing_runs_inside(&cluster.client),
    );
    cluster.down(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_rollout_goes_on_when_what_it_needs_is_there() {
    let world = World::new();
    let [_, helm] = helm::both(&world).await;
    let cluster = Cluster::up(&world, &runtimes::args()).await;
    let stalls = stall::on_older_definitions(&cluster.client, cluster.helm(helm));
    tokio::join!(
        stalls,
        runtimes::a_program_that_ends_is_told(&cluster.client)
    );
    runtimes::a_program_may_stand_for_any_image(&cluster.client).await;
    cluster.down(&world);
}
