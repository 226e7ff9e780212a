"""Comparing a remote source with a local one."""

import headrace as hr


def alike(url, path, **options):
    """The same examples, in order and shuffled."""
    there, here = hr.open(url, **options), hr.open(path, **options)
    assert there.schema == here.schema
    assert [str(example) for example in there] == [str(example) for example in here]
    batches = [[str(b) for b in hr.Loader(source, 32, shuffle=True, seed=1)] for source in (there, here)]
    assert batches[0] == batches[1]
    return len(there)
