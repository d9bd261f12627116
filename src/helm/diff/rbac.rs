//! Permissions, one by one: roles that are written in different ways may grant the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::helm::objects::identity;

/// What is granted on what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum On {
    /// An address that is no resource.
    Address(String),
    /// `GROUP/RESOURCE`, or `RESOURCE` of the core group; one object of it, or all.
    Resource(String, Option<String>),
}

/// One verb of a role on one thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Grant {
    role: String,
    on: On,
    verb: String,
}

/// What the roles among these objects grant.
pub(super) fn grants(objects: &[Value]) -> BTreeSet<Grant> {
    let is_role = |object: &&Value| object["kind"] == "ClusterRole" || object["kind"] == "Role";
    let mut grants = BTreeSet::new();
    for object in objects.iter().filter(is_role) {
        let role = identity(object);
        for rule in object["rules"].as_array().into_iter().flatten() {
            for on in things(rule) {
                for verb in words(&rule["verbs"]) {
                    grants.insert(Grant {
                        role: role.clone(),
                        on: on.clone(),
                        verb: verb.to_owned(),
                    });
                }
            }
        }
    }
    grants
}

fn things(rule: &Value) -> Vec<On> {
    let mut things: Vec<On> = words(&rule["nonResourceURLs"])
        .map(|address| On::Address(address.to_owned()))
        .collect();
    let names: Vec<&str> = words(&rule["resourceNames"]).collect();
    for group in words(&rule["apiGroups"]) {
        for resource in words(&rule["resources"]) {
            let resource = match group {
                "" => resource.to_owned(),
                group => format!("{group}/{resource}"),
            };
            if names.is_empty() {
                things.push(On::Resource(resource, None));
            } else {
                let named = names.iter().map(|name| Some((*name).to_owned()));
                things.extend(named.map(|name| On::Resource(resource.clone(), name)));
            }
        }
    }
    things
}

fn words(value: &Value) -> impl Iterator<Item = &str> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(Value::as_str)
}

/// One line for each thing of a role, with all its verbs.
pub(super) fn in_words<'a>(grants: impl Iterator<Item = &'a Grant>) -> Vec<String> {
    let mut verbs: BTreeMap<(&str, &On), Vec<&str>> = BTreeMap::new();
    for grant in grants {
        let key = (grant.role.as_str(), &grant.on);
        verbs.entry(key).or_default().push(&grant.verb);
    }
    let lines = verbs.into_iter().map(|((role, on), verbs)| {
        let verbs = verbs.join(", ");
        match on {
            On::Address(address) => format!("{role}: {verbs} on {address}"),
            On::Resource(resource, None) => format!("{role}: {verbs} on {resource}"),
            On::Resource(resource, Some(name)) => {
                format!("{role}: {verbs} on {resource} named {name}")
            }
        }
    });
    lines.collect()
}
