"""The library inside jobs and replicas: membership of a gang, drain notice, acknowledgement, heartbeat."""
