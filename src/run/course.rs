//! The course of a plan: what each step is called, and what still makes sense after one that failed.

use crate::record::{StepKind, StepRecord};
use crate::scenario::{ChartName, Expect, Plan, Step};

/// What a step does, for people. `version` gives the version of a chart of the plan, where it is known.
pub(super) fn action(
    step: &Step,
    plan: &Plan,
    version: impl Fn(&ChartName) -> Option<String>,
) -> String {
    let chart = |name: &ChartName| version(name).unwrap_or_else(|| format!("chart `{name}`"));
    let load = &plan.workloads;
    match step {
        Step::Baseline => match load.preexisting {
            0 => "record the cluster as found".to_owned(),
            1 => "record the cluster as found, create 1 workload".to_owned(),
            many => format!("record the cluster as found, create {many} workloads"),
        },
        Step::Install { chart: name } => format!("helm install {}", chart(name)),
        Step::Load => format!("create {} workloads ({})", load.count, load.mix),
        Step::Upgrade { chart: name } => format!("helm upgrade to {}", chart(name)),
        Step::Rollback { revision: None } => "helm rollback".to_owned(),
        Step::Rollback {
            revision: Some(revision),
        } => format!("helm rollback to revision {revision}"),
        Step::Crds { chart: name } => format!("apply the CRDs of {}", chart(name)),
        Step::Steady { window_seconds } => format!("measure {window_seconds} s without a change"),
        Step::Restart => "restart the controller".to_owned(),
        Step::Config { .. } => "change the controller's configuration".to_owned(),
        Step::Hold { seconds } => format!("wait {seconds} s"),
        Step::Uninstall => "helm uninstall".to_owned(),
        Step::Cleanup => "remove release, load, CRDs and namespaces".to_owned(),
    }
}

/// Whether the plan goes on as written after this step failed.
///
/// A failed install or move leaves a controller that is not the planned one, or none, so that
/// everything measured afterwards would be about something else; unless the scenario declares that the
/// step fails, since then the next ones are about what comes of it.
pub(super) fn goes_on(plan: &Plan, failed: &StepRecord) -> bool {
    let declared = plan.expectations.iter().any(|expectation| {
        expectation.expect == Expect::Fail
            && expectation.step.is_none_or(|step| step == failed.step)
    });
    let leaves_another_controller = matches!(
        failed.kind,
        StepKind::Install | StepKind::Upgrade | StepKind::Rollback | StepKind::Uninstall
    );
    declared || !leaves_another_controller
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::StepEnd;
    use crate::scenario::{Expectation, WorkloadPlan};

    fn plan(expectations: Vec<Expectation>) -> Plan {
        Plan {
            name: "test".to_owned(),
            release: "r".to_owned(),
            namespace: "n".to_owned(),
            charts: BTreeMap::new(),
            workloads: WorkloadPlan {
                preexisting: 1,
                count: 1001,
                mix: "vllm-replicas-0".to_owned(),
                namespaces: std::num::NonZeroU32::MIN,
                seed: 7,
                rate: None,
            },
            steps: vec![Step::Baseline, Step::Load],
            expectations,
        }
    }

    fn failed(step: u32, kind: StepKind) -> StepRecord {
        let begun = chrono::DateTime::UNIX_EPOCH;
        let mut record = StepRecord::begun(step, kind, String::new(), begun);
        record.end = StepEnd::Failed {
            reason: "it stalled".to_owned(),
        };
        record
    }

    #[test]
    fn a_failed_move_ends_the_plan_unless_it_is_what_the_scenario_is_about() {
        let stall = failed(3, StepKind::Upgrade);
        assert!(!goes_on(&plan(Vec::new()), &stall));
        assert!(goes_on(&plan(Vec::new()), &failed(3, StepKind::Load)));
        let expected = |step| Expectation {
            check: "UPG-14".to_owned(),
            step,
            expect: Expect::Fail,
            because: "the new definitions are missing".to_owned(),
        };
        assert!(goes_on(&plan(vec![expected(Some(3))]), &stall));
        assert!(goes_on(&plan(vec![expected(None)]), &stall));
        assert!(!goes_on(&plan(vec![expected(Some(4))]), &stall));
    }

    #[test]
    fn a_step_is_named_by_what_it_does() {
        let plan = plan(Vec::new());
        let upgrade = Step::Upgrade {
            chart: ChartName("to".to_owned()),
        };
        let known = |_: &ChartName| Some("1.5.1".to_owned());
        assert_eq!(action(&upgrade, &plan, known), "helm upgrade to 1.5.1");
        assert_eq!(
            action(&upgrade, &plan, |_| None),
            "helm upgrade to chart `to`"
        );
        assert_eq!(
            action(&Step::Load, &plan, known),
            "create 1001 workloads (vllm-replicas-0)"
        );
    }
}
