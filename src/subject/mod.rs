//! What the harness knows about the thing under test, as data.
//!
//! Nothing else in the harness names the `k8s-aibom` controller, so that another one can be qualified
//! by another subject. The room is pure: it knows no clients, no planes and no nodes.

pub mod cost;
pub mod images;

/// A controller that can be qualified.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The name of its chart, which is the value of the label `app.kubernetes.io/name` of its objects.
    pub chart: &'static str,
    /// The API group of its kinds.
    pub group: &'static str,
    /// The version through which the inventory is read, newest first: the first that is served.
    pub versions: &'static [&'static str],
    /// The plural of the kind that holds the inventory.
    pub inventory: &'static str,
    /// The plural of the kind that configures it.
    pub config: &'static str,
    /// The kind that configures it.
    pub config_kind: &'static str,
    /// The name of its only configuration object.
    pub config_name: &'static str,
    /// The label by which a namespace opts in.
    pub opt_in: (&'static str, &'static str),
    /// The container's port that serves the metrics.
    pub metrics_port: u16,
}

impl Subject {
    /// The name of the definition of the inventory.
    #[must_use]
    pub fn inventory_crd(&self) -> String {
        format!("{}.{}", self.inventory, self.group)
    }

    /// The name of the definition of the configuration.
    #[must_use]
    pub fn config_crd(&self) -> String {
        format!("{}.{}", self.config, self.group)
    }
}

/// The controller that this tool was made for (`controller.md` A, B.2, G).
pub static K8S_AIBOM: Subject = Subject {
    chart: "k8s-aibom",
    group: "aibom.k8saibom.dev",
    versions: &["v1beta1", "v1alpha1"],
    inventory: "aiboms",
    config: "aibomcontrollerconfigs",
    config_kind: "AIBOMControllerConfig",
    config_name: "default",
    opt_in: ("aibom.k8saibom.dev/enabled", "true"),
    metrics_port: 8080,
};
