//! What is to be made, and where.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::mix::Mix;

/// A name as namespaces have it: up to 63 lower-case letters, digits and `-`, the latter neither first
/// nor last (RFC 1123).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DnsLabel(String);

/// A text is not the name that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a name: write up to 63 of a-z, 0-9 and -, and begin and end with a letter or digit"
)]
pub struct NotALabel(String);

impl FromStr for DnsLabel {
    type Err = NotALabel;

    fn from_str(text: &str) -> Result<Self, NotALabel> {
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let valid = (1..=63).contains(&text.len())
            && text.chars().all(is_inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotALabel(text.to_owned()))
        }
    }
}

impl DnsLabel {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DnsLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Workloads of one or more namespaces. Two plans that are equal make the same objects, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which workloads.
    pub mix: Mix,
    /// The number of the first one, from 0. A plan that begins where another one ends goes on with it.
    pub first: u32,
    /// How many. A plan of more makes the same ones first.
    pub count: u32,
    /// What is left to chance is drawn with this.
    pub seed: u64,
    /// The namespaces, to which the workloads go in turn by their numbers. Without one nothing is made.
    pub namespaces: Vec<DnsLabel>,
    /// The labels of each namespace: what opts it in.
    pub namespace_labels: BTreeMap<String, String>,
}

impl Plan {
    /// The workloads, in the order in which they are to be made.
    pub fn workloads(&self) -> impl Iterator<Item = Deployment> {
        let numbers = self.first..self.first.saturating_add(self.count);
        let many = self.namespaces.len().max(1);
        let before = usize::try_from(self.first).map_or(0, |first| first % many);
        let namespaces = self.namespaces.iter().cycle().skip(before);
        numbers.zip(namespaces).map(|(index, namespace)| {
            let mut workload = self.mix.workload(index, self.seed);
            workload.metadata.namespace = Some(namespace.to_string());
            workload
        })
    }

    /// The namespaces of the workloads, as objects.
    pub fn namespace_objects(&self) -> impl Iterator<Item = Namespace> {
        self.namespaces.iter().map(|name| Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_string()),
                labels: Some(self.namespace_labels.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(count: u32, seed: u64) -> Plan {
        Plan {
            mix: Mix::VllmReplicas0,
            first: 0,
            count,
            seed,
            namespaces: vec!["load".parse().expect("a name")],
            namespace_labels: BTreeMap::new(),
        }
    }

    #[test]
    fn a_plan_makes_the_same_workloads_every_time() {
        let [one, again, other] = [7, 7, 8].map(|seed| plan(50, seed).workloads().collect());
        let one: Vec<Deployment> = one;
        assert_eq!(one, again);
        assert_ne!(one, other);
        let names: std::collections::BTreeSet<_> =
            one.iter().map(|object| &object.metadata.name).collect();
        assert_eq!(names.len(), 50);
    }

    #[test]
    fn a_plan_of_more_begins_alike() {
        let few: Vec<_> = plan(10, 7).workloads().collect();
        let many: Vec<_> = plan(30, 7).workloads().take(10).collect();
        assert_eq!(few, many);
    }

    #[test]
    fn a_plan_goes_on_where_another_one_ends() {
        let namespaces = ["a", "b", "c"].map(|name| name.parse().expect("a name"));
        let of = |first, count| Plan {
            first,
            namespaces: namespaces.to_vec(),
            ..plan(count, 7)
        };
        let whole: Vec<_> = of(0, 20).workloads().collect();
        let parts: Vec<_> = of(0, 4).workloads().chain(of(4, 16).workloads()).collect();
        assert_eq!(whole, parts);
        let spread: Vec<_> = whole
            .iter()
            .filter_map(|object| object.metadata.namespace.as_deref())
            .collect();
        assert_eq!(spread[..4], ["a", "b", "c", "a"]);
    }

    #[test]
    fn names_are_checked() {
        let longest = "a".repeat(63);
        for good in ["a", "load-1", "0", &longest] {
            assert_eq!(good.parse::<DnsLabel>().expect("a name").as_str(), good);
        }
        let longer = "a".repeat(64);
        for bad in ["", "-a", "a-", "A", "a.b", "ä", &longer] {
            assert_eq!(bad.parse::<DnsLabel>(), Err(NotALabel(bad.to_owned())));
        }
    }
}
