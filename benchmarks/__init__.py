"""Research benches of the engine and the server; not part of the wheel."""
