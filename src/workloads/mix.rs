//! The kinds of load.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

/// The value of `app.kubernetes.io/managed-by` on everything that is made here.
const MANAGER: &str = "aibom-qual";
const NAME: &str = "app.kubernetes.io/name";
const INSTANCE: &str = "app.kubernetes.io/instance";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The image is what makes the workload one that serves a model.
const VLLM_IMAGE: &str = "vllm/vllm-openai:v0.6.3";
/// Which of them a workload serves is drawn. They differ little in length, so that the size of the
/// load hardly depends on the seed.
const MODELS: [&str; 4] = [
    "meta-llama/Llama-3.1-8B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "Qwen/Qwen2.5-7B-Instruct",
    "google/gemma-2-9b-it",
];

/// Which workloads a plan makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Deployments of zero replicas that would serve a model with vLLM: the load of the published
    /// measurements. They cost a controller what real ones do, and a cluster no pod.
    VllmReplicas0,
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::VllmReplicas0 => "vllm-replicas-0",
        })
    }
}

impl Mix {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::VllmReplicas0];

    /// The one of this name; [`None`] when there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mix| mix.to_string() == name)
    }

    /// The workload of this number, without a namespace.
    pub(super) fn workload(self, index: u32, seed: u64) -> Deployment {
        match self {
            Self::VllmReplicas0 => vllm(index, seed),
        }
    }
}

fn vllm(index: u32, seed: u64) -> Deployment {
    let name = format!("vllm-{index:05}");
    let instance = BTreeMap::from([(INSTANCE.to_owned(), name.clone())]);
    let mut labels = instance.clone();
    labels.insert(NAME.to_owned(), "vllm".to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let args = ["--model", draw(&MODELS, index, seed), "--port", "8000"];
    let container = Container {
        name: "vllm".to_owned(),
        image: Some(VLLM_IMAGE.to_owned()),
        args: Some(args.map(str::to_owned).into()),
        ..Container::default()
    };
    Deployment {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(0),
            selector: LabelSelector {
                match_labels: Some(instance),
                ..LabelSelector::default()
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    containers: vec![container],
                    ..PodSpec::default()
                }),
            },
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    }
}

/// One of these, by seed and number alone, so that it does not depend on what was drawn before.
fn draw<'a>(from: &[&'a str; 4], index: u32, seed: u64) -> &'a str {
    // SplitMix64. A crate's generator may change with its version, and the load with it.
    let step = u64::from(index).wrapping_add(1);
    let mut state = seed.wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let [one, two, three, four] = from;
    match state >> 62 {
        0 => one,
        1 => two,
        2 => three,
        _ => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_found_by_the_name_that_it_shows() {
        for mix in Mix::ALL {
            assert_eq!(Mix::named(&mix.to_string()), Some(mix));
        }
        assert_eq!(Mix::named("none-of-them"), None);
    }

    #[test]
    fn what_is_drawn_stays_the_same_over_releases() {
        let drawn: Vec<_> = (0..8).map(|index| draw(&MODELS, index, 7)).collect();
        let short: Vec<_> = drawn.iter().map(|model| &model[..4]).collect();
        assert_eq!(short.join(" "), "mist meta goog Qwen mist meta mist mist");
    }

    #[test]
    fn a_vllm_deployment_selects_its_own_pods_and_names_a_model() {
        let object = Mix::VllmReplicas0.workload(41, 1);
        assert_eq!(object.metadata.name.as_deref(), Some("vllm-00041"));
        let spec = object.spec.expect("a spec");
        assert_eq!(spec.replicas, Some(0));
        let template = spec.template.metadata.expect("metadata").labels;
        let selected = spec.selector.match_labels.expect("labels");
        let template = template.expect("labels");
        assert!(
            selected
                .iter()
                .all(|(key, value)| template.get(key) == Some(value))
        );
        assert_eq!(selected.values().collect::<Vec<_>>(), ["vllm-00041"]);
        let container = &spec.template.spec.expect("a pod").containers[0];
        assert_eq!(container.image.as_deref(), Some(VLLM_IMAGE));
        let args = container.args.as_ref().expect("arguments");
        assert_eq!(args[0], "--model");
        assert!(MODELS.contains(&args[1].as_str()));
    }
}
