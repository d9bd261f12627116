//! The command line of each component. The set of flags is the one that worked on 1.36.3 and 1.35;
//! older releases than `binaries::OLDEST_KUBERNETES` are refused before it is used.

use std::ffi::OsString;
use std::path::Path;

use super::layout::Layout;
use super::pki::{Pair, Pki};
use super::tool::Tool;

/// Requests per second that the controller manager may send. The default of 20 makes a thousand
/// Deployments wait for minutes.
const KCM_QPS: u32 = 500;
const KCM_BURST: u32 = 1000;

/// Controllers that need a cloud, or bootstrap tokens, which a plane does not have.
const CONTROLLERS: &str = "*,-bootstrap-signer-controller,-token-cleaner-controller,\
                           -service-lb-controller,-node-route-controller,-cloud-node-lifecycle-controller";

/// Addresses that pods' Services get; its first one is in the serving certificate.
const SERVICE_CIDR: &str = "10.0.0.0/24";

/// A list of flags under construction.
#[derive(Debug, Default)]
struct Flags(Vec<OsString>);

impl Flags {
    fn value(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        self.0.push(flag);
        self
    }

    fn on(mut self, name: &str) -> Self {
        self.0.push(format!("--{name}").into());
        self
    }

    fn when(self, condition: bool, then: impl FnOnce(Self) -> Self) -> Self {
        if condition { then(self) } else { self }
    }

    fn extra(mut self, extra: &[String]) -> Vec<OsString> {
        self.0.extend(extra.iter().map(OsString::from));
        self.0
    }
}

fn loopback(scheme: &str, port: u16) -> String {
    format!("{scheme}://127.0.0.1:{port}")
}

/// etcd's address for clients on this machine.
pub(crate) fn etcd_url(port: u16) -> String {
    loopback("http", port)
}

/// The address of a component that serves HTTPS on this machine.
pub(crate) fn https_url(port: u16) -> String {
    loopback("https", port)
}

/// Arguments of etcd. `durable` keeps fsync on: only a throw-away plane may lose its last writes.
pub(crate) fn etcd(
    layout: &Layout,
    client: u16,
    peer: u16,
    durable: bool,
    extra: &[String],
) -> Vec<OsString> {
    let (client, peer) = (etcd_url(client), etcd_url(peer));
    Flags::default()
        .value("name", "n0")
        .value("data-dir", layout.etcd())
        .value("listen-client-urls", &client)
        .value("advertise-client-urls", &client)
        .value("listen-peer-urls", &peer)
        .value("initial-advertise-peer-urls", &peer)
        .value("initial-cluster", format!("n0={peer}"))
        .when(!durable, |flags| flags.on("unsafe-no-fsync"))
        .extra(extra)
}

/// Arguments of kube-apiserver.
pub(crate) fn apiserver(pki: &Pki, etcd: u16, port: u16, extra: &[String]) -> Vec<OsString> {
    Flags::default()
        .value("etcd-servers", etcd_url(etcd))
        .value("bind-address", "127.0.0.1")
        .value("advertise-address", "127.0.0.1")
        .value("secure-port", port.to_string())
        .value("cert-dir", pki.dir())
        .value("tls-cert-file", pki.apiserver().cert())
        .value("tls-private-key-file", pki.apiserver().key())
        .value("client-ca-file", pki.client_ca().cert())
        .value(
            "service-account-issuer",
            "https://kubernetes.default.svc.cluster.local",
        )
        .value("service-account-key-file", pki.service_account_public_key())
        .value(
            "service-account-signing-key-file",
            pki.service_account_private_key(),
        )
        .value("service-cluster-ip-range", SERVICE_CIDR)
        .value("authorization-mode", "Node,RBAC")
        .value("enable-admission-plugins", "NodeRestriction")
        .on("allow-privileged")
        .value("endpoint-reconciler-type", "none")
        .value("requestheader-client-ca-file", pki.front_proxy_ca().cert())
        .value("requestheader-allowed-names", Pki::FRONT_PROXY_NAME)
        .value("requestheader-username-headers", "X-Remote-User")
        .value("requestheader-group-headers", "X-Remote-Group")
        .value("requestheader-extra-headers-prefix", "X-Remote-Extra-")
        .value("proxy-client-cert-file", pki.front_proxy_client().cert())
        .value("proxy-client-key-file", pki.front_proxy_client().key())
        .value("kubelet-certificate-authority", pki.server_ca().cert())
        .value("kubelet-client-certificate", pki.kubelet_client().cert())
        .value("kubelet-client-key", pki.kubelet_client().key())
        .value("kubelet-preferred-address-types", "InternalIP,Hostname")
        .extra(extra)
}

/// Arguments of kube-controller-manager.
pub(crate) fn controller_manager(
    layout: &Layout,
    pki: &Pki,
    serving: &Pair,
    port: u16,
    extra: &[String],
) -> Vec<OsString> {
    client_of_the_api_server(
        &layout.component_kubeconfig(Tool::KubeControllerManager),
        serving,
        port,
    )
    .on("use-service-account-credentials")
    .value("root-ca-file", pki.server_ca().cert())
    .value(
        "service-account-private-key-file",
        pki.service_account_private_key(),
    )
    .value("controllers", CONTROLLERS)
    .value("kube-api-qps", KCM_QPS.to_string())
    .value("kube-api-burst", KCM_BURST.to_string())
    .extra(extra)
}

/// Arguments of kube-scheduler.
pub(crate) fn scheduler(
    layout: &Layout,
    serving: &Pair,
    port: u16,
    extra: &[String],
) -> Vec<OsString> {
    client_of_the_api_server(
        &layout.component_kubeconfig(Tool::KubeScheduler),
        serving,
        port,
    )
    .extra(extra)
}

fn client_of_the_api_server(kubeconfig: &Path, serving: &Pair, port: u16) -> Flags {
    Flags::default()
        .value("kubeconfig", kubeconfig)
        .value("authentication-kubeconfig", kubeconfig)
        .value("authorization-kubeconfig", kubeconfig)
        .value("bind-address", "127.0.0.1")
        .value("secure-port", port.to_string())
        .value("tls-cert-file", serving.cert())
        .value("tls-private-key-file", serving.key())
        // There is one of each; an election would only add its requests and its delay.
        .value("leader-elect", "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag_names(args: &[OsString]) -> Vec<String> {
        args.iter()
            .filter_map(|arg| arg.to_str())
            .map(|arg| arg.split('=').next().unwrap_or_default().to_owned())
            .collect()
    }

    fn layout() -> Layout {
        Layout::new("/planes/p".into())
    }

    #[test]
    fn only_a_throw_away_plane_skips_fsync() {
        let names = |durable| flag_names(&etcd(&layout(), 1, 2, durable, &[]));
        assert!(names(false).contains(&"--unsafe-no-fsync".to_owned()));
        assert!(!names(true).contains(&"--unsafe-no-fsync".to_owned()));
    }

    #[test]
    fn extra_arguments_come_last_and_so_win() {
        let args = etcd(&layout(), 1, 2, true, &["--v=4".to_owned()]);
        assert_eq!(args.last().map(OsString::as_os_str), Some("--v=4".as_ref()));
    }
}
