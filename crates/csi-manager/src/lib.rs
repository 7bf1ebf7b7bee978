//! The CSI service manager: recover, record, launch, probe, hand out endpoints
