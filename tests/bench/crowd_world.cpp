// The world of the relay's tests, which the benchmark shares; its own suite compiles it for itself.
#include "relay/relay_world.cpp"
