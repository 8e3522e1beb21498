"""Which rows of a table are in the gate: those of a test that is marked `rows`.

    @pytest.mark.rows                  as few as have each value of each parameter at least once
    @pytest.mark.rows("a", "b-c")      those with one of these ids

The nightly run has all rows.
"""


def left_out(items):
    """The items that the gate leaves out."""
    tables = {}
    for item in items:
        if mark := item.get_closest_marker("rows"):
            tables.setdefault(item.nodeid.split("[", 1)[0], (mark.args, []))[1].append(item)
    return [item for ids, rows in tables.values() for item in (not_named(ids, rows) if ids else repeated(rows))]


def not_named(ids, rows):
    kept = [item for item in rows if item.callspec.id in ids]
    unknown = set(ids) - {item.callspec.id for item in kept}
    # With `-k` or a node id, not all rows are there.
    if unknown and kept:
        raise ValueError(f"{rows[0].nodeid}: no row has the id {', '.join(sorted(unknown))}")
    return [item for item in rows if item not in kept]


def repeated(rows):
    """Those whose values others have; rows with many values that none has yet go first."""
    values = {item: {(name, repr(value)) for name, value in item.callspec.params.items()} for item in rows}
    missing = set().union(*values.values())
    kept = set()
    while missing:
        best = max(rows, key=lambda item: len(values[item] & missing))
        missing -= values[best]
        kept.add(best)
    return [item for item in rows if item not in kept]
