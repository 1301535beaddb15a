"""The gateway: Ray's Jobs API and the fleet's control API over HTTP, in a process of its own; imports no Ray."""
