//! Which port of this machine stands for a container's port.
//!
//! All pods share the loopback address, so that two pods of one Deployment, which overlap during
//! every rollout, cannot both have the port that their image listens on. Every start of a container
//! gets a map of its own; a port is drawn when command, probe or forward first mentions it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::host::ports::{PortError, PortPicker, release};

/// The ports of one start of a container. Clones share the map; the last one gives the ports back.
#[derive(Clone, Debug)]
pub struct PortMap {
    picker: Arc<PortPicker>,
    drawn: Arc<Mutex<Drawn>>,
}

/// Ports of this machine by the container's.
#[derive(Debug, Default)]
struct Drawn(BTreeMap<u16, u16>);

impl Drop for Drawn {
    fn drop(&mut self) {
        release(self.0.values().copied());
    }
}

impl PortMap {
    /// A map without any port.
    #[must_use]
    pub fn new(picker: Arc<PortPicker>) -> Self {
        Self {
            picker,
            drawn: Arc::default(),
        }
    }

    /// The port on 127.0.0.1 that stands for this container port, drawn now if nobody asked before.
    ///
    /// # Errors
    ///
    /// [`PortError`] when no port is free.
    pub fn host(&self, container_port: u16) -> Result<u16, PortError> {
        let mut drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(port) = drawn.0.get(&container_port) {
            return Ok(*port);
        }
        let port = self.picker.next()?;
        drawn.0.insert(container_port, port);
        Ok(port)
    }

    /// The same, but only if it was drawn before.
    #[must_use]
    pub fn known(&self, container_port: u16) -> Option<u16> {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.0.get(&container_port).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_drawn_once_and_not_shared_between_starts() {
        let picker = Arc::new(PortPicker::new());
        let (old, new) = (PortMap::new(Arc::clone(&picker)), PortMap::new(picker));
        let port = old.host(8080).expect("a free port");
        assert_eq!(old.clone().host(8080).expect("the same"), port);
        assert_ne!(new.host(8080).expect("another one"), port);
        assert_eq!(new.known(8081), None);
    }
}
