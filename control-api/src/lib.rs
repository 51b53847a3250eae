//! Wire types of the control socket.
