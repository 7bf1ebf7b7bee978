//! The embedded agent: serves the container calls of a Mesos agent, runs process containers under a shim
