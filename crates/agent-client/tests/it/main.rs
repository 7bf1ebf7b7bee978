//! The client against the scripted fake agent.
