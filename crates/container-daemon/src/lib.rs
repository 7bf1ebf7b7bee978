//! Keep one container running: pre-launch, launch, hooks, wait, back off, again
