"""The placement groups that live, kept up to date at the cost of what changed.

Ray's own table holds every group that ever was, so asking for it each cycle grows dearer for ever. Its nodes, though,
say in their resources which bundles they hold. So the table is read once; from then on a group is asked for by its
id only when nodes say something else of it than what is known here. A group that has no bundle on any node, and
that nobody told us of, is not seen: it holds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet_app.adapters import private


class Groups:
    """The groups as of the last look."""

    def __init__(self) -> None:
        self._known: dict[str, private.GroupFact] | None = None

    def look(self, resources: Mapping[str, private.Resources]) -> tuple[private.GroupFact, ...]:
        """Return the groups that live, by id; `resources` are those of the nodes, as read just now."""
        if self._known is None:
            self._known = {group.group_id: group for group in private.groups()}
        placed = private.placements(resources)
        for group_id in sorted(self._known.keys() | placed.keys()):
            known = self._known.get(group_id)
            # What does not fit is either news, or a view of the nodes that is 0.1 s late: the table itself decides.
            if known is None or known.state != private.CREATED or known.placed != placed.get(group_id):
                self.note(group_id)
        return tuple(self._known[group_id] for group_id in sorted(self._known))

    def note(self, group_id: str) -> None:
        """Read one group anew: it was made or removed just now, or nodes say so."""
        if self._known is None:
            return
        group = private.group_by_id(group_id)
        if group is None:
            self._known.pop(group_id, None)
        else:
            self._known[group_id] = group
