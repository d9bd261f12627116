//! The images of the controller, and how the embedded one stands in for each.

/// The repository of every release's image.
pub const REPOSITORY: &str = "ghcr.io/googlecloudplatform/k8s-aibom";
/// The user that the image runs as, if the pod does not say.
pub const USER: u32 = 65_532;
/// Where the controller serves its metrics by default.
const METRICS_PORT: u16 = 8080;
/// Where the controller serves its health by default.
const HEALTH_PORT: u16 = 8081;

/// The image of one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerImage {
    /// The release, as `--profile` of the embedded controller takes it.
    pub release: &'static str,
    /// Its tag.
    pub tag: &'static str,
    /// Its digest, where it is known.
    pub digest: Option<&'static str>,
}

/// The image of each release that the charts install, oldest first.
pub static CONTROLLERS: [ControllerImage; 4] = [
    ControllerImage {
        release: "1.2.0",
        tag: "v1.2.0",
        digest: Some("sha256:b5040d14a20b4e890956d5f47b78445dac6c871eb5799586d9011c48ce71c198"),
    },
    ControllerImage {
        release: "1.3.0",
        tag: "v1.3.0",
        digest: Some("sha256:f8e48d4edc44e6ee8e40a2ac6c5f60b190aa18d411a75702dc5798a77a039e8d"),
    },
    ControllerImage {
        release: "1.5.1",
        tag: "v1.5.1",
        digest: Some("sha256:7b02731563a5ec524ed3396a07a524b02e3f51e17c976e02e65fc680b51e8164"),
    },
    ControllerImage {
        release: "1.6.0",
        tag: "v1.6.0",
        digest: None,
    },
];

impl ControllerImage {
    /// The image's reference, with tag and, where it is known, digest.
    #[must_use]
    pub fn reference(&self) -> String {
        match self.digest {
            Some(digest) => format!("{REPOSITORY}:{}@{digest}", self.tag),
            None => format!("{REPOSITORY}:{}", self.tag),
        }
    }

    /// The arguments with which this tool's own executable is what the image holds. `{port:N}` stands
    /// for the port that is the container's port N; what the pod adds comes after and wins.
    #[must_use]
    pub fn args(&self) -> [String; 7] {
        [
            "controller".to_owned(),
            "--profile".to_owned(),
            self.release.to_owned(),
            "--metrics-bind-address".to_owned(),
            format!("127.0.0.1:{{port:{METRICS_PORT}}}"),
            "--health-probe-bind-address".to_owned(),
            format!("127.0.0.1:{{port:{HEALTH_PORT}}}"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    fn read(release: &str, file: &str) -> Value {
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts");
        let text = std::fs::read_to_string(charts.join(release).join(file)).expect("the file");
        serde_yaml::from_str(&text).expect("YAML")
    }

    #[test]
    fn the_images_are_those_of_the_charts() {
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts");
        let folders = std::fs::read_dir(charts).expect("the charts").flatten();
        let charts = folders.filter(|entry| entry.path().is_dir()).count();
        assert_eq!(charts, CONTROLLERS.len());
        for image in &CONTROLLERS {
            let values = read(image.release, "values.yaml");
            let chart = read(image.release, "Chart.yaml");
            assert_eq!(values["image"]["repository"], REPOSITORY);
            assert_eq!(values["image"]["tag"], "", "{}", image.release);
            assert_eq!(values["image"]["digest"], image.digest.unwrap_or_default());
            assert_eq!(chart["appVersion"], image.tag);
            assert_eq!(chart["version"], image.release);
            assert_eq!(values["securityContext"]["runAsUser"], USER);
        }
    }

    #[test]
    fn a_known_digest_is_part_of_the_reference() {
        let references = CONTROLLERS.map(|image| image.reference());
        assert!(references[0].starts_with("ghcr.io/googlecloudplatform/k8s-aibom:v1.2.0@sha256:"));
        assert_eq!(
            references[3],
            "ghcr.io/googlecloudplatform/k8s-aibom:v1.6.0"
        );
    }

    #[test]
    fn every_release_has_a_profile() {
        for image in &CONTROLLERS {
            let profile = crate::controller::profile::Profile::named(image.release);
            profile.expect("the embedded controller knows it");
        }
    }
}
