//! Models that a workload names itself, and the rules that all of them share.

use super::component::{Component, ComponentType, Confidence, Evidence, Source};
use crate::controller::profile::{Detection, Signatures};
use crate::controller::workload::StringMap;

/// Annotations with this prefix name a model.
const PREFIX: &str = "model.k8saibom.dev/";
/// Names longer than this, in characters, are cut…
const LONGEST: usize = 1024;
/// …and end in this, so that they are exactly that long.
const CUT_MARK: &str = "...[truncated]";

/// A model that is claimed, not proven, to be what its name says.
pub(super) fn claimed(name: &str, evidence: Evidence, confidence: Confidence) -> Component {
    Component::new(
        ComponentType::MachineLearningModel,
        cut(name),
        evidence,
        confidence,
    )
    .with("identity.confidence", "claimed")
}

/// Models named by annotations. `at` is the path of the annotations.
pub(super) fn annotated<'a>(
    rules: &'a Detection,
    annotations: &'a StringMap,
    source: Source,
    at: &'a str,
) -> impl Iterator<Item = Component> {
    annotations
        .iter()
        .filter(|(key, value)| {
            key.starts_with(PREFIX)
                && !value.is_empty()
                && !rules.reserved_annotations.contains(&key.as_str())
        })
        .map(move |(key, value)| {
            let evidence = Evidence::new(source, format!("{at}[{key}]"));
            claimed(value, evidence, Confidence::Declared).with("identity.annotation", key.as_str())
        })
}

/// Marks every model as signed, if one of the annotation maps claims so.
pub(super) fn claim_signatures<'a>(
    rules: &Detection,
    mut annotations: impl Iterator<Item = &'a StringMap>,
    components: &mut [Component],
) {
    let Signatures::Claimed(key) = rules.signatures else {
        return;
    };
    if annotations.any(|map| map.get(key).is_some_and(|value| !value.is_empty())) {
        for component in components {
            if component.component_type == ComponentType::MachineLearningModel {
                component
                    .properties
                    .insert("signature.status", "claimed".to_owned());
            }
        }
    }
}

/// `name`, cut if it is too long. Counted in characters, so that none is cut in two.
pub(super) fn cut(name: &str) -> String {
    if name.chars().nth(LONGEST).is_none() {
        return name.to_owned();
    }
    let kept = name.chars().take(LONGEST - CUT_MARK.len());
    kept.chain(CUT_MARK.chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_to_its_longest_length_in_characters() {
        let longest = "é".repeat(LONGEST);
        assert_eq!(cut(&longest), longest);
        let cut = cut(&format!("{longest}é"));
        assert_eq!(cut, format!("{}...[truncated]", "é".repeat(1010)));
        assert_eq!(cut.chars().count(), LONGEST);
    }
}
