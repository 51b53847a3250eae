//! Records as bytes: CBOR with numbered fields, so that later versions can add some.
