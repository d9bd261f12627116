//! Everything said to an API server.
