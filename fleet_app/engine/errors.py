"""The two kinds of error that the project raises, and nothing else raises them for it.

Knows what is wrong, where, and what to do about it. Does not know how an error is shown.
"""


class FleetError(Exception):
    """Base of every error that the fleet raises on purpose."""

    exit_code = 1
    http_status = 500

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        """Say what is wrong, where (a path such as `teams.research.nominal`), and what to do."""
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(self.sentence())

    def sentence(self) -> str:
        """Return the error as one line: where, what, fix."""
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}. {self.fix}" if self.fix else head


class RequestError(FleetError):
    """The caller can fix it: exit code 2, HTTP 4xx. Nothing was changed."""

    exit_code = 2
    http_status = 400


class NotFoundError(RequestError):
    """The caller names something that is not there: HTTP 404."""

    http_status = 404


class ConflictError(RequestError):
    """The caller asks for what the state of a thing does not allow: HTTP 409."""

    http_status = 409


class FaultError(FleetError):
    """We, or what we stand on, must fix it: exit code 1, HTTP 5xx."""


class IllegalTransitionError(FaultError):
    """A lifecycle event that the table does not allow in that phase; nothing was changed."""
