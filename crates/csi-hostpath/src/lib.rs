//! The bundled CSI driver: directories of the host as volumes (CSI v0 and v1)
