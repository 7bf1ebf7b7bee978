//! Directory layout and identifiers of Longshore: format and parse, no I/O
