"""The benchmark of our decoders beside the libraries: it runs, and both ways take part."""

import pytest

from headrace.io.engines import engines

pytest.importorskip("PIL")


@pytest.mark.usefixtures("own_engines")  # which it switches itself, and leaves so
@pytest.mark.parametrize("engine", ["jpeg", "png"])
def test_every_case_is_timed_both_ways(engine, capsys):
    from benchmarks.micro.engines import main

    main([engine, "--rounds", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith(engine) and " own " in line and " library " in line for line in lines)
    assert engines().choice == "own"
