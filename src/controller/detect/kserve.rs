//! Runtime and model of a KServe `InferenceService`.

use super::component::{Component, ComponentType, Confidence, Evidence, Scrape, Source};
use super::{Detector, inference, model, result};
use crate::controller::profile::kind::Scraper;
use crate::controller::workload::{Predictor, Workload};

/// The category is left open, as the kind itself says that it is inference.
pub(super) fn scrape(detector: &Detector, workload: &Workload<'_>) -> Scrape {
    let rules = &detector.profile.detection;
    let mut components: Vec<_> = model::annotated(
        rules,
        workload.annotations,
        Source::WorkloadAnnotation,
        "metadata.annotations",
    )
    .collect();
    if let Some(predictor) = &workload.predictor {
        components.extend(runtime(predictor));
        components.extend(stored_model(predictor));
    }
    model::claim_signatures(
        rules,
        std::iter::once(workload.annotations),
        &mut components,
    );
    inference::sort(&mut components);
    result(Scraper::KServe, components, None)
}

fn runtime(predictor: &Predictor<'_>) -> Option<Component> {
    (!predictor.format.is_empty()).then(|| {
        let locator = "spec.predictor.model.modelFormat.name";
        let component = Component::new(
            ComponentType::Application,
            predictor.format,
            Evidence::new(Source::CrdField, locator),
            Confidence::Declared,
        )
        .with("runtime.name", predictor.format)
        .with("runtime.source", "kserve.predictor.model.modelFormat")
        .with_known("kserve.runtime.ref", predictor.runtime)
        .with_known("kserve.serviceAccountName", predictor.service_account);
        Component {
            version: predictor.format_version.to_owned(),
            ..component
        }
    })
}

fn stored_model(predictor: &Predictor<'_>) -> Option<Component> {
    (!predictor.storage_uri.is_empty()).then(|| {
        let evidence = Evidence::new(Source::CrdField, "spec.predictor.model.storageUri");
        model::claimed(predictor.storage_uri, evidence, Confidence::Declared)
            .with("identity.source", "kserve.storageUri")
            .with_known("kserve.serviceAccountName", predictor.service_account)
    })
}
