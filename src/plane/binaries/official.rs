//! Where each release is published: the file, its checksum, and the member of an archive.

use reqwest::Url;

use super::Want;
use super::error::BinaryError;
use super::platform::Platform;
use super::sha256::Sha256;
use crate::plane::tool::Tool;

/// A published file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release {
    host: &'static str,
    folder: String,
    /// The file's name.
    pub(super) asset: String,
    checksum: String,
    /// The program's path in the archive; `None` when the file is the program.
    pub(super) member: Option<String>,
}

impl Release {
    /// The release that holds a program for this machine.
    pub(super) fn of(want: &Want, platform: Platform) -> Self {
        let Want { tool, version } = want;
        let arch = platform.go_arch();
        match tool {
            Tool::KubeApiserver
            | Tool::KubeControllerManager
            | Tool::KubeScheduler
            | Tool::Kubectl => {
                let name = tool.file_name();
                Self {
                    host: "dl.k8s.io",
                    folder: format!("release/v{version}/bin/linux/{arch}"),
                    asset: name.to_owned(),
                    checksum: format!("{name}.sha256"),
                    member: None,
                }
            }
            Tool::Etcd => {
                let stem = format!("etcd-v{version}-linux-{arch}");
                Self {
                    host: "github.com",
                    folder: format!("etcd-io/etcd/releases/download/v{version}"),
                    asset: format!("{stem}.tar.gz"),
                    checksum: "SHA256SUMS".to_owned(),
                    member: Some(format!("{stem}/etcd")),
                }
            }
            Tool::Helm3 | Tool::Helm4 => {
                let asset = format!("helm-v{version}-linux-{arch}.tar.gz");
                Self {
                    host: "get.helm.sh",
                    folder: String::new(),
                    checksum: format!("{asset}.sha256sum"),
                    asset,
                    member: Some(format!("linux-{arch}/helm")),
                }
            }
        }
    }

    /// The address of the file.
    pub(super) fn url(&self, mirror: Option<&Url>) -> Result<Url, BinaryError> {
        self.address(mirror, &self.asset)
    }

    /// The address of its checksum.
    pub(super) fn checksum_url(&self, mirror: Option<&Url>) -> Result<Url, BinaryError> {
        self.address(mirror, &self.checksum)
    }

    fn address(&self, mirror: Option<&Url>, file: &str) -> Result<Url, BinaryError> {
        let base = match mirror {
            None => format!("https://{}", self.host),
            Some(mirror) => {
                let refused = || BinaryError::Mirror { url: shown(mirror) };
                if !matches!(mirror.scheme(), "http" | "https") {
                    return Err(refused());
                }
                let mut base = mirror.clone();
                base.set_query(None);
                base.set_fragment(None);
                format!("{}/{}", base.as_str().trim_end_matches('/'), self.host)
            }
        };
        let path = [self.folder.as_str(), file].join("/");
        let address = format!("{base}/{}", path.trim_start_matches('/'));
        Url::parse(&address).map_err(|_| BinaryError::Mirror { url: address })
    }
}

/// An address as it may be shown and recorded: without user name and password.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// Finds the digest of `file` in a checksum file: either nothing but a digest, or lines of digest
/// and name as `sha256sum` prints them.
pub(super) fn published_digest(text: &str, file: &str) -> Option<Sha256> {
    if let Ok(digest) = text.trim().parse() {
        return Some(digest);
    }
    text.lines().find_map(|line| {
        let (digest, name) = line.trim_end().split_once(' ')?;
        // The second separator tells text from binary mode, which are the same here.
        let name = name.strip_prefix([' ', '*'])?;
        (name == file).then(|| digest.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plane::binaries::pins;

    fn addresses(tool: Tool, mirror: Option<&str>) -> (String, String) {
        let mirror = mirror.map(|mirror| Url::parse(mirror).expect("an address"));
        let want = Want {
            tool,
            version: pins::wanted(tool, &pins::DEFAULT_KUBERNETES),
        };
        let release = Release::of(&want, Platform::Arm64);
        (
            release.url(mirror.as_ref()).expect("valid").to_string(),
            release
                .checksum_url(mirror.as_ref())
                .expect("valid")
                .to_string(),
        )
    }

    #[test]
    fn each_release_is_where_its_project_publishes_it() {
        assert_eq!(
            addresses(Tool::KubeScheduler, None),
            (
                "https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kube-scheduler".to_owned(),
                "https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kube-scheduler.sha256"
                    .to_owned()
            )
        );
        let etcd = "https://github.com/etcd-io/etcd/releases/download/v3.6.15";
        assert_eq!(
            addresses(Tool::Etcd, None),
            (
                format!("{etcd}/etcd-v3.6.15-linux-arm64.tar.gz"),
                format!("{etcd}/SHA256SUMS")
            )
        );
        assert_eq!(
            addresses(Tool::Helm4, None),
            (
                "https://get.helm.sh/helm-v4.3.1-linux-arm64.tar.gz".to_owned(),
                "https://get.helm.sh/helm-v4.3.1-linux-arm64.tar.gz.sha256sum".to_owned()
            )
        );
    }

    #[test]
    fn a_mirror_holds_one_folder_per_host() {
        for mirror in [
            "http://127.0.0.1:8080/base",
            "http://127.0.0.1:8080/base/?x=1",
        ] {
            assert_eq!(
                addresses(Tool::Helm3, Some(mirror)).0,
                "http://127.0.0.1:8080/base/get.helm.sh/helm-v3.22.0-linux-arm64.tar.gz"
            );
        }
        let mirror = Url::parse("ftp://host/").expect("an address");
        let want = Want {
            tool: Tool::Etcd,
            version: pins::ETCD,
        };
        let release = Release::of(&want, Platform::Amd64);
        assert!(matches!(
            release.url(Some(&mirror)),
            Err(BinaryError::Mirror { .. })
        ));
    }

    #[test]
    fn a_password_is_not_shown() {
        let url = Url::parse("https://me:secret@host/x").expect("an address");
        assert_eq!(shown(&url), "https://host/x");
    }

    #[test]
    fn digests_are_found_in_each_form() {
        let (one, two) = (Sha256::of(&[b"1"]), Sha256::of(&[b"2"]));
        assert_eq!(published_digest(&format!("{one}\n"), "any"), Some(one));
        let sums = format!("{one}  a.tar.gz\n{two} *b.tar.gz\n");
        assert_eq!(published_digest(&sums, "a.tar.gz"), Some(one));
        assert_eq!(published_digest(&sums, "b.tar.gz"), Some(two));
        assert_eq!(published_digest(&sums, "c.tar.gz"), None);
        assert_eq!(published_digest("<html>", "a.tar.gz"), None);
        assert_eq!(published_digest("", "a.tar.gz"), None);
    }

    proptest::proptest! {
        /// A digest is found exactly where its line names the file, whatever stands around it.
        #[test]
        fn a_digest_belongs_to_the_file_of_its_line(
            noise in "(?s)[^0-9a-f]{0,60}",
            name in "[a-z][a-z0-9.-]{0,20}",
            content: Vec<u8>,
        ) {
            let digest = Sha256::of(&[&content]);
            proptest::prop_assert_eq!(published_digest(&noise, &name), None);
            let sums = format!("{noise}\n{digest}  {name}\n{noise}");
            proptest::prop_assert_eq!(published_digest(&sums, &name), Some(digest));
            let other = format!("{name}.asc");
            proptest::prop_assert_eq!(published_digest(&sums, &other), None);
        }
    }
}
