"""The arbiter's ports on real things: Ray's nodes, groups, jobs and KV, processes, the clock."""
