//! Both Helm majors, from where a user's command would get them, and the charts of this repository.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aibom_qual::host::launch::Launcher;
use aibom_qual::plane::binaries::{DEFAULT_KUBERNETES, Environment, Request, Sources, ensure};
use aibom_qual::plane::event::Silent;
use aibom_qual::plane::tool::Tool;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::support::{EXE, World};

/// The versions of the charts, oldest first.
pub(crate) const CHARTS: [&str; 4] = ["1.2.0", "1.3.0", "1.5.1", "1.6.0"];

/// The folder of a chart.
pub(crate) fn chart(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("charts")
        .join(version)
}

/// One Helm that sees neither the user's settings nor the user's cluster.
pub(crate) struct Helm {
    pub(crate) tool: Tool,
    program: PathBuf,
    home: PathBuf,
    kubeconfig: PathBuf,
}

/// Both majors, without a cluster.
pub(crate) async fn both(world: &World) -> [Helm; 2] {
    let tools = [Tool::Helm3, Tool::Helm4];
    let request = Request {
        tools: tools.to_vec(),
        kubernetes: DEFAULT_KUBERNETES,
        explicit: None,
        sources: Sources::new(Environment::from_process()),
    };
    let binaries = ensure(&world.dirs, &Launcher::new(EXE), &request, &Silent).await;
    let binaries = binaries.expect("both Helm majors");
    tools.map(|tool| Helm {
        tool,
        program: binaries.get(tool).expect("it was asked for").path.clone(),
        home: world.path(&format!("home-{tool}")),
        kubeconfig: world.path("no-cluster"),
    })
}

impl Helm {
    /// The same with a cluster.
    pub(crate) fn with_cluster(self, kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, ..self }
    }

    /// Runs it to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        Command::new(&self.program)
            .args(args)
            .env_clear()
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .expect("helm starts")
    }

    /// What it writes to its standard output when all is well.
    pub(crate) fn stdout<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let output = self.run(args);
        assert!(
            output.status.success(),
            "{}: {}{}",
            self.tool,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// The objects of a chart, sorted by kind and name, under the usual release name.
    pub(crate) fn render(&self, version: &str, values: &[&str]) -> Vec<Value> {
        self.render_as("k8s-aibom", version, values)
    }

    /// The same under any release name.
    pub(crate) fn render_as(&self, release: &str, version: &str, values: &[&str]) -> Vec<Value> {
        let chart = chart(version);
        let mut args: Vec<&OsStr> = ["template", release, "-n", "k8s-aibom-system"]
            .map(OsStr::new)
            .to_vec();
        args.push(chart.as_os_str());
        for value in values {
            args.extend(["--set-json", value].map(OsStr::new));
        }
        documents(&self.stdout(args))
    }
}

/// The objects of a stream, sorted by kind and name.
pub(crate) fn documents(stream: &str) -> Vec<Value> {
    let mut objects: Vec<Value> = serde_yaml::Deserializer::from_str(stream)
        .map(|document| Value::deserialize(document).expect("a document of YAML"))
        .filter(|value| !value.is_null())
        .collect();
    objects.sort_by_key(identity);
    objects
}

/// `KIND NAMESPACE/NAME`, or `KIND NAME` outside of namespaces.
pub(crate) fn identity(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (word(&object["kind"]), word(&object["metadata"]["name"]));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// The one object of this identity.
pub(crate) fn find<'a>(objects: &'a [Value], wanted: &str) -> &'a Value {
    let found = objects.iter().find(|object| identity(object) == wanted);
    found.unwrap_or_else(|| {
        let all: Vec<String> = objects.iter().map(identity).collect();
        panic!("{wanted} is not among {all:?}")
    })
}

pub(crate) const DEPLOYMENT: &str = "Deployment k8s-aibom-system/k8s-aibom";
pub(crate) const CONFIG: &str = "AIBOMControllerConfig default";

pub(crate) fn container(objects: &[Value]) -> &Value {
    &find(objects, DEPLOYMENT)["spec"]["template"]["spec"]["containers"][0]
}

/// The labels by which the Deployment finds its pods.
pub(crate) fn selector() -> Value {
    json!({
        "app.kubernetes.io/name": "k8s-aibom",
        "app.kubernetes.io/instance": "k8s-aibom",
    })
}

/// What a role grants, as `GROUP/RESOURCE: VERBS`.
pub(crate) fn granted(role: &Value) -> BTreeSet<String> {
    let words = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut all = BTreeSet::new();
    for rule in role["rules"].as_array().expect("rules") {
        let mut verbs = words(&rule["verbs"]);
        verbs.sort();
        let verbs = verbs.join(" ");
        for address in words(&rule["nonResourceURLs"]) {
            all.insert(format!("{address} (address): {verbs}"));
        }
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                all.insert(format!("{group}/{resource}: {verbs}"));
            }
        }
    }
    all
}
