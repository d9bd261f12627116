//! The ports that a forward asks for.

/// Each port takes two of the 256 channels.
const MOST: usize = 128;

/// The query names no ports that could be forwarded. The words are the kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortsError {
    #[error("query parameter \"port\" is required")]
    Missing,
    #[error("query parameter \"port\" cannot be empty")]
    Empty,
    #[error("unable to parse {0:?} as a port")]
    NotAPort(String),
    #[error("port {0:?} must be > 0")]
    Zero(String),
    #[error("{0} ports are more than the {MOST} that one websocket has channels for")]
    TooMany(usize),
}

/// The API server joins ports with commas; given apart they are read as well.
pub(super) fn parse(query: &str) -> Result<Vec<u16>, PortsError> {
    let mut ports = Vec::new();
    for (_, value) in form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == "port") {
        if value.is_empty() {
            return Err(PortsError::Empty);
        }
        for port in value.split(',') {
            match port.parse() {
                Ok(0) => return Err(PortsError::Zero(value.into_owned())),
                Ok(number) => ports.push(number),
                Err(_) => return Err(PortsError::NotAPort(value.into_owned())),
            }
        }
    }
    match ports.len() {
        0 => Err(PortsError::Missing),
        count if count > MOST => Err(PortsError::TooMany(count)),
        _ => Ok(ports),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_come_joined_or_apart_and_keep_their_order() {
        assert_eq!(parse("port=8080"), Ok(vec![8080]));
        assert_eq!(parse("port=8080%2C9999"), Ok(vec![8080, 9999]));
        assert_eq!(
            parse("port=9999&x=1&port=8080,65535"),
            Ok(vec![9999, 8080, 65_535])
        );
    }

    #[test]
    fn nothing_else_is_a_port() {
        for (query, error) in [
            ("", PortsError::Missing),
            ("ports=8080", PortsError::Missing),
            ("port=", PortsError::Empty),
            ("port=0", PortsError::Zero("0".to_owned())),
            ("port=http", PortsError::NotAPort("http".to_owned())),
            ("port=1,65536", PortsError::NotAPort("1,65536".to_owned())),
            ("port=1,", PortsError::NotAPort("1,".to_owned())),
        ] {
            assert_eq!(parse(query), Err(error), "{query}");
        }
        let many = vec!["1"; MOST + 1].join(",");
        assert_eq!(
            parse(&format!("port={many}")),
            Err(PortsError::TooMany(MOST + 1))
        );
    }
}
