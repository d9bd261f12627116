//! Inference servers: images, runtimes, models and model data of a pod template.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec, Volume, VolumeMount};

use super::component::{Category, Component, ComponentType, Confidence, Evidence, Scrape, Source};
use super::image::Reference;
use super::pods::{self, Role};
use super::{Detector, model, result};
use crate::controller::profile::Detection;
use crate::controller::profile::kind::Scraper;
use crate::controller::workload::{StringMap, Workload};

pub(super) fn scrape(detector: &Detector, workload: &Workload<'_>, pods: &[&Pod]) -> Scrape {
    let rules = &detector.profile.detection;
    let mut components = Vec::new();
    for template in &workload.templates {
        let path = template.path;
        if let Some(spec) = &template.template.spec {
            of_pod(detector, path, spec, pods, &mut components);
        }
        if let Some(annotations) = template_annotations(&template.template) {
            let at = format!("{path}.metadata.annotations");
            components.extend(model::annotated(
                rules,
                annotations,
                Source::PodTemplateAnnotation,
                &at,
            ));
        }
    }
    components.extend(model::annotated(
        rules,
        workload.annotations,
        Source::WorkloadAnnotation,
        "metadata.annotations",
    ));
    let annotation_maps = std::iter::once(workload.annotations).chain(
        workload
            .templates
            .iter()
            .filter_map(|template| template_annotations(&template.template)),
    );
    model::claim_signatures(rules, annotation_maps, &mut components);
    sort(&mut components);
    result(Scraper::Inference, components, Some(Category::Inference))
}

/// The published order. Stable, so that equal ones stay in the order they were found.
pub(super) fn sort(components: &mut [Component]) {
    components.sort_by(|a, b| {
        a.component_type
            .cmp(&b.component_type)
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.evidence.locator.cmp(&b.evidence.locator))
    });
}

fn template_annotations(template: &PodTemplateSpec) -> Option<&StringMap> {
    template.metadata.as_ref()?.annotations.as_ref()
}

/// Init containers only count by their image: what they are told to load is not what is served.
fn of_pod(
    detector: &Detector,
    path: &str,
    spec: &PodSpec,
    pods: &[&Pod],
    out: &mut Vec<Component>,
) {
    let rules = &detector.profile.detection;
    for (i, container) in spec.containers.iter().enumerate() {
        let at = format!("{path}.spec.containers[{i}]");
        out.push(image(detector, &at, container, Role::Regular, pods));
        out.extend(runtime(detector, &at, container));
        out.extend(env_models(rules, &at, container));
        out.extend(arg_models(rules, &at, container));
        out.extend(model_data(rules, &at, container, spec));
    }
    for (i, container) in spec.init_containers.iter().flatten().enumerate() {
        let at = format!("{path}.spec.initContainers[{i}]");
        out.push(image(detector, &at, container, Role::Init, pods));
        out.extend(runtime(detector, &at, container));
    }
}

/// The image itself. It is declared once its digest is known: from the reference, or from a pod.
fn image(
    detector: &Detector,
    at: &str,
    container: &Container,
    role: Role,
    pods: &[&Pod],
) -> Component {
    let rules = &detector.profile.detection;
    let text = container.image.as_deref().unwrap_or_default();
    let reference = Reference::parse(text);
    let spec = || Evidence::new(Source::ImageReference, format!("{at}.image"));
    let (digest, evidence) = match &reference.digest {
        Some(digest) => (Some(digest.clone()), spec()),
        None => match pods::running_digest(rules, &container.name, &reference, role, pods) {
            Some((digest, locator)) => (Some(digest), Evidence::new(Source::PodStatus, locator)),
            None => (None, spec()),
        },
    };
    let cut = |text: &str| {
        if rules.cut_containers {
            model::cut(text)
        } else {
            text.to_owned()
        }
    };
    let confidence = if digest.is_some() {
        Confidence::Declared
    } else {
        Confidence::Unresolved
    };
    let component = Component::new(
        ComponentType::Container,
        cut(reference.name),
        evidence,
        confidence,
    )
    .with("image.reference", text)
    .with("container.name", container.name.as_str())
    .with("container.init", (role == Role::Init).to_string());
    Component {
        version: cut(reference.tag),
        digest,
        ..component
    }
}

/// The runtime that the image holds, by the first pattern that matches.
fn runtime(detector: &Detector, at: &str, container: &Container) -> Option<Component> {
    let text = container.image.as_deref()?;
    let matcher = detector.runtimes.iter().find(|known| known.matches(text))?;
    let tag = Reference::parse(text).tag;
    let locator = format!("{at}.image (pattern: {})", matcher.pattern());
    let component = Component::new(
        ComponentType::Application,
        matcher.name(),
        Evidence::new(Source::ImagePattern, locator),
        Confidence::Inferred,
    )
    .with("runtime.name", matcher.name())
    .with("runtime.pattern", matcher.pattern())
    .with("container.name", container.name.as_str())
    // Kept although it may be empty: an empty tag is hashed too.
    .with("image.tag", tag);
    let version = if detector.release_tag.is_match(tag) {
        tag.to_owned()
    } else {
        String::new()
    };
    Some(Component {
        version,
        ..component
    })
}

