"""The test world: a LAN, a mesh and an internet in network namespaces, without an uplink. See docs/test-world.md."""
