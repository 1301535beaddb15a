"""Scenarios as files: what people write (`schema`), and what the twin runs (`load`, `streams`, `demand`)."""