/// Models named by the environment. Values from elsewhere are not read.
fn env_models<'a>(
    rules: &'a Detection,
    at: &'a str,
    container: &'a Container,
) -> impl Iterator<Item = Component> {
    container
        .env
        .iter()
        .flatten()
        .enumerate()
        .filter_map(move |(j, var)| {
            let value = var.value.as_deref().filter(|value| !value.is_empty())?;
            if !rules.model_env.contains(&var.name.as_str()) {
                return None;
            }
            let locator = format!("{at}.env[{j}]({})", var.name);
            let evidence = Evidence::new(Source::EnvVar, locator);
            Some(
                model::claimed(value, evidence, Confidence::Inferred)
                    .with("identity.envVarName", var.name.as_str())
                    .with("container.name", container.name.as_str()),
            )
        })
}

/// Models named by arguments, as `--model=NAME` or `--model NAME`. The command is not read.
fn arg_models(rules: &Detection, at: &str, container: &Container) -> Vec<Component> {
    let args = container.args.as_deref().unwrap_or_default();
    let known = |flag: &str| rules.model_flags.contains(&flag);
    let mut models = Vec::new();
    let mut add = |flag: &str, value: String, locator: String| {
        models.push(
            model::claimed(
                &value,
                Evidence::new(Source::ContainerArg, locator),
                Confidence::Declared,
            )
            .with("identity.argFlag", flag)
            .with("container.name", container.name.as_str()),
        );
    };
    let mut k = 0;
    while let Some(arg) = args.get(k) {
        if let Some((flag, value)) = arg.split_once('=') {
            if let Some(value) = model_name(value).filter(|_| known(flag)) {
                add(flag, value, format!("{at}.args[{k}]({flag}=)"));
            }
        } else if known(arg)
            && let Some(value) = args.get(k + 1).and_then(|value| model_name(value))
        {
            let next = k + 1;
            add(arg, value, format!("{at}.args[{k} {next}]({arg})"));
            // The value is used up. One that is refused is looked at in its turn.
            k = next;
        }
        k += 1;
    }
    models
}

/// The value of a flag as the name of a model, unless it is rather the next flag.
fn model_name(value: &str) -> Option<String> {
    let name = value.replace(['\n', '\r'], " ");
    (!name.is_empty() && !name.starts_with("--")).then_some(name)
}

/// Volumes mounted where models usually lie.
fn model_data<'a>(
    rules: &'a Detection,
    at: &'a str,
    container: &'a Container,
    spec: &'a PodSpec,
) -> impl Iterator<Item = Component> {
    container
        .volume_mounts
        .iter()
        .flatten()
        .enumerate()
        .filter(|(_, mount)| holds_models(rules, &mount.mount_path))
        .map(move |(m, mount)| {
            let (name, source) = volume_source(spec, mount);
            let locator = format!(
                "{at}.volumeMounts[{m}]({} -> {})",
                mount.name, mount.mount_path
            );
            Component::new(
                ComponentType::Data,
                name,
                Evidence::new(Source::VolumeSource, locator),
                Confidence::Inferred,
            )
            .with("volume.name", mount.name.as_str())
            .with("volume.mountPath", mount.mount_path.as_str())
            .with("volume.source", source)
            .with("container.name", container.name.as_str())
        })
}

fn holds_models(rules: &Detection, path: &str) -> bool {
    rules.model_paths.iter().any(|prefix| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// What is mounted, by name, and from what kind of volume.
fn volume_source(spec: &PodSpec, mount: &VolumeMount) -> (String, &'static str) {
    let mut volumes = spec.volumes.iter().flatten();
    let Some(volume) = volumes.find(|volume| volume.name == mount.name) else {
        return (mount.name.clone(), "unknown");
    };
    named_source(volume).unwrap_or_else(|| (volume.name.clone(), "other"))
}

fn named_source(volume: &Volume) -> Option<(String, &'static str)> {
    let source = if let Some(claim) = &volume.persistent_volume_claim {
        (claim.claim_name.clone(), "persistentVolumeClaim")
    } else if let Some(map) = &volume.config_map {
        (map.name.clone(), "configMap")
    } else if let Some(secret) = &volume.secret {
        (secret.secret_name.clone().unwrap_or_default(), "secret")
    } else if let Some(host) = &volume.host_path {
        (host.path.clone(), "hostPath")
    } else if volume.empty_dir.is_some() {
        (volume.name.clone(), "emptyDir")
    } else if let Some(nfs) = &volume.nfs {
        (format!("{}:{}", nfs.server, nfs.path), "nfs")
    } else if let Some(csi) = &volume.csi {
        (csi.driver.clone(), "csi")
    } else {
        return None;
    };
    Some(source)
}
