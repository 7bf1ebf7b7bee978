//! What handlers answer, and what is taken for an answer.

use std::error::Error;

use longshore_nri_api::{ContainerAdjustment, ContainerEviction, ContainerUpdate, EventMask};

/// Any error of a handler: `?` makes one of every error type, and of `anyhow::Error`.
///
/// The runtime is told the text of the error and of its sources, with status 2. To choose the
/// status, return a [`Status`](crate::Status).
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// What a handler answers.
pub type HandlerResult<T> = Result<T, HandlerError>;

/// The answer to a container's creation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CreateReply {
    /// What is changed about the container.
    pub adjustment: ContainerAdjustment,
    /// Changes to the resources of other containers.
    pub updates: Vec<ContainerUpdate>,
    /// Containers that should be stopped. Runtimes that use the Go adaptation ignore them.
    pub evictions: Vec<ContainerEviction>,
}

/// The answer to an update of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateReply {
    /// Changes to the resources of this container and of others.
    pub updates: Vec<ContainerUpdate>,
    /// Containers that should be stopped. Runtimes that use the Go adaptation ignore them.
    pub evictions: Vec<ContainerEviction>,
}

impl From<()> for CreateReply {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<ContainerAdjustment> for CreateReply {
    fn from(adjustment: ContainerAdjustment) -> Self {
        Self {
            adjustment,
            ..Self::default()
        }
    }
}

impl From<Option<ContainerAdjustment>> for CreateReply {
    fn from(adjustment: Option<ContainerAdjustment>) -> Self {
        adjustment.unwrap_or_default().into()
    }
}

impl From<(ContainerAdjustment, Vec<ContainerUpdate>)> for CreateReply {
    fn from((adjustment, updates): (ContainerAdjustment, Vec<ContainerUpdate>)) -> Self {
        Self {
            adjustment,
            updates,
            ..Self::default()
        }
    }
}

impl From<()> for UpdateReply {
    fn from((): ()) -> Self {
        Self::default()
    }
}

impl From<Vec<ContainerUpdate>> for UpdateReply {
    fn from(updates: Vec<ContainerUpdate>) -> Self {
        Self {
            updates,
            ..Self::default()
        }
    }
}

/// Makes the answer of a handler out of what its author finds natural to return: `()`, or a
/// `Result` with anything that converts into the answer, and any error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no answer of this handler, which answers with `{T}`",
    label = "return nothing, `{T}`, or a Result of it",
    note = "the success of a Result must convert into `{T}`, its error into `HandlerError`"
)]
pub trait IntoAnswer<T> {
    /// The answer.
    ///
    /// # Errors
    /// What the handler failed with.
    fn into_answer(self) -> HandlerResult<T>;
}

impl<T, U: Into<T>, E: Into<HandlerError>> IntoAnswer<T> for Result<U, E> {
    fn into_answer(self) -> HandlerResult<T> {
        self.map(Into::into).map_err(Into::into)
    }
}

impl IntoAnswer<()> for () {
    fn into_answer(self) -> HandlerResult<()> {
        Ok(())
    }
}

impl IntoAnswer<EventMask> for () {
    fn into_answer(self) -> HandlerResult<EventMask> {
        Ok(EventMask::NONE)
    }
}

impl IntoAnswer<Vec<ContainerUpdate>> for () {
    fn into_answer(self) -> HandlerResult<Vec<ContainerUpdate>> {
        Ok(Vec::new())
    }
}

impl IntoAnswer<CreateReply> for () {
    fn into_answer(self) -> HandlerResult<CreateReply> {
        Ok(CreateReply::default())
    }
}

impl IntoAnswer<UpdateReply> for () {
    fn into_answer(self) -> HandlerResult<UpdateReply> {
        Ok(UpdateReply::default())
    }
}

/// Answers of handlers that cannot fail.
macro_rules! answers {
    ($($answer:ty => $reply:ty;)*) => {$(
        impl IntoAnswer<$reply> for $answer {
            fn into_answer(self) -> HandlerResult<$reply> {
                Ok(self.into())
            }
        }
    )*};
}
answers! {
    EventMask => EventMask;
    Vec<ContainerUpdate> => Vec<ContainerUpdate>;
    Vec<ContainerUpdate> => UpdateReply;
    UpdateReply => UpdateReply;
    CreateReply => CreateReply;
    ContainerAdjustment => CreateReply;
    Option<ContainerAdjustment> => CreateReply;
    (ContainerAdjustment, Vec<ContainerUpdate>) => CreateReply;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natural_answers_become_answers() {
        let unit: HandlerResult<()> = ().into_answer();
        assert!(unit.is_ok());
        let adjustment = ContainerAdjustment::default();
        let reply: HandlerResult<CreateReply> = Ok::<_, String>(adjustment).into_answer();
        assert_eq!(reply.unwrap(), CreateReply::default());
        let failed: HandlerResult<()> = Err::<(), _>("no").into_answer();
        assert_eq!(failed.unwrap_err().to_string(), "no");
    }
}
