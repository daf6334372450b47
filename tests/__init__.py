"""The tests mirror the package: what `paceline/cache/disk.py` promises is in `tests/cache/test_disk.py`.

What only several modules together can show (exactness, faults, memory, a whole server) is in `tests/integration`.
`tests/test_mirror.py` holds both to it.

`make test` runs some of every kind, `make test-all` all of it (`tests/lengths.py`). A test waits for what happens
(`tests/waiting.py`), measures memory when nothing is under way (`tests/memory.py`), and compares no times.
"""
