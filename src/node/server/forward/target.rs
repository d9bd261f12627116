//! Which port of this machine stands for a port of a pod.

use std::fmt::Write as _;

use crate::node::view::{ContainerView, PodView};

/// The port on 127.0.0.1, or why there is none.
///
/// A process that was told of the port comes first, then the container that declares it. After them
/// the first that runs: ports need not be declared.
pub(super) fn of(pod: &PodView, port: u16) -> Result<u16, String> {
    let known = containers(pod).find_map(|(_, view)| view.ports.as_ref()?.known(port));
    if let Some(known) = known {
        return Ok(known);
    }
    let declaring = containers(pod).find(|(_, view)| view.declared_ports.contains(&port));
    let running = || containers(pod).find(|(_, view)| view.ports.is_some());
    let Some((name, view)) = declaring.or_else(running) else {
        return Err("no process stands behind this pod".to_owned());
    };
    match &view.ports {
        Some(ports) => ports.host(port).map_err(|error| error.to_string()),
        None if view.running => Err(format!("no process stands behind container {name:?}")),
        None => Err(format!("container {name:?} is not running")),
    }
}

/// What to use where port-forward does not work: the ports of this machine themselves.
pub(super) fn instead(pod: &PodView) -> String {
    let mut text = "this node forwards ports over websockets of v4.channel.k8s.io only, which \
                    kubectl does not speak: connect to the pod's own ports on this machine"
        .to_owned();
    let mut separator = ", ";
    for (_, view) in containers(pod) {
        for port in &view.declared_ports {
            if let Some(host) = view.ports.as_ref().and_then(|ports| ports.known(*port)) {
                // Writing to a string cannot fail.
                let _ = write!(text, "{separator}127.0.0.1:{host} for {port}");
                separator = " and ";
            }
        }
    }
    text
}

/// In the order of the spec, and after them those that are not in it: init containers.
fn containers(pod: &PodView) -> impl Iterator<Item = (&str, &ContainerView)> {
    let named = pod.order.iter().filter_map(|name| {
        let (name, view) = pod.containers.get_key_value(name)?;
        Some((name.as_str(), view))
    });
    let others = pod
        .containers
        .iter()
        .filter(|(name, _)| !pod.order.contains(name))
        .map(|(name, view)| (name.as_str(), view));
    named.chain(others)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::host::ports::PortPicker;
    use crate::node::port_map::PortMap;

    fn ports() -> PortMap {
        PortMap::new(Arc::new(PortPicker::new()))
    }

    fn container(ports: Option<&PortMap>, declared: &[u16]) -> ContainerView {
        ContainerView {
            running: ports.is_some(),
            ports: ports.cloned(),
            declared_ports: declared.to_vec(),
            ..ContainerView::default()
        }
    }

    fn pod<const N: usize>(containers: [(&str, ContainerView); N]) -> PodView {
        PodView {
            uid: "u".to_owned(),
            order: containers
                .iter()
                .map(|(name, _)| (*name).to_owned())
                .filter(|name| !name.starts_with("init"))
                .collect(),
            containers: containers
                .into_iter()
                .map(|(name, view)| (name.to_owned(), view))
                .collect(),
        }
    }

    #[test]
    fn who_knows_the_port_goes_before_who_declares_it_and_that_before_the_first() {
        let (first, second, init) = (ports(), ports(), ports());
        let pod = pod([
            ("b", container(Some(&first), &[8081])),
            ("a", container(Some(&second), &[8080])),
            ("init", container(Some(&init), &[])),
        ]);
        let known = second.host(8081).expect("a free port");
        assert_eq!(of(&pod, 8081), Ok(known));
        let declared = of(&pod, 8080).expect("a port");
        assert_eq!(second.known(8080), Some(declared));
        let undeclared = of(&pod, 9999).expect("a port");
        assert_eq!(first.known(9999), Some(undeclared));
        let of_init = init.host(7000).expect("a free port");
        assert_eq!(of(&pod, 7000), Ok(of_init));
    }

    #[test]
    fn without_a_process_there_is_no_port() {
        let running = ContainerView {
            running: true,
            ..container(None, &[8080])
        };
        let why = |view| of(&pod([("web", view)]), 8080).expect_err("no process");
        assert_eq!(why(running), "no process stands behind container \"web\"");
        assert_eq!(
            why(container(None, &[8080])),
            "container \"web\" is not running"
        );
        assert_eq!(
            why(container(None, &[])),
            "no process stands behind this pod"
        );
    }

    #[test]
    fn the_way_out_names_the_ports_that_are_in_use() {
        let map = ports();
        let pod = pod([("web", container(Some(&map), &[8080, 8081]))]);
        assert!(instead(&pod).ends_with("connect to the pod's own ports on this machine"));
        let one = map.host(8080).expect("a free port");
        assert!(instead(&pod).ends_with(&format!("machine, 127.0.0.1:{one} for 8080")));
        let two = map.host(8081).expect("a free port");
        let both = format!("127.0.0.1:{one} for 8080 and 127.0.0.1:{two} for 8081");
        assert!(instead(&pod).ends_with(&both));
    }
}
