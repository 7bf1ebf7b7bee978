//! Connect to a CSI endpoint, wait for its socket, probe it, detect its API version, watch it
