//! The kinds of workload that a release may track, and how each is read.

/// Where a kind comes from, and thereby whether every cluster serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Every cluster serves it.
    Kubernetes,
    /// Served once its definition is installed.
    ThirdParty,
}

/// What of an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Pod templates at these paths.
    Templates(&'static [&'static str]),
    /// The predictor of an `InferenceService`.
    Predictor,
    /// Only the object's own annotations.
    Annotations,
}

/// Something that looks for components in a workload, under the name it signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scraper {
    /// Runtimes, models, model volumes and images of a pod template.
    Inference,
    /// Vector databases by image.
    VectorDatabase,
    /// Agent frameworks and remote model APIs.
    Agent,
    /// Training frameworks and data sets.
    Training,
    /// Evaluation harnesses by image.
    Evaluation,
    /// Runtime and model of an `InferenceService`.
    KServe,
}

impl Scraper {
    /// The name in provenance entries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inference => "inference.spec",
            Self::VectorDatabase => "vectordb.spec",
            Self::Agent => "agent.spec",
            Self::Training => "training.spec",
            Self::Evaluation => "eval.spec",
            Self::KServe => "inference.kserve",
        }
    }
}

/// One kind of workload.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version without the group.
    pub version: &'static str,
    /// Kind, in upper camel case.
    pub kind: &'static str,
    /// The resource in URLs.
    pub plural: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// What of it is read.
    pub content: Content,
    /// Who looks at it, in this order.
    pub scrapers: &'static [Scraper],
}

impl Kind {
    /// Group and version as objects spell them: `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The entry that an allow-list names the kind by: `apps/Deployment`.
    #[must_use]
    pub fn group_kind(&self) -> String {
        format!("{}/{}", self.group, self.kind)
    }

    /// The label value of the kind's controller in metrics.
    #[must_use]
    pub fn controller(&self) -> String {
        self.kind.to_lowercase()
    }
}

const TEMPLATE: Content = Content::Templates(&["spec.template"]);
const SERVING: &[Scraper] = &[Scraper::Inference, Scraper::VectorDatabase, Scraper::Agent];
const BATCH: &[Scraper] = &[Scraper::Training, Scraper::Evaluation];

const fn apps(kind: &'static str, plural: &'static str) -> Kind {
    Kind {
        group: "apps",
        version: "v1",
        kind,
        plural,
        origin: Origin::Kubernetes,
        content: TEMPLATE,
        scrapers: SERVING,
    }
}

const fn third_party(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    content: Content,
) -> Kind {
    Kind {
        group,
        version,
        kind,
        plural,
        origin: Origin::ThirdParty,
        content,
        scrapers: &[Scraper::Inference],
    }
}

/// `apps/v1` Deployment.
pub static DEPLOYMENT: Kind = apps("Deployment", "deployments");
/// `apps/v1` StatefulSet.
pub static STATEFUL_SET: Kind = apps("StatefulSet", "statefulsets");
/// `apps/v1` DaemonSet.
pub static DAEMON_SET: Kind = apps("DaemonSet", "daemonsets");
/// `batch/v1` Job.
pub static JOB: Kind = Kind {
    group: "batch",
    version: "v1",
    kind: "Job",
    plural: "jobs",
    origin: Origin::Kubernetes,
    content: TEMPLATE,
    scrapers: BATCH,
};
/// `batch/v1` CronJob.
pub static CRON_JOB: Kind = Kind {
    group: "batch",
    version: "v1",
    kind: "CronJob",
    plural: "cronjobs",
    origin: Origin::Kubernetes,
    content: Content::Templates(&["spec.jobTemplate.spec.template"]),
    scrapers: BATCH,
};
/// KServe's InferenceService.
pub static INFERENCE_SERVICE: Kind = Kind {
    scrapers: &[Scraper::KServe],
    ..third_party(
        "serving.kserve.io",
        "v1beta1",
        "InferenceService",
        "inferenceservices",
        Content::Predictor,
    )
};
/// NVIDIA Dynamo's graph of components.
pub static DYNAMO_GRAPH_DEPLOYMENT: Kind = third_party(
    "nvidia.com",
    "v1alpha1",
    "DynamoGraphDeployment",
    "dynamographdeployments",
    Content::Annotations,
);
/// One component of a Dynamo graph.
pub static DYNAMO_COMPONENT_DEPLOYMENT: Kind = third_party(
    "nvidia.com",
    "v1alpha1",
    "DynamoComponentDeployment",
    "dynamocomponentdeployments",
    Content::Annotations,
);
/// NVIDIA's operator-managed inference service.
pub static NIM_SERVICE: Kind = third_party(
    "apps.nvidia.com",
    "v1alpha1",
    "NIMService",
    "nimservices",
    Content::Annotations,
);
/// LeaderWorkerSet.
pub static LEADER_WORKER_SET: Kind = third_party(
    "leaderworkerset.x-k8s.io",
    "v1",
    "LeaderWorkerSet",
    "leaderworkersets",
    Content::Templates(&[
        "spec.leaderWorkerTemplate.leaderTemplate",
        "spec.leaderWorkerTemplate.workerTemplate",
    ]),
);
/// DisaggregatedSet.
pub static DISAGGREGATED_SET: Kind = third_party(
    "disaggregatedset.x-k8s.io",
    "v1",
    "DisaggregatedSet",
    "disaggregatedsets",
    Content::Annotations,
);
