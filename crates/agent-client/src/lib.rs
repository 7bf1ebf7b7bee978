//! Client of a Mesos agent's operator API over TCP, Unix socket or TLS
