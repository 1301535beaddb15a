"""The command line: `fleet`, a module a group of commands. Talks to a fleet's gateway over HTTP."""
