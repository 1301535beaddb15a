"""The arbiter: observe, decide, journal, act. Talks to the world through `ports` only; imports no Ray."""
