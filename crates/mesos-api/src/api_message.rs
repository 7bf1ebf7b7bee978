use crate::v1;

/// A message of the API: what [`crate::decode`] and [`crate::json`] know how to handle.
///
/// Sealed: the name must be one of the embedded descriptors.
pub trait ApiMessage: prost::Message + Default + sealed::Sealed {
    /// The protobuf name, e.g. `mesos.v1.agent.Call`.
    const FULL_NAME: &'static str;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! api_messages {
    ($($name:literal => $ty:ty,)+) => {$(
        impl sealed::Sealed for $ty {}
        impl ApiMessage for $ty {
            const FULL_NAME: &'static str = $name;
        }
    )+

        /// Every name given above, for the test that looks each up.
        #[cfg(test)]
        pub(crate) const ALL: &[&str] = &[$($name),+];
    };
}

api_messages! {
    "mesos.v1.agent.Call" => v1::agent::Call,
    "mesos.v1.agent.Response" => v1::agent::Response,
    "mesos.v1.agent.ProcessIO" => v1::agent::ProcessIo,
    "mesos.v1.agent.Call.LaunchContainer" => v1::agent::call::LaunchContainer,
    "mesos.v1.agent.Response.WaitContainer" => v1::agent::response::WaitContainer,
    "mesos.v1.agent.Response.GetContainers" => v1::agent::response::GetContainers,
    "mesos.v1.agent.Response.GetContainers.Container" => v1::agent::response::get_containers::Container,
    "mesos.v1.executor.Call" => v1::executor::Call,
    "mesos.v1.executor.Event" => v1::executor::Event,
    "mesos.v1.AgentInfo" => v1::AgentInfo,
    "mesos.v1.CheckInfo" => v1::CheckInfo,
    "mesos.v1.CheckStatusInfo" => v1::CheckStatusInfo,
    "mesos.v1.CommandInfo" => v1::CommandInfo,
    "mesos.v1.ContainerID" => v1::ContainerId,
    "mesos.v1.ContainerInfo" => v1::ContainerInfo,
    "mesos.v1.ContainerStatus" => v1::ContainerStatus,
    "mesos.v1.CSIPluginInfo" => v1::CsiPluginInfo,
    "mesos.v1.CSIPluginContainerInfo" => v1::CsiPluginContainerInfo,
    "mesos.v1.Environment" => v1::Environment,
    "mesos.v1.HealthCheck" => v1::HealthCheck,
    "mesos.v1.Resource" => v1::Resource,
    "mesos.v1.TaskInfo" => v1::TaskInfo,
    "mesos.v1.TaskStatus" => v1::TaskStatus,
    "mesos.v1.VersionInfo" => v1::VersionInfo,
}
